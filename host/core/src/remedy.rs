//! Commands for people to solve a problem with, and the sentences around them.
//!
//! Parts of a command come from tenants: names in a request, an annotation's text. An administrator
//! pastes the command into a shell. So a command is a list of arguments, quoted by a single
//! function. If an argument looks unlike any Kubernetes name or flag, we give no command at all:
//! nothing printed may be mistaken for something else by the shell, the terminal or a hurried
//! reader.

use std::{
    borrow::Cow,
    fmt::{self, Write as _},
};

use operetta_api::reasons::Reason;

use crate::object::ObjectKey;

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

/// The cure of a reason, in Markdown, with the Plugin's name and namespace in its commands instead of
/// the words PLUGIN and NAMESPACE, quoted for a shell.
///
/// ```
/// use operetta_api::reasons;
/// use operetta_core::{object::ObjectKey, remedy::cure_for};
///
/// let cure = cure_for(
///     reasons::MAP_TRAPPED,
///     &ObjectKey::namespaced("team-a", "sample-controller"),
/// );
/// assert!(cure.contains("`operetta logs sample-controller -n team-a`"));
/// ```
pub fn cure_for(reason: Reason, plugin: &ObjectKey) -> String {
    // Code is between backticks: each second part.
    let parts = reason.cure().split('`').enumerate().map(|(at, part)| {
        let is_code = at % 2 == 1;
        let filled = is_code.then(|| filled_in(part, plugin)).flatten();
        filled.map_or(Cow::Borrowed(part), Cow::Owned)
    });
    parts.collect::<Vec<_>>().join("`")
}

/// Fills in a command of a cure. None if it is no command, or if a name can't be part of one: a
/// placeholder is then better than a command that means something else.
fn filled_in(code: &str, plugin: &ObjectKey) -> Option<String> {
    let is_command = ["operetta ", "kubectl "]
        .iter()
        .any(|program| code.starts_with(program));
    let words = is_command.then(|| code.split(' '))?;

    let filled: Option<Vec<_>> = words.map(|word| fill_in(word, plugin)).collect();
    Some(filled?.join(" "))
}

/// Replaces the placeholder in a word of a command. All other words stay as they are, because they
/// may be shell syntax.
fn fill_in<'a>(word: &'a str, plugin: &ObjectKey) -> Option<Cow<'a, str>> {
    let (before, placeholder) = match word.rsplit_once('=') {
        Some((before, value)) => (format!("{before}="), value),
        None => (String::new(), word),
    };
    let value = match placeholder {
        "PLUGIN" => &plugin.name,
        "NAMESPACE" => plugin.namespace.as_ref()?,
        _ => return Some(Cow::Borrowed(word)),
    };

    // A word that begins with a dash is an option, and a backtick ends the code in Markdown.
    if value.starts_with('-') || value.contains('`') {
        return None;
    }
    let argument = Command::new([before + value])?;
    Some(Cow::Owned(argument.to_string()))
}

#[cfg(test)]
mod tests {
    use std::process;

    use operetta_api::reasons;
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
    fn cure_has_the_plugin_in_its_commands() {
        let plugin = ObjectKey::namespaced("team-a", "sample-controller");
        assert_eq!(
            cure_for(reasons::RECONCILE_FAILING, &plugin),
            "The message has the plugin's own error; `operetta logs sample-controller -n team-a` has what led to it."
        );

        let consent = cure_for(reasons::CONSENT_MISSING, &plugin);
        assert!(
            consent.contains(
                "`kubectl annotate serviceaccount NAME -n team-a operetta.dev/allow-plugins=sample-controller`"
            ),
            "the ServiceAccount's name isn't known: {consent}"
        );

        let retry = cure_for(reasons::CRASH_QUARANTINED, &plugin);
        assert!(
            retry.contains(
                "plugin sample-controller -n team-a --overwrite operetta.dev/retry=$(date +%s)`"
            ),
            "shell syntax stays: {retry}"
        );
    }

    #[test]
    fn only_placeholders_of_a_cure_are_replaced() {
        let placeholders = ObjectKey::namespaced("NAMESPACE", "PLUGIN");
        let plugin = ObjectKey::namespaced("ns", "p");
        for reason in reasons::all() {
            assert_eq!(cure_for(reason, &placeholders), reason.cure(), "{reason}");

            let cure = cure_for(reason, &plugin);
            for command in cure.split('`').skip(1).step_by(2) {
                let is_own = command.starts_with("operetta ") || command.starts_with("kubectl ");
                assert!(!(is_own && command.contains("PLUGIN")), "{reason}: {cure}");
            }
        }
    }

    #[test]
    fn name_in_a_cure_is_quoted_or_left_out() {
        let of = |name: &str| cure_for(reasons::CONSENT_MISSING, &ObjectKey::namespaced("n", name));
        let quoted = of("a$(id)");
        assert!(
            quoted.contains("-n n 'operetta.dev/allow-plugins=a$(id)'`"),
            "{quoted}"
        );

        for name in ["a b", "a`id`", "-f", "\u{1b}[2J", ""] {
            let cure = cure_for(reasons::MAP_TRAPPED, &ObjectKey::namespaced("n", name));
            assert_eq!(cure, reasons::MAP_TRAPPED.cure(), "{name:?}");
        }
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
