//! Progress of `operetta build`: one line for each step, with its time.

use std::time::Instant;

use anyhow::Result;

use super::Project;

/// Prints the steps of one build.
pub struct Steps(());

/// A step that runs.
pub struct Running {
    name: &'static str,
    started: Instant,
}

impl Steps {
    /// Says what is being built.
    pub fn new(project: &Project) -> Self {
        println!("{} ({})", project.name, project.language_name());
        Self(())
    }

    /// Runs a step; its note becomes the end of its line.
    ///
    /// # Errors
    /// The step's own; then no line is printed.
    pub fn run<T>(&mut self, name: &'static str, step: impl FnOnce(&mut String) -> Result<T>) -> Result<T> {
        let running = self.begin(name);
        let mut note = String::new();
        let done = step(&mut note)?;
        self.end(running, &note);
        Ok(done)
    }

    /// Begins a step that awaits.
    pub fn begin(&mut self, name: &'static str) -> Running {
        Running { name, started: Instant::now() }
    }

    /// Prints its line.
    pub fn end(&mut self, running: Running, note: &str) {
        let line = format!("  {:12} {:6.1} s  {note}", running.name, running.started.elapsed().as_secs_f64());
        println!("{}", line.trim_end());
    }
}

/// Bytes for people: `93 B`, `93.1 kB`, `4.5 MB`.
pub fn size(bytes: usize) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..999_950 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_for_people() {
        for (bytes, text) in [(93, "93 B"), (93_140, "93.1 kB"), (999_949, "999.9 kB"), (4_512_000, "4.5 MB")] {
            assert_eq!(size(bytes), text);
        }
    }
}
