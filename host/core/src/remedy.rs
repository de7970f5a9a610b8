//! Commands for people to solve a problem with, and the sentences around them.
//!
//! Parts of a command come from tenants: names in a request, an annotation's text. An administrator
//! pastes the command into a shell. So a command is a list of arguments, quoted by a single
//! function. If an argument looks unlike any Kubernetes name or flag, we give no command at all:
//! nothing printed may be mistaken for something else by the shell, the terminal or a hurried
//! reader.

use std::fmt::{self, Write as _};

/// A command: program and arguments, in the form `execve` takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command(Vec<String>);

impl Command {
    /// Creates a command. Returns None if an argument is empty or contains anything but visible
    /// ASCII.
    pub fn new(arguments: impl IntoIterator<Item = impl Into<String>>) -> Option<Self> {
        let arguments: Vec<String> = arguments.into_iter().map(Into::into).collect();
        let is_visible =
            |text: &String| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        arguments.iter().all(is_visible).then_some(Self(arguments))
    }

    /// The program and its arguments.
    pub fn arguments(&self) -> &[String] {
        &self.0
    }
}

/// Formats the command so that a POSIX shell reads back exactly these arguments.
impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, argument) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_char(' ')?;
            }
            if is_plain(argument) {
                f.write_str(argument)?;
            } else {
                // Only a NUL cannot be quoted, and it is not visible.
                f.write_str(&shlex::try_quote(argument).map_err(|_| fmt::Error)?)?;
            }
        }
        Ok(())
    }
}

/// Whether an argument means the same to every shell with or without quotes. shlex would also quote
/// `=` and `,`, which are all over the commands here; shells treat them specially only at the
/// beginning of a word or within braces.
fn is_plain(argument: &str) -> bool {
    !argument.starts_with('=')
        && argument
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_./:=,@+".contains(&byte))
}

/// Commands to run one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy(Vec<Command>);

impl Remedy {
    /// Creates a remedy of one command, like [`Command::new`].
    pub fn new(arguments: impl IntoIterator<Item = impl Into<String>>) -> Option<Self> {
        Some(Self(vec![Command::new(arguments)?]))
    }

    /// Appends another remedy's commands. If either is missing, there is no remedy.
    #[must_use]
    pub fn then(mut self, next: Option<Self>) -> Option<Self> {
        self.0.extend(next?.0);
        Some(self)
    }

    /// The commands, in order.
    pub fn commands(&self) -> &[Command] {
        &self.0
    }
}

/// Formats the commands for a POSIX shell, stopping at the first failure.
impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, command) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(" && ")?;
            }
            write!(f, "{command}")?;
        }
        Ok(())
    }
}

/// A sentence for people, and the remedies in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advice {
    /// The sentence, with its remedies quoted for a shell.
    pub text: String,
    /// The remedies, in the order of the sentence.
    pub remedies: Vec<Remedy>,
}

impl Advice {
    /// Adds `before` and the remedy; nothing without a remedy.
    #[must_use]
    pub fn with(mut self, before: &str, remedy: Option<Remedy>) -> Self {
        if let Some(remedy) = remedy {
            let _infallible = write!(self.text, "{before}{remedy}");
            self.remedies.push(remedy);
        }
        self
    }

    /// Adds text.
    #[must_use]
    pub fn and(mut self, text: &str) -> Self {
        self.text.push_str(text);
        self
    }

    /// Joins sentences into one.
    pub fn join<'a>(all: impl IntoIterator<Item = &'a Self>, separator: &str) -> Self {
        let mut joined = Self::default();
        for (at, advice) in all.into_iter().enumerate() {
            if at > 0 {
                joined.text.push_str(separator);
            }
            joined.text.push_str(&advice.text);
            joined.remedies.extend(advice.remedies.iter().cloned());
        }
        joined
    }
}

impl From<String> for Advice {
    fn from(text: String) -> Self {
        Self {
            text,
            remedies: Vec::new(),
        }
    }
}

impl From<&str> for Advice {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use std::process;

    use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

    use super::*;

    /// What a shell makes of a command.
    fn arguments_in_shell(command: &Command) -> Vec<String> {
        let script =
            format!("set -- {command}; for argument; do printf '%s\\n' \"$argument\"; done");
        let output = process::Command::new("sh")
            .args(["-c", &script])
            .output()
            .expect("sh");
        assert!(output.status.success(), "{script}: {output:?}");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn shell_reads_back_the_arguments() {
        const PARTS: &[&str] = &[
            "$(",
            "curl$IFS$9evil",
            ")",
            "`id`",
            "'",
            "\"",
            "\\",
            ";",
            "&&",
            "|",
            ">",
            "<",
            "~",
            "!",
            "!!",
            "*",
            "?",
            "[a]",
            "{a,b}",
            "#",
            "=",
            "-n",
            "a",
            "Z9",
            "%s",
            "$HOME",
            "${x}",
        ];
        let seed = rand::random();
        let mut random = StdRng::seed_from_u64(seed);

        for _ in 0..200 {
            let arguments: Vec<String> = (0..random.random_range(1..5))
                .map(|_| {
                    let parts = 0..random.random_range(1..6);
                    parts
                        .map(|_| *PARTS.choose(&mut random).expect("some"))
                        .collect()
                })
                .collect();
            let command = Command::new(arguments.clone()).expect("visible");
            assert_eq!(
                arguments_in_shell(&command),
                arguments,
                "seed {seed}: {command}"
            );
        }
    }

    #[test]
    fn argument_that_is_not_visible_ascii_makes_no_command() {
        for argument in [
            "",
            "a b",
            "a\nb",
            "\u{1b}[2J",
            "a\u{202e}b",
            "é",
            "\0",
            "a\tb",
        ] {
            assert_eq!(Command::new(["kubectl", argument]), None, "{argument:?}");
        }
        let refused = Remedy::new(["a", " "]);
        assert_eq!(
            Remedy::new(["b"]).and_then(|remedy| remedy.then(refused)),
            None
        );
    }

    #[test]
    fn sentence_has_its_remedies() {
        let one = Advice::from("it may not").with(": ", Remedy::new(["kubectl", "a$b"]));
        assert_eq!(one.text, "it may not: kubectl 'a$b'");
        let none = Advice::from("it may not").with(": ", Remedy::new(["kubectl", "a b"]));
        assert_eq!(none, Advice::from("it may not"));

        let both = Advice::join([&one, &none], "; ").and("!");
        assert_eq!(both.text, "it may not: kubectl 'a$b'; it may not!");
        assert_eq!(both.remedies, one.remedies);
    }
}
