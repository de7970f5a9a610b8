//! Builds of the project: `operetta build` in a process of its own, so that a build that hangs or crashes harms nothing.

use std::{
    path::PathBuf,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use tokio::process::Command;

use super::super::build::Project;

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
}

impl Builder {
    /// Creates a builder that writes `build/NAME.wasm`.
    pub fn new(project: &Project) -> Self {
        let output = project.dir.join("build").join(format!("{}.wasm", project.name));
        Self { project: project.dir.clone(), output }
    }

    /// Builds once. When this is dropped, the build ends.
    ///
    /// # Errors
    /// Returns an error if the process cannot be started.
    pub async fn build(&self) -> Result<Built> {
        let started = Instant::now();
        let program = std::env::current_exe().context("failed to find this program")?;
        let mut command = Command::new(program);
        command.arg("build").arg(&self.project).arg("--debug").arg("--unchecked").arg("--output").arg(&self.output);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let output = command.output().await.context("failed to start `operetta build`")?;
        let failure = (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).trim().to_owned());
        Ok(Built { took: started.elapsed(), failure })
    }
}
