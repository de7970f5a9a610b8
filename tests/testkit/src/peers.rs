//! The benches' peers: programs on client-go, controller-runtime and kube-rs (`benches/peers`) that
//! do the same work as the host's code, measured in the same run.
//!
//! ```ignore
//! let peers = Peers::build();
//! let question = json!({"metric": "queue.per_key", "size": 10_000, "passes": 20});
//! let (ours, theirs) = peers.beside(9, &["client-go", "controller-runtime"], &question, || time_of_one_round());
//! let row = theirs.iter().fold(Row::new("queue.per_key", "us", ours), |row, (name, samples)| row.peer(*name, samples));
//! ```
//!
//! [`Peers::beside`] asks a peer's long-lived process for one round at a time, between ours.
//! [`Process`] is a peer that is restarted for each round and observed from outside;
//! [`Peers::store`] feeds objects to one. A peer that could not be built is reported once and left
//! out; one that fails ends the bench with its message.
//!
//! Needs only std and serde_json, and `bench.rs` as the crate's module `bench`, for benches that
//! take the files alone.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
};

use parking_lot::Mutex;
use serde_json::Value;

use crate::bench::{Samples, workspace_root};

/// The programs that were built.
pub struct Peers {
    folder: PathBuf,
    /// The processes that run rounds, by their program.
    running: Mutex<HashMap<&'static str, Process>>,
    /// The peers that were reported as missing.
    missing: Mutex<HashSet<String>>,
}

/// A native controller; dropping this ends it.
pub struct Native(Child);

#[allow(
    dead_code,
    reason = "no bench needs everything, and some take this file alone"
)]
impl Native {
    /// Starts a controller of one namespace. Apart from these settings it has no environment, so
    /// that its runtime has its defaults. Its messages go to `stderr`.
    ///
    /// # Errors
    /// Returns an error if the program cannot be started.
    pub fn start(
        program: &Path,
        kubeconfig: &Path,
        namespace: &str,
        stderr: File,
    ) -> io::Result<Self> {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("RUST_BACKTRACE", "0")
            .env("NAMESPACE", namespace)
            .env("KUBECONFIG", kubeconfig);

        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .map(Self)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Returns its status if it has ended.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.0.try_wait()
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        let _already_over = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// What an object costs in a peer's caches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StoreCost {
    /// Bytes of heap in use for each object, after a collection where there is a collector.
    pub heap_bytes: f64,
    /// How much the process has grown per object.
    pub rss_bytes: f64,
}

/// A program that answers in lines of JSON; dropping this ends it.
pub struct Process {
    name: String,
    child: Child,
    /// None once it is closed.
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

#[allow(
    dead_code,
    reason = "no bench needs everything, and some take this file alone"
)]
impl Peers {
    /// Builds the peers that run rounds (`scripts/peers.sh`, which reports what it cannot build).
    /// Takes no time if nothing has changed.
    pub fn build() -> Self {
        Self::build_part(&[])
    }

