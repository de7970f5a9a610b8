//! `make bench-dev`: the time from a save to the reconcile by the new code under `operetta dev`,
//! for each language.
//!
//! - `dev.LANG.save`: the time from the write of the source until the watch receives the ConfigMap
//!   that the new code has written, over [`EDITS`] saves.
//! - `dev.LANG.new`: the time from the start of `operetta new` until the ConfigMap of the sample
//!   arrives, without the setup that the project's README names (`npm install`). The caches of the
//!   toolchains are warm, and projects in Rust share `CARGO_TARGET_DIR`, so the crates from the
//!   registry are compiled.
//!
//! The first project and the first save of each language are discarded. API server, host, compiler
//! and this program share the machine's cores. `ONLY=rust,go` selects languages. A debug build is
//! refused unless `DEBUG=1` is set: there the host's own part is several times slower.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{WatchStreamExt, watcher},
};
use operetta_testkit::bench::{Report, Row, Samples, is_chosen, number, only_starts};
use tokio::sync::mpsc;

/// The number of measured saves.
const EDITS: usize = 10;
/// The number of measured projects.
const ROUNDS: usize = 3;
/// The longest wait for a reconcile: the first build of a project in Rust compiles everything.
const PATIENCE: Duration = Duration::from_secs(300);

/// A language, and the way in which its template is edited.
struct Language {
    name: &'static str,
    /// The file to edit.
    file: &'static str,
    /// The expression of the message.
    before: &'static str,
    /// The expression with a suffix in place of `@`.
    after: &'static str,
    /// The target of a save in milliseconds, if there is one.
    target: Option<f64>,
}

const LANGUAGES: [Language; 5] = [
    Language {
        name: "rust",
        file: "src/lib.rs",
        before: "object.spec.message.clone()",
        after: "format!(\"{}@\", object.spec.message)",
        target: Some(1000.0),
    },
    Language {
        name: "go",
        file: "plugin.go",
        before: "object.Spec.Message}",
        after: "object.Spec.Message + \"@\"}",
        target: Some(3000.0),
    },
    Language {
        name: "ts",
        file: "src/plugin.ts",
        before: "message: object.spec.message }",
        after: "message: object.spec.message + \"@\" }",
        target: None,
    },
    Language {
        name: "python",
        file: "plugin.py",
        before: "\"message\": obj.spec.message}",
        after: "\"message\": obj.spec.message + \"@\"}",
        target: None,
    },
    Language {
        name: "c",
        file: "plugin.c",
        before: "operetta_string(object, \"spec.message\", \"\")",
        after: "\"Hello@\"",
        target: None,
    },
];

#[tokio::main]
async fn main() -> Result<()> {
    if only_starts() {
        return Ok(());
    }
    if cfg!(debug_assertions) && std::env::var_os("DEBUG").is_none_or(|value| value != "1") {
        bail!(
            "this is a debug build, whose figures mean little: use `make bench-dev`, or set DEBUG=1"
        );
    }
    let selected: Vec<_> = LANGUAGES
        .iter()
        .filter(|language| is_chosen(language.name))
        .collect();
    ensure!(
        !selected.is_empty(),
        "ONLY selects no language: use rust, go, ts, python or c"
    );
    let mut report = Report::new("dev");
    for language in selected {
        let (new, saves) = measure(language)
            .await
            .with_context(|| format!("language {}", language.name))?;
        report.row(Row::new(
            format!("dev.{}.new", language.name),
            "ms",
            Samples::new(new),
        ));
        let row = Row::new(
            format!("dev.{}.save", language.name),
            "ms",
            Samples::new(saves),
        );
        report.row(match language.target {
            Some(target) => row.target(target),
            None => row,
        });
    }
    report.finish()?;
    Ok(())
}

/// Returns the times of new projects and of saves, in milliseconds.
///
/// # Errors
/// Returns an error if a project does not build, or its plugin does not run.
async fn measure(language: &Language) -> Result<(Vec<f64>, Vec<f64>)> {
    let rounds = number("ROUNDS", ROUNDS).max(1);
    let mut new = Vec::new();
    for round in 0..=rounds {
        let (mut session, took) = Session::start(language).await?;
        if round > 0 {
            new.push(took.as_secs_f64() * 1e3);
        }
        if round == rounds {
            return Ok((
                new,
                session
                    .saves(language, number("EDITS", EDITS).max(1))
                    .await?,
            ));
        }
    }
    bail!("no round was measured")
}

/// A project under `operetta dev`, which ends with this.
struct Session {
    child: Child,
    project: PathBuf,
    /// Receives each message that the plugin writes into the sample's ConfigMap.
    written: mpsc::UnboundedReceiver<(String, Instant)>,
}

