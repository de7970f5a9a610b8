//! Builds of the project: `operetta build` in a process of its own, so that a build that hangs or
//! crashes harms nothing.

use std::{
    io,
    path::PathBuf,
    process::{Output, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use operetta_wasm::Engine;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Command;

use super::{
    super::build::{Project, Tools},
    interpreter::{Interpreter, Outcome},
};
use crate::args::Language;

/// The outcome of a build.
pub struct Built {
    /// The component.
    pub output: PathBuf,
    /// A remark to print once.
    pub note: Option<String>,
    /// How long it took.
    pub took: Duration,
    /// The compiler's messages, if it failed.
    pub failure: Option<String>,
}

/// Builds a project.
pub struct Builder {
    project: Project,
    /// The interpreter that spares builds; None for a language or a project without one.
    interpreter: Option<Interpreter>,
    /// The arguments of the language for fast builds, with the author's.
    arguments: Vec<String>,
    /// The check of types, for a language whose build can do without it.
    check: Option<PathBuf>,
}

/// Tells the linker to leave out the DWARF: nine tenths of its output, which `operetta build` would
/// strip anyway. Only the last step gets these arguments, so that dependencies built by other cargo
/// commands are reused.
const RUSTC: [&str; 3] = ["--", "-C", "strip=debuginfo"];

/// The arguments of `operetta build` that speed up builds of a language, with the author's own
/// compiler arguments.
fn arguments(language: Language, checks_types: bool, author: &[String]) -> Vec<String> {
    let (build, before, after): (&[&str], &[&str], &[&str]) = match language {
        // The author's own arguments of rustc replace these.
        Language::Rust if author.iter().any(|argument| argument == "--") => (&[], &[], &[]),
        Language::Rust => (&[], &[], &RUSTC),
        // The snapshot compiles the whole program once more, which takes longer than everything
        // else.
        Language::Go => (&["--no-snapshot"], &[], &[]),
        Language::TypeScript if checks_types => (&[], &["--no-check"], &[]),
        Language::TypeScript | Language::Python | Language::C | Language::Cpp | Language::Zig => {
            (&[], &[], &[])
        }
    };

    let texts = |texts: &[&str]| {
        texts
            .iter()
            .map(|&text| text.to_owned())
            .collect::<Vec<_>>()
    };

    let compiler = [texts(before), author.to_vec(), texts(after)].concat();
    let separator = if compiler.is_empty() {
        Vec::new()
    } else {
        texts(&["--"])
    };
    [texts(build), separator, compiler].concat()
}

impl Builder {
    /// Creates a builder that writes into the folder `build`. Compiler arguments from the author
    /// need a compiler, so they rule out the interpreter.
    pub fn new(project: Project, engine: &Engine, author: &[String]) -> Self {
        let has_types =
            project.language == Language::TypeScript && project.dir.join("tsconfig.json").is_file();
        let check = has_types
            .then(|| Tools::of(&project.dir).look_for("tsc"))
            .flatten();

        let interpreter = if author.is_empty() {
            Interpreter::of(&project, engine)
        } else {
            None
        };

        let arguments = arguments(project.language, check.is_some(), author);
        Self {
            project,
            interpreter,
            arguments,
            check,
        }
    }

    /// Tells the interpreter about changed files.
    pub fn follow(&mut self, changed: &[PathBuf]) {
        if let Some(interpreter) = &mut self.interpreter {
            interpreter.follow(changed);
        }
    }

    /// Checks the types of what was built, while its code already runs. Returns the messages if
    /// there are errors. Dropping the future ends the check.
    pub async fn check_types(&self) -> Option<String> {
        let mut command = Command::new(self.check.as_ref()?);
        command
            .arg("--noEmit")
            .arg("--pretty")
            .arg("false")
            .current_dir(&self.project.dir);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());

        let output = output_of(&mut command)
            .await
            .ok()
            .filter(|output| !output.status.success())?;

        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Prepares the source for the interpreter, or builds the component if there is none. Dropping
    /// the future ends the build.
    ///
    /// # Errors
    /// Returns an error if a process cannot be started.
    pub async fn build(&mut self) -> Result<Built> {
        let started = Instant::now();
        let Some(interpreter) = &mut self.interpreter else {
            return self.build_component(started).await;
        };

        let output = interpreter.output.clone();
        let failure = match interpreter.prepare(&self.project).await? {
            Outcome::Ready => None,
            Outcome::Failed(message) => Some(message),
            Outcome::Unsupported(reason) => {
                let mut built = self.build_component(started).await?;
                if built.failure.is_none() {
                    // Otherwise the author's code is wrong, and the next save may be interpreted
                    // again.
                    self.interpreter = None;
                    built.note = Some(format!(
                        "each save builds the component, because the interpreter cannot run it: {reason}"
                    ));
                }
                return Ok(built);
            }
        };

        Ok(Built {
            output,
            note: None,
            took: started.elapsed(),
            failure,
        })
    }

    async fn build_component(&self, started: Instant) -> Result<Built> {
        let output_file = self
            .project
            .dir
            .join("build")
            .join(format!("{}.wasm", self.project.name));

        let program = std::env::current_exe().context("failed to find this program")?;
        let mut command = Command::new(program);
        command
            .arg("build")
            .arg(&self.project.dir)
            .arg("--debug")
            .arg("--fast")
            .arg("--output")
            .arg(&output_file);
        command.args(&self.arguments);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());

        let output = output_of(&mut command)
            .await
            .context("failed to start `operetta build`")?;
        let failure = (!output.status.success())
            .then(|| String::from_utf8_lossy(&output.stderr).trim().to_owned());

        Ok(Built {
            output: output_file,
            note: None,
            took: started.elapsed(),
            failure,
        })
    }
}

/// Runs a command and returns its output. Dropping the future ends it with everything that it has
/// started: a compiler that goes on would take processor time from the next build, and write to the
/// cache that both use.
async fn output_of(command: &mut Command) -> io::Result<Output> {
    let child = command.process_group(0).spawn()?;
    let mut group = Group(
        child
            .id()
            .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)),
    );
    let output = child.wait_with_output().await;
    // Its id may be another's from now on.
    group.0 = None;
    output
}

