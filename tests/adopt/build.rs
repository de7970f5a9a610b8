//! An operator's sources, and the two programs that are built from them.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use operetta_testkit::{program, repository};

use crate::case::Case;

/// The name of a program in a container of an operator, and in the host.
pub const PROGRAM: &str = "manager";

/// What is built of an operator.
pub struct Built {
    /// Its repository.
    pub sources: PathBuf,
    /// The folder with `manager` and `NAME.wasm`.
    pub folder: PathBuf,
    /// The component's size in bytes.
    pub component_bytes: u64,
}

impl Built {
    /// Takes the sources from `SOURCES`, or clones them, and builds what is not there yet.
    ///
    /// # Errors
    /// Returns the last lines of what git, go or `operetta build` printed.
    pub fn of(case: &Case) -> Result<Self, String> {
        let root = repository().join("target/test-adopt").join(&case.name);
        let sources = match env::var_os("SOURCES").filter(|folder| !folder.is_empty()) {
            _ if case.repository == "." => repository(),
            Some(folder) => PathBuf::from(folder).join(&case.name),
            None => clone(case, &root.join("sources"))?,
        };
        let module = sources.join(&case.module);
        if !module.join("go.mod").is_file() {
            return Err(format!("{} has no go.mod", module.display()));
        }

        let folder = root.join(match case.commit.as_str() {
            "" => "built",
            commit => commit,
        });
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;

        let native = folder.join(PROGRAM);
        if !native.exists() {
            let ldflags = format!("-ldflags=-s -w {}", case.ldflags);
            let mut build = Command::new("go");
            build
                .current_dir(&module)
                .envs([("CGO_ENABLED", "0"), ("GOTOOLCHAIN", "local")])
                .args(["build", "-trimpath", "-buildvcs=false", &ldflags, "-o"])
                .arg(&native)
                .arg(&case.main);
            run(&mut build)?;
        }

        let component = folder.join(format!("{}.wasm", case.name));
        if !component.exists() {
            let mut build = Command::new(program("operetta"));
            build
                .env("GOTOOLCHAIN", "local")
                .arg("build")
                .arg(&module)
                .args(["--fast", "--process", "--main", &case.main, "-o"])
                .arg(&component);
            if !case.ldflags.is_empty() {
                build.args(["--ldflags", &case.ldflags]);
            }
            run(&mut build)?;
        }

        let component_bytes = fs::metadata(&component)
            .map_err(|error| format!("{}: {error}", component.display()))?
            .len();
        Ok(Self {
            sources,
            folder,
            component_bytes,
        })
    }
}

/// Fetches one commit, without its history.
fn clone(case: &Case, folder: &Path) -> Result<PathBuf, String> {
    if case.repository.is_empty() || case.commit.is_empty() {
        return Err(format!(
            "{} names no repository and commit: set SOURCES to the folder of its sources",
            case.name
        ));
    }

    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.arg("-C").arg(folder).args(args);
        run(&mut git)
    };
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    git(&["init", "--quiet"])?;
    git(&[
        "fetch",
        "--quiet",
        "--depth=1",
        &case.repository,
        &case.commit,
    ])?;
    git(&["checkout", "--quiet", "--force", "FETCH_HEAD"])?;
    Ok(folder.to_owned())
}

/// Runs a command, and returns the end of its output if it fails.
fn run(command: &mut Command) -> Result<(), String> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }

    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let end = lines[lines.len().saturating_sub(20)..].join("\n");
    Err(format!("{command:?} failed with {}:\n{end}", output.status))
}
