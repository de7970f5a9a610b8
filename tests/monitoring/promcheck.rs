//! The program that checks metrics, rules and expressions with Prometheus itself:
//! scripts/prometheus.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::SystemTime,
};

use operetta_testkit::{Host, tool_path};
use serde::Deserialize;
use tempfile::TempDir;

/// The result of one expression.
#[derive(Debug, Deserialize)]
pub struct Answer {
    pub expression: String,
    /// The number of series whose value is a number.
    pub series: usize,
    /// The metrics in the expression that no scrape has.
    pub absent: Vec<String>,
}

/// The scrapes of one host, each in a file.
pub struct Scrapes(TempDir);

impl Scrapes {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    /// Scrapes the host. Returns the file.
    pub fn take(&self, host: &Host) -> PathBuf {
        let now = SystemTime::UNIX_EPOCH
            .elapsed()
            .expect("after 1970")
            .as_millis();
        let file = self.0.path().join(format!("{now}.txt"));
        fs::write(&file, host.metrics()).expect("a file");
        file
    }

    /// Evaluates expressions at the time of the last scrape.
    pub fn query(&self, expressions: &[String]) -> Vec<Answer> {
        let folder = self.0.path().to_str().expect("a path");
        let input = serde_json::to_vec(expressions).expect("JSON");
        let output = promcheck(&["query", folder], &input);

        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );

        let answers: Vec<Answer> = serde_json::from_slice(&output.stdout).expect("answers");
        assert!(
            answers
                .iter()
                .map(|answer| &answer.expression)
                .eq(expressions),
            "{answers:?}"
        );

        answers
    }
}

/// Runs the program with this input, whether it fails or not.
pub fn promcheck(args: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(tool_path("promcheck"));
    command
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());

    let mut process = command.spawn().expect("promcheck runs");
    process
        .stdin
        .take()
        .expect("a pipe")
        .write_all(input)
        .expect("promcheck reads");
    process.wait_with_output().expect("promcheck ends")
}

/// Runs the program on a text that is written to a file. Returns whether it succeeded, and all of
/// its output.
pub fn check(command: &str, text: &str) -> (bool, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, text).expect("a file");
    check_file(command, &file)
}

/// Runs the program on a file. Returns whether it succeeded, and all of its output.
pub fn check_file(command: &str, file: &Path) -> (bool, String) {
    let output = promcheck(&[command, file.to_str().expect("a path")], b"");
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}