/// A process group that ends when this is dropped.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            let _gone_already = kill_process_group(leader, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn outdated_build_ends_with_its_compiler() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("id");
        let mut command = Command::new("sh");
        command
            .args(["-c", "sleep 600 & echo $! >\"$0\"; wait"])
            .arg(&file);

        let running = tokio::time::timeout(Duration::from_secs(60), output_of(&mut command));
        let started = async {
            loop {
                let id = std::fs::read_to_string(&file).unwrap_or_default();
                if let Ok(id) = id.trim().parse::<u32>() {
                    return id;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let id = tokio::select! {
            output = running => panic!("it ended: {output:?}"),
            id = started => id,
        };

        // Whoever inherits it may take a moment to reap it.
        let is_running = || {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            stat.contains("(sleep)") && !stat.contains(") Z ")
        };
        for _ in 0..1_000 {
            if !is_running() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("the process {id} still runs");
    }

    #[test]
    fn arguments_of_the_author_come_before_those_of_the_linker() {
        let arguments = |language: Language, author: &[&str]| {
            let author: Vec<String> = author.iter().map(|&argument| argument.to_owned()).collect();
            arguments(language, true, &author).join(" ")
        };
        assert_eq!(arguments(Language::Rust, &[]), "-- -- -C strip=debuginfo");
        assert_eq!(
            arguments(Language::Rust, &["--release"]),
            "-- --release -- -C strip=debuginfo"
        );
        assert_eq!(
            arguments(Language::Rust, &["-r", "--", "-g"]),
            "-- -r -- -g"
        );
        assert_eq!(arguments(Language::Go, &[]), "--no-snapshot");
        assert_eq!(arguments(Language::Go, &["-x"]), "--no-snapshot -- -x");
        assert_eq!(arguments(Language::TypeScript, &["-a"]), "-- --no-check -a");
        assert_eq!(arguments(Language::C, &[]), "");
    }
}
