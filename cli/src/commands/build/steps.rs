//! The progress of a build: one line for each step, with its time.

use std::time::Instant;

use anyhow::Result;

use super::Project;

/// Where the steps are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Stdout,
    /// For commands whose stdout is a document.
    Stderr,
}

impl Progress {
    /// Prints a line.
    pub fn line(self, line: &str) {
        match self {
            Self::Stdout => println!("{line}"),
            Self::Stderr => eprintln!("{line}"),
        }
    }
}

/// Prints the steps of one build.
pub struct Steps(Progress);

/// A step that is running.
pub struct Running {
    name: &'static str,
    started: Instant,
}

impl Steps {
    /// Prints the name of the project.
    pub fn new(project: &Project, progress: Progress) -> Self {
        progress.line(&format!("{} ({})", project.name, project.language_name()));
        Self(progress)
    }

    /// Runs a step and prints its line, with the step's note at the end.
    ///
    /// # Errors
    /// Returns the step's error; no line is printed then.
    pub fn run<T>(
        &mut self,
        name: &'static str,
        step: impl FnOnce(&mut String) -> Result<T>,
    ) -> Result<T> {
        let running = self.begin(name);
        let mut note = String::new();
        let done = step(&mut note)?;
        self.end(running, &note);
        Ok(done)
    }

    /// Begins an asynchronous step.
    pub fn begin(&mut self, name: &'static str) -> Running {
        Running {
            name,
            started: Instant::now(),
        }
    }

    /// Ends a step and prints its line.
    pub fn end(&mut self, running: Running, note: &str) {
        let line = format!(
            "  {:12} {:6.1} s  {note}",
            running.name,
            running.started.elapsed().as_secs_f64()
        );
        self.0.line(line.trim_end());
    }
}
