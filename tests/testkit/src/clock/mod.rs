//! A process's clock that a test steps, as an administrator or a time server would step the clock
//! of a machine.
//!
//! A small library (clock.c), which the C compiler builds at the first use, replaces
//! `clock_gettime` of the process. Only CLOCK_REALTIME changes.

use std::{
    fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use crate::{ControlPlane, target_dir};

/// The clock of one process.
#[derive(Debug)]
pub struct SteppedClock {
    /// The offset of the clock in seconds, which the process has mapped.
    file: fs::File,
    path: PathBuf,
}

impl SteppedClock {
    /// Creates a clock that shows the right time.
    ///
    /// # Panics
    /// Panics if the file cannot be written.
    pub fn new(control_plane: &ControlPlane) -> Self {
        let path = control_plane
            .folder()
            .join(format!("clock-{}", control_plane.unique()));

        fs::write(&path, 0_i64.to_ne_bytes()).expect("written");
        let file = fs::File::options().write(true).open(&path).expect("a file");
        Self { file, path }
    }

    /// Returns the environment of a process with this clock.
    ///
    /// # Panics
    /// Panics if the C compiler cannot build the library.
    pub fn environment(&self) -> Vec<(String, String)> {
        let text = |path: &Path| path.display().to_string();
        vec![
            ("LD_PRELOAD".to_owned(), text(library())),
            ("OPERETTA_TEST_CLOCK".to_owned(), text(&self.path)),
        ]
    }

    /// Sets the clock's offset from the right time, in seconds.
    ///
    /// # Panics
    /// Panics if the file cannot be written.
    pub fn step(&self, seconds: i64) {
        self.file
            .write_all_at(&seconds.to_ne_bytes(), 0)
            .expect("written");
    }
}

/// Builds the library, once for each program of tests.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        // A later run removes this folder.
        let folder = target_dir()
            .join("testkit")
            .join(format!("{}-clock", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");

        let source = folder.join("clock.c");
        let library = source.with_extension("so");
        fs::write(&source, include_str!("clock.c")).expect("written");

        let mut compiler = Command::new("cc");
        compiler
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&library)
            .arg(&source)
            .arg("-ldl");

        let output = compiler.output().expect("a C compiler");
        assert!(
            output.status.success(),
            "cc: {}",
            String::from_utf8_lossy(&output.stderr)
        );

        library
    })
}
