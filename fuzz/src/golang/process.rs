//! The program that says what Go makes of a text.

use std::{
    io::{BufReader, Read, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Mutex, OnceLock, PoisonError},
};

use operetta_testkit::repository;
use serde::Deserialize;

/// What a text is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    Json,
    Yaml,
}

/// What Go makes of a text. `deploy/controlplane/json` describes the fields.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Answer {
    pub json: String,
    pub stored: String,
    pub strict: Vec<String>,
    pub error: String,
    pub ambiguous: bool,
}

struct Process {
    _child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// Asks Go for what it makes of a text.
///
/// # Panics
/// Panics if the program was not built, or ended.
pub fn ask(language: Language, text: &[u8]) -> Answer {
    static PROCESS: OnceLock<Mutex<Process>> = OnceLock::new();
    let process = PROCESS.get_or_init(|| Mutex::new(start()));
    // A panic below leaves no half of a request: it ends the test.
    let mut process = process.lock().unwrap_or_else(PoisonError::into_inner);

    let answer = process.answer(language, text);
    serde_json::from_slice(&answer).expect("an answer")
}

fn start() -> Process {
    let program = repository().join("target/controlplane/bin/gojson");
    assert!(
        program.exists(),
        "{} does not exist: run `make controlplane`",
        program.display()
    );

    // It ends when its input does, with this process.
    let mut child = Command::new(program)
        .arg("-serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    Process {
        requests: child.stdin.take().expect("piped"),
        answers: BufReader::new(child.stdout.take().expect("piped")),
        _child: child,
    }
}

impl Process {
    fn answer(&mut self, language: Language, text: &[u8]) -> Vec<u8> {
        let kind = match language {
            Language::Json => b'j',
            Language::Yaml => b'y',
        };
        let length = u32::try_from(text.len()).expect("a short text");
        let request = [&[kind], length.to_be_bytes().as_slice(), text].concat();
        self.requests.write_all(&request).expect("asked");
        self.requests.flush().expect("asked");

        let mut length = [0; 4];
        self.answers.read_exact(&mut length).expect("an answer");
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        self.answers.read_exact(&mut answer).expect("an answer");
        answer
    }
}