    /// Builds a part of them: the arguments of `scripts/peers.sh`.
    pub fn build_part(arguments: &[&str]) -> Self {
        let root = workspace_root();
        let mut script = Command::new(root.join("scripts/peers.sh"));

        script.args(arguments);
        // Cargo's variables about this program would look like a change to the build scripts of
        // dependencies.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if [
                "CARGO_PKG_",
                "CARGO_MANIFEST_",
                "CARGO_BIN_",
                "CARGO_CRATE_",
            ]
            .iter()
            .any(|of| text.starts_with(of))
            {
                script.env_remove(&name);
            }
        }

        if let Err(error) = script.stdin(Stdio::null()).status() {
            eprintln!("peers: scripts/peers.sh does not run: {error}");
        }

        Self {
            folder: root.join("target/peers"),
            running: Mutex::default(),
            missing: Mutex::default(),
        }
    }

    /// No peers at all.
    pub fn none() -> Self {
        Self {
            folder: PathBuf::new(),
            running: Mutex::default(),
            missing: Mutex::default(),
        }
    }

    /// The path of a peer's program; None if it was not built.
    pub fn program(&self, peer: &str, program: &str) -> Option<PathBuf> {
        let path = self.folder.join(program);
        let found = path.is_file();

        let mut missing = self.missing.lock();
        if !found && missing.insert(peer.to_owned()) {
            println!("without {peer}: {program} was not built");
        }

        found.then_some(path)
    }

    /// Measures ours and the peers in turn, this many rounds after one that is thrown away.
    /// `question` is as in `benches/peers/README.md`, without the peer.
    ///
    /// # Panics
    /// Panics if a peer does not answer, with its message.
    pub fn beside(
        &self,
        rounds: usize,
        peers: &[&'static str],
        question: &Value,
        mut ours: impl FnMut() -> f64,
    ) -> (Samples, Vec<(&'static str, Samples)>) {
        let there: Vec<&'static str> = peers
            .iter()
            .copied()
            .filter(|peer| self.program(peer, rounds_program(peer)).is_some())
            .collect();

        let mut asks: Vec<_> = there
            .iter()
            .map(|peer| || self.round(peer, question))
            .collect();

        let mut contestants: Vec<&mut dyn FnMut() -> f64> = vec![&mut ours];
        contestants.extend(asks.iter_mut().map(|ask| ask as &mut dyn FnMut() -> f64));

        let mut samples = Samples::interleaved(rounds, &mut contestants).into_iter();
        let ours = samples.next().expect("ours is the first");
        (ours, there.into_iter().zip(samples).collect())
    }

    /// Runs one round of a peer.
    ///
    /// # Panics
    /// Panics if it does not answer, with its message.
    pub fn round(&self, peer: &'static str, question: &Value) -> f64 {
        let mut running = self.running.lock();
        let program = rounds_program(peer);

        let process = running.entry(program).or_insert_with(|| {
            Process::start(
                peer,
                &self.folder.join(program),
                &["rounds"],
                Stdio::piped(),
            )
        });

        let mut question = question.clone();
        question["peer"] = peer.into();
        process.tell(&question);
        let answer = process.line();

        answer["samples"][0]
            .as_f64()
            .unwrap_or_else(|| panic!("{peer} answers {question} with {answer}"))
    }

    /// Measures what each of these objects, one JSON document per line with apiVersion and kind,
    /// costs in a peer's caches; None if the peer was not built. `benches/peers/README.md` names
    /// the peers.
    ///
    /// # Panics
    /// Panics if the file cannot be read, or the peer does not answer.
    pub fn store(&self, peer: &str, objects: &Path) -> Option<StoreCost> {
        let (program, arguments): (_, &[&str]) = if peer.starts_with("kube-rs") {
            ("peer-kube-rs-store", &["--peer", peer])
        } else {
            ("peer-go", &["store", "--peer", peer])
        };
        let program = self.program(peer, program)?;

        let file =
            File::open(objects).unwrap_or_else(|error| panic!("{}: {error}", objects.display()));
        let answer = Process::start(peer, &program, arguments, file.into()).line();

        let figure = |value: &Value| {
            value
                .as_f64()
                .unwrap_or_else(|| panic!("{peer} answers {answer}"))
        };

        Some(StoreCost {
            heap_bytes: figure(&answer["samples"][0]),
            rss_bytes: figure(&answer["rss"]),
        })
    }
}

#[allow(
    dead_code,
    reason = "no bench needs everything, and some take this file alone"
)]
impl Process {
    /// Starts a program.
    ///
    /// # Panics
    /// Panics if it cannot be started.
    pub fn start(name: &str, program: &Path, arguments: &[&str], stdin: Stdio) -> Self {
        let mut command = Command::new(program);

        let command = command
            .args(arguments)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .env("RUST_BACKTRACE", "0");
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));

        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("piped"));

        Self {
            name: name.to_owned(),
            child,
            stdin,
            stdout,
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes one line to it.
    ///
    /// # Panics
    /// Panics if it no longer reads.
    pub fn tell(&mut self, line: &Value) {
        let stdin = self.stdin.as_mut().expect("piped");
        writeln!(stdin, "{line}")
            .unwrap_or_else(|error| panic!("{} does not read: {error}", self.name));
    }

    /// Waits for its next line.
    ///
    /// # Panics
    /// Panics if it has ended, or says `{"error": …}`.
    pub fn line(&mut self) -> Value {
        let mut line = String::new();
        let read = self.stdout.read_line(&mut line);

        let answer: Value = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("{}: {line:?} ({read:?}): {error}", self.name));
        if let Some(error) = answer["error"].as_str() {
            panic!("{}: {error}", self.name);
        }

        answer
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _it_may_be_over = self.child.kill();
        let _either_way = self.child.wait();
    }
}

/// The program that runs the rounds of a peer.
#[allow(
    dead_code,
    reason = "no bench needs everything, and some take this file alone"
)]
fn rounds_program(peer: &str) -> &'static str {
    if peer.starts_with("kube-rs") {
        "peer-kube-rs"
    } else {
        "peer-go"
    }
}

#[cfg(test)]
#[allow(
    unused_imports,
    dead_code,
    reason = "a bench that takes this file alone has no test harness"
)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A program that echoes each line, as the peers answer them.
    fn echo() -> Process {
        Process::start("echo", Path::new("/bin/cat"), &[], Stdio::piped())
    }

    #[test]
    fn peer_answers_by_line_and_ends_when_dropped() {
        let mut process = echo();

        for at in 0..3 {
            process.tell(&json!({"samples": [at]}));
            assert_eq!(process.line()["samples"][0], at);
        }

        let pid = process.pid();
        drop(process);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    #[should_panic(expected = "echo: no such peer")]
    fn what_a_peer_says_against_a_question_ends_the_bench() {
        let mut process = echo();
        process.tell(&json!({"error": "no such peer"}));
        process.line();
    }

    #[test]
    fn without_peers_ours_is_measured_alone() {
        let mut rounds = 0;

        let (ours, theirs) = Peers::none().beside(3, &["client-go", "kube-rs"], &json!({}), || {
            rounds += 1;
            f64::from(rounds)
        });

        assert_eq!((ours.median(), theirs.len(), rounds), (3.0, 0, 4));
    }
}
