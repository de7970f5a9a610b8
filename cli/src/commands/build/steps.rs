//! The progress of `operetta build`: one line for each step, with its time.

use std::time::Instant;

use anyhow::Result;

use super::Project;

/// Prints the steps of one build.
pub struct Steps(());

/// A step that is running.
pub struct Running {
    name: &'static str,
    started: Instant,
}

impl Steps {
    /// Prints the name of the project.
    pub fn new(project: &Project) -> Self {
        println!("{} ({})", project.name, project.language_name());
        Self(())
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
        println!("{}", line.trim_end());
    }
}
