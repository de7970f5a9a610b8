//! The helper in Go, which renders manifests with the libraries of kustomize and Helm, and reads
//! the syntax of Go packages.
//!
//! Its source is part of this program. The user's Go builds it once, from modules with pinned
//! versions and checksums, and it stays in the user's cache under the digest of its source.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use operetta_manager::config::user_cache;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::commands::build::{Tools, run_quietly};

/// The helper's files.
const SOURCE: [(&str, &str); 5] = [
    ("go.mod", include_str!("helper/go.mod")),
    ("go.sum", include_str!("helper/go.sum")),
    ("main.go", include_str!("helper/main.go")),
    ("needs.go", include_str!("helper/needs.go")),
    ("render.go", include_str!("helper/render.go")),
];

/// The helper as a program.
pub struct Helper {
    program: PathBuf,
    /// Deletes the program's folder in the end, if the program couldn't be cached.
    _scratch: Option<tempfile::TempDir>,
}

/// What is rendered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A folder with a kustomization.
    Kustomization,
    /// A folder with a Helm chart.
    Chart,
    /// A file, or a folder with files, in YAML or JSON.
    Files,
}

/// A request to render manifests.
#[derive(Clone, Debug, Serialize)]
pub struct Render<'a> {
    pub kind: &'a Kind,
    pub path: &'a Path,
    pub values: &'a [PathBuf],
    pub set: &'a [String],
    /// The name of a chart's release; the chart's name if it is empty.
    pub release: &'a str,
    pub namespace: &'a str,
}

/// The objects of manifests, in the order in which they are to be applied.
#[derive(Debug, Default, Deserialize)]
pub struct Rendered {
    pub objects: Vec<Object>,
    pub hooks: Option<Vec<Hook>>,
}

/// One object.
#[derive(Clone, Debug, Deserialize)]
pub struct Object {
    pub object: Value,
    /// Its YAML as it was rendered.
    pub text: String,
}

/// An object that Helm applies by itself, at certain times.
#[derive(Debug, Deserialize)]
pub struct Hook {
    /// Its kind and name: `Job/create-certificate`.
    pub name: String,
    pub events: Vec<String>,
}

/// A request to look for uses in packages.
#[derive(Debug, Serialize)]
pub struct Needs {
    pub packages: Vec<Package>,
    /// Packages of others that can open connections.
    pub dialing: Vec<String>,
}

/// The files of a package.
#[derive(Debug, Serialize)]
pub struct Package {
    pub dir: PathBuf,
    pub files: Vec<String>,
    pub ignored: Vec<String>,
}

/// A place in the code at which a need shows.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Use {
    pub need: String,
    /// What is used, as the code writes it: `http.Get`.
    pub what: String,
    pub file: PathBuf,
    pub line: u32,
    /// The file that is opened, if the code names it.
    #[serde(default)]
    pub path: String,
}

impl Helper {
    /// Finds the helper in the cache, or builds it.
    ///
    /// # Errors
    /// Returns an error if `go` is missing, or can't build the helper: the first time, it needs the
    /// modules, from the module cache or the proxy.
    pub fn find(project: &Path) -> Result<Self> {
        let sources: String = SOURCE
            .iter()
            .map(|(name, text)| format!("{name}\n{text}\n"))
            .collect();
        let digest = operetta_wasm::digest(sources.as_bytes()).replace(':', "-");

        let cached = user_cache().map(|cache| cache.join("adopt").join(digest));
        if let Some(program) = cached.as_ref().filter(|program| program.is_file()) {
            return Ok(Self {
                program: program.clone(),
                _scratch: None,
            });
        }

        eprintln!(
            "building the helper that renders manifests and reads Go (only once; its modules are about 60 MB)"
        );
        let scratch = tempfile::tempdir().context("failed to create a temporary folder")?;
        let built = build(project, scratch.path())?;

        // A cache that can't be written must not fail the command. The next one builds it again.
        let kept = cached.filter(|program| keep(&built, program).is_ok());
        Ok(match kept {
            Some(program) => Self {
                program,
                _scratch: None,
            },
            None => Self {
                program: built,
                _scratch: Some(scratch),
            },
        })
    }

    /// Renders manifests.
    ///
    /// # Errors
    /// Returns the error of kustomize or Helm, or about a file that is no manifest.
    pub fn render(&self, request: &Render<'_>) -> Result<Rendered> {
        self.ask(&json!({ "render": request }))
    }

    /// Looks for uses in packages, sorted by file and line.
    ///
    /// # Errors
    /// Returns an error if a file can't be parsed.
    pub fn uses(&self, request: &Needs) -> Result<Vec<Use>> {
        self.ask(&json!({ "needs": request }))
    }

    /// Writes objects as YAML that kubectl reads back as the same objects: strings such as `on` and
    /// `1e3` get quotes, since YAML 1.1 would take them for a boolean and a number.
    ///
    /// # Errors
    /// Returns an error if the helper fails.
    pub fn write(&self, objects: &[&Value]) -> Result<Vec<String>> {
        self.ask(&json!({ "write": objects }))
    }

    fn ask<T: DeserializeOwned>(&self, request: &Value) -> Result<T> {
        let mut child = Command::new(&self.program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("failed to start {}", self.program.display()))?;

        // No deadlock: the helper reads the whole request before it writes anything.
        let mut input = child.stdin.take().context("the helper has no stdin")?;
        input
            .write_all(request.to_string().as_bytes())
            .context("failed to write to the helper")?;
        drop(input);

        let output = child
            .wait_with_output()
            .context("failed to read from the helper")?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        serde_json::from_slice(&output.stdout).context("failed to read the helper's answer")
    }
}

/// Builds the helper in a folder; returns the program.
fn build(project: &Path, folder: &Path) -> Result<PathBuf> {
    for (name, text) in SOURCE {
        fs::write(folder.join(name), text)
            .with_context(|| format!("failed to write {name} in {}", folder.display()))?;
    }

    let go = Tools::of(project).find("go", "see https://go.dev/doc/install")?;

    let program = folder.join("helper");
    // The project's workspace, flags and target must not leak into the helper's build.
    let mut command = Command::new(go);
    command
        .current_dir(folder)
        .env("GOWORK", "off")
        .env("GOFLAGS", "-mod=readonly")
        .env("CGO_ENABLED", "0")
        .env_remove("GOOS")
        .env_remove("GOARCH")
        .args([
            "build",
            "-trimpath",
            "-buildvcs=false",
            "-ldflags=-s -w",
            "-o",
        ])
        .arg(&program)
        .arg(".");

    run_quietly(&mut command).context(
        "failed to build the helper that renders manifests: it needs Go 1.24 or newer and, the first time, the modules of \
         Helm and kustomize from the module proxy",
    )?;
    Ok(program)
}

/// Puts a program into the cache atomically.
fn keep(program: &Path, cached: &Path) -> Result<()> {
    let folder = cached.parent().context("a cache has a folder")?;
    fs::create_dir_all(folder)?;
    let temporary = tempfile::NamedTempFile::new_in(folder)?;
    // Copies the permissions as well.
    fs::copy(program, temporary.path())?;
    // On Linux, a file that is open for writing can't be run.
    temporary.into_temp_path().persist(cached)?;
    Ok(())
}
