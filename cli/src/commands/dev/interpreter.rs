//! The interpreter of a session: for TypeScript and Python no build stands between a save and a
//! reconcile.
//!
//! A helper of the SDK keeps running. It reads the project's source, checks its syntax, and builds
//! the interpreter where it is missing: a component with the SDK, which all projects share. The
//! host then runs a [`Program`]: the source, and the interpreter's name.
//! docs/decisions/0029-an-interpreter-for-development.md has the reasons.

use std::{path::PathBuf, process::Stdio, sync::Arc};

use anyhow::{Context, Result, bail};
use operetta_core::ports::Nowhere;
use operetta_manager::config::user_cache;
use operetta_wasm::{Engine, LoadError, LoadLimits, Plugin, Program};
use serde::Deserialize;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use super::super::{
    build::{Project, helper},
    output_file,
};

/// Files that restart the helper when they change: the project's packages may differ.
const PACKAGES: [&str; 3] = ["package.json", "package-lock.json", "pyproject.toml"];

/// The outcome of a save.
pub enum Outcome {
    /// The program is written and starts.
    Ready,
    /// The author's mistake.
    Failed(String),
    /// The interpreter cannot run this project, for this reason: it needs a build.
    Unsupported(String),
}

/// Runs a project's source without building it.
pub struct Interpreter {
    project: PathBuf,
    /// The program.
    pub output: PathBuf,
    engine: Engine,
    running: Option<Helper>,
    requests: u64,
}

/// The helper's process; dropping this ends it.
struct Helper {
    _child: Child,
    stdin: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

/// A line of the helper.
#[derive(Deserialize)]
struct Answer {
    request: String,
    #[serde(default)]
    interpreter: String,
    #[serde(default)]
    source: String,
    error: Option<String>,
    unsupported: Option<String>,
}

/// The folder of the interpreters, among this user's caches. None without a home, or for a language
/// without an interpreter.
pub fn folder(project: &Project) -> Option<PathBuf> {
    helper::is_offered(project.language)
        .then(user_cache)?
        .map(|cache| cache.join("interpreters"))
}

impl Interpreter {
    /// Creates the interpreter of a project; None for a language without one.
    pub fn of(project: &Project, engine: &Engine) -> Option<Self> {
        helper::is_offered(project.language).then(|| Self {
            project: project.dir.clone(),
            output: project
                .dir
                .join("build")
                .join(format!("{}.dev.wasm", project.name)),
            engine: engine.clone(),
            running: None,
            requests: 0,
        })
    }

    /// Restarts the helper if the project's packages may have changed.
    pub fn follow(&mut self, changed: &[PathBuf]) {
        if changed
            .iter()
            .any(|path| PACKAGES.iter().any(|file| *path == self.project.join(file)))
        {
            self.running = None;
        }
    }

    /// Reads the source, and writes the program if it starts. If the future is dropped, the next
    /// call starts over.
    ///
    /// # Errors
    /// Returns an error if the program cannot be written.
    pub async fn prepare(&mut self, project: &Project) -> Result<Outcome> {
        let answer = match self.ask(project).await {
            Ok(answer) => answer,
            Err(error) => {
                self.running = None;
                return Ok(Outcome::Unsupported(format!("{error:#}")));
            }
        };

        if let Some(error) = answer.error {
            return Ok(Outcome::Failed(error));
        }
        if let Some(reason) = answer.unsupported {
            return Ok(Outcome::Unsupported(reason));
        }

        let program = Program {
            interpreter: answer.interpreter,
            source: answer.source,
        }
        .encode();

        // The host logs what `describe` says when it runs it again.
        let started = Plugin::load(
            &self.engine,
            program.clone(),
            &LoadLimits::default(),
            Arc::new(Nowhere),
        )
        .await;
        match started {
            Ok(_) => {}
            Err(error) if needs_build(&error) => {
                return Ok(Outcome::Unsupported(error.to_string()));
            }
            Err(error) => {
                return Ok(Outcome::Failed(format!(
                    "the plugin does not start: {error}"
                )));
            }
        }

        output_file::write(&self.output, &program)?;
        Ok(Outcome::Ready)
    }

    async fn ask(&mut self, project: &Project) -> Result<Answer> {
        self.requests += 1;
        let request = self.requests.to_string();

        let helper = match &mut self.running {
            Some(helper) => helper,
            none => none.insert(Helper::start(project)?),
        };

        helper.ask(&request).await
    }
}

impl Helper {
    fn start(project: &Project) -> Result<Self> {
        let folder = folder(project).context("no folder for caches: set HOME or XDG_CACHE_HOME")?;

        let mut command = Command::from(helper::command(project, &folder)?);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true);

        let mut child = command
            .spawn()
            .context("failed to start the SDK's helper")?;
        let stdin = child.stdin.take().context("the helper has no stdin")?;
        let stdout = child.stdout.take().context("the helper has no stdout")?;

        Ok(Self {
            _child: child,
            stdin,
            answers: BufReader::new(stdout).lines(),
        })
    }

    /// Sends a request, and waits for its answer. Answers to requests before it are dropped.
    async fn ask(&mut self, request: &str) -> Result<Answer> {
        self.stdin
            .write_all(format!("{request}\n").as_bytes())
            .await
            .context("the SDK's helper has ended")?;

        loop {
            let Some(line) = self.answers.next_line().await? else {
                bail!("the SDK's helper has ended")
            };

            let answer: Answer =
                serde_json::from_str(&line).context("the SDK's helper wrote no answer")?;
            if answer.request == request {
                return Ok(answer);
            }
        }
    }
}

/// Reports whether a build may succeed where the interpreter fails: a build imports the project's
/// code while its files are there.
fn needs_build(error: &LoadError) -> bool {
    const OF_FILES: [&str; 4] = [
        "ModuleNotFoundError: ",
        "FileNotFoundError: ",
        "PermissionError: ",
        "OSError: ",
    ];

    match error {
        LoadError::NotEvaluated(message) => message
            .lines()
            .last()
            .is_some_and(|last| OF_FILES.iter().any(|name| last.starts_with(name))),
        _ => false,
    }
}