impl Session {
    /// Makes a new project, and waits for its first reconcile. Returns the time that this took,
    /// without the project's setup.
    ///
    /// # Errors
    /// Returns an error if a command fails, or the sample is not reconciled.
    async fn start(language: &Language) -> Result<(Self, Duration)> {
        let folder = projects();
        let name = format!("bench-{}", language.name);
        let project = folder.join(&name);
        let _not_there = fs::remove_dir_all(&project);
        fs::create_dir_all(&folder)?;
        let started = Instant::now();
        let args = [
            "new",
            &name,
            "--lang",
            language.name,
            "--group",
            "bench.example.com",
        ];
        run(Command::new(operetta_testkit::program("operetta"))
            .args(args)
            .current_dir(&folder))?;
        let setup = Instant::now();
        match language.name {
            // The versions that the repository was tested with.
            "rust" => {
                fs::copy(root().join("Cargo.lock"), project.join("Cargo.lock"))?;
            }
            "ts" => run(Command::new("npm")
                .args(["install", "--silent", "--no-audit"])
                .current_dir(&project))?,
            _ => {}
        }
        let setup = setup.elapsed();
        let mut child = Command::new(operetta_testkit::program("operetta"))
            .arg("dev")
            .arg(&project)
            .env("CARGO_TARGET_DIR", folder.join("target"))
            .env(
                "OPERETTA_TOOLS",
                std::env::var_os("OPERETTA_TOOLS").unwrap_or(root().join("target/tools").into()),
            )
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("no stdout")?).lines();
        let kubeconfig = lines.find_map(|line| {
            line.ok()?
                .split_once("KUBECONFIG=")
                .map(|(_, path)| path.to_owned())
        });
        // The session must not wait for a reader. What it says about a failed build helps to find
        // the cause.
        std::thread::spawn(move || {
            lines
                .map_while(Result::ok)
                .filter(|line| line.contains("error"))
                .for_each(|line| eprintln!("{line}"));
        });
        let mut session = Self {
            child,
            project,
            written: mpsc::unbounded_channel().1,
        };
        let kubeconfig = kubeconfig.context("operetta dev did not start")?;
        session.written = watch(Path::new(&kubeconfig), format!("{name}-sample")).await?;
        let at = session.until("").await?;
        Ok((
            session,
            at.saturating_duration_since(started).saturating_sub(setup),
        ))
    }

    /// Edits the source, and returns the times until the new code has written.
    ///
    /// # Errors
    /// Returns an error if the template has no such expression, or the new code does not run.
    async fn saves(&mut self, language: &Language, edits: usize) -> Result<Vec<f64>> {
        let file = self.project.join(language.file);
        let text = fs::read_to_string(&file)?;
        ensure!(
            text.contains(language.before),
            "{} has no {}",
            file.display(),
            language.before
        );
        let mut times = Vec::new();
        for edit in 0..=edits {
            // Also the time in which the host settles after the last one.
            tokio::time::sleep(Duration::from_millis(500)).await;
            let suffix = format!(" edit {edit}.");
            let saved = Instant::now();
            fs::write(
                &file,
                text.replace(language.before, &language.after.replace('@', &suffix)),
            )?;
            let at = self.until(&suffix).await?;
            if edit > 0 {
                times.push(at.saturating_duration_since(saved).as_secs_f64() * 1e3);
            }
        }
        Ok(times)
    }

    /// Waits for a message with this end, and returns the time when it arrived.
    ///
    /// # Errors
    /// Returns an error if it is not written within [`PATIENCE`].
    async fn until(&mut self, end: &str) -> Result<Instant> {
        loop {
            match tokio::time::timeout(PATIENCE, self.written.recv()).await {
                Ok(Some((message, at))) if message.ends_with(end) => return Ok(at),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => bail!("no message that ends with {end:?} was written"),
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _over_already = self.child.kill();
        let _either_way = self.child.wait();
    }
}

fn root() -> PathBuf {
    operetta_testkit::repository()
}

/// Inside the repository, so that its rust-toolchain.toml applies to the projects.
fn projects() -> PathBuf {
    root().join("target/new-projects")
}

/// Runs a command.
///
/// # Errors
/// Returns an error with its messages if it fails.
fn run(command: &mut Command) -> Result<()> {
    let output = command.output()?;
    ensure!(
        output.status.success(),
        "{command:?} failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Watches a ConfigMap, and sends each message that it gets.
///
/// # Errors
/// Returns an error if there is no such kubeconfig.
async fn watch(
    kubeconfig: &Path,
    name: String,
) -> Result<mpsc::UnboundedReceiver<(String, Instant)>> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let maps: Api<ConfigMap> = Api::default_namespaced(Client::try_from(config)?);
    let (sender, written) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let selected = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut maps = watcher(maps, selected)
            .default_backoff()
            .applied_objects()
            .boxed();
        while let Ok(Some(map)) = maps.try_next().await {
            if let Some(message) = map.data.and_then(|mut data| data.remove("message"))
                && sender.send((message, Instant::now())).is_err()
            {
                return;
            }
        }
    });
    Ok(written)
}
