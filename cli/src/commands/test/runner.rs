//! The test runner of each language.

use std::{
    env,
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::{Context, Result, bail};

use super::ADDRESS;
use crate::{
    args::Language,
    commands::build::{Project, Tools, python},
};

/// The command that runs a project's tests.
pub struct Runner {
    command: Command,
    /// Files that the command needs.
    _scratch: Option<tempfile::TempDir>,
}

/// The runner for a project's language, with these arguments.
///
/// # Errors
/// Returns an error if the runner is missing, or the project has no tests for it.
pub fn of(project: &Project, args: &[String]) -> Result<Runner> {
    let tools = Tools::of(&project.dir);
    let mut scratch = None;

    let mut command = match project.language {
        Language::Rust => with(
            tools.find("cargo", "see https://rustup.rs")?.as_path(),
            &["test"],
        ),
        Language::Go => with(
            tools
                .find("go", "see https://go.dev/doc/install")?
                .as_path(),
            &["test", "./..."],
        ),
        Language::TypeScript => npm(project, &tools)?,
        Language::Python => {
            let folder = tempfile::tempdir().context("failed to create a temporary folder")?;
            let command = python::tests(&project.dir, &tools, folder.path())?;
            scratch = Some(folder);
            command
        }
        Language::C | Language::Cpp | Language::Zig => make(project, &tools)?,
    };

    command.current_dir(&project.dir).args(args);

    Ok(Runner {
        command,
        _scratch: scratch,
    })
}

impl Runner {
    /// Runs the tests against the server of this address. Returns their exit code.
    ///
    /// # Errors
    /// Returns an error if the runner does not start.
    pub async fn run(mut self, address: &str) -> Result<ExitCode> {
        self.command.env(ADDRESS, address);
        if let Ok(own) = env::current_exe() {
            self.command.env("OPERETTA", own);
        }

        let name = self.command.get_program().to_string_lossy().into_owned();
        let status = tokio::process::Command::from(self.command).status().await;
        let status = status.with_context(|| format!("failed to start {name}"))?;

        let code = status.code().and_then(|code| u8::try_from(code).ok());
        Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
    }
}

fn with(program: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args);
    command
}

fn npm(project: &Project, tools: &Tools) -> Result<Command> {
    let file = project.dir.join("package.json");
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("failed to read {}", file.display()))?;

    let manifest: serde_json::Value =
        serde_json::from_str(&text).with_context(|| format!("{} is not JSON", file.display()))?;

    if !manifest["scripts"]["test"].is_string() {
        bail!(
            "{} has no script \"test\": add \"test\": \"operetta-js test\"",
            file.display()
        );
    }

    Ok(with(
        &tools.find("npm", "see https://nodejs.org; version 20 or later")?,
        &["test", "--"],
    ))
}

fn make(project: &Project, tools: &Tools) -> Result<Command> {
    let file = project.dir.join("Makefile");
    let text = std::fs::read_to_string(&file).unwrap_or_default();

    if !text.lines().any(|line| line.starts_with("test:")) {
        bail!(
            "{} has no Makefile with a target \"test\", which builds and runs the tests natively: `operetta new` writes one",
            project.dir.display()
        );
    }

    Ok(with(
        &tools.find("make", "the package make of the system")?,
        &["test"],
    ))
}
