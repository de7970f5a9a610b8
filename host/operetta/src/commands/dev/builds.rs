//! Builds of the project: `operetta build` in a process of its own, so that a build that hangs or crashes harms nothing.

use std::{
    path::PathBuf,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use tokio::process::Command;

use super::super::build::{Project, Tools};
use crate::args::Language;

/// The outcome of a build.
pub struct Built {
    /// The time that it took.
    pub took: Duration,
    /// The compiler's messages, if it failed.
    pub failure: Option<String>,
}

/// Builds a project.
pub struct Builder {
    project: PathBuf,
    /// The component.
    pub output: PathBuf,
    /// The flags of the language for fast builds.
    flags: Vec<&'static str>,
    /// The check of types, for a language whose build can do without it.
    check: Option<PathBuf>,
}

/// The flags for Rust: the linker leaves out the DWARF, nine tenths of its output, which `operetta build` would remove again. They
/// concern the last step only, so that the dependencies are those that other commands of cargo have compiled.
const RUST: [&str; 4] = ["--", "--", "-C", "strip=debuginfo"];

/// Returns the flags of `operetta build` for a language, besides those for all languages.
fn flags(language: Language, checks_types: bool) -> Vec<&'static str> {
    match language {
        Language::Rust => RUST.to_vec(),
        // The snapshot compiles the whole program once more, which takes longer than all else.
        Language::Go => vec!["--no-snapshot"],
        Language::TypeScript if checks_types => vec!["--", "--no-check"],
        Language::TypeScript | Language::Python | Language::C | Language::Cpp | Language::Zig => Vec::new(),
    }
}

impl Builder {
    /// Creates a builder that writes `build/NAME.wasm`.
    pub fn new(project: &Project) -> Self {
        let output = project.dir.join("build").join(format!("{}.wasm", project.name));
        let has_types = project.language == Language::TypeScript && project.dir.join("tsconfig.json").is_file();
        let check = has_types.then(|| Tools::of(&project.dir).look_for("tsc")).flatten();
        let flags = flags(project.language, check.is_some());
        Self { project: project.dir.clone(), output, flags, check }
    }

    /// Checks the types of what was built, beside the code that runs already. Returns the messages if some are wrong. When
    /// this is dropped, the check ends.
    pub async fn check_types(&self) -> Option<String> {
        let mut command = Command::new(self.check.as_ref()?);
        command.arg("--noEmit").arg("--pretty").arg("false").current_dir(&self.project);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let output = command.output().await.ok().filter(|output| !output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Builds once. When this is dropped, the build ends.
    ///
    /// # Errors
    /// Returns an error if the process cannot be started.
    pub async fn build(&self) -> Result<Built> {
        let started = Instant::now();
        let program = std::env::current_exe().context("failed to find this program")?;
        let mut command = Command::new(program);
        command.arg("build").arg(&self.project).arg("--debug").arg("--fast").arg("--output").arg(&self.output);
        command.args(&self.flags);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let output = command.output().await.context("failed to start `operetta build`")?;
        let failure = (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).trim().to_owned());
        Ok(Built { took: started.elapsed(), failure })
    }
}
