//! Python: runs `python -m operetta.build` of the SDK, which imports the project and snapshots the
//! interpreter as a component with componentize-py.
//!
//! The SDK is the folder `sdk` of the project, the one installed beside the interpreter, or the one
//! in this binary.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Result, bail};
use operetta_api::reasons;

use super::{
    Job, Tools,
    steps::Steps,
    tools::{missing, run_quietly},
};
use crate::commands::new;

/// Imports the project and makes the component.
///
/// # Errors
/// Returns an error if a tool is missing or fails.
pub(super) fn compile(job: &Job<'_>, steps: &mut Steps) -> Result<Vec<u8>> {
    let dir = &job.project.dir;
    let module = job.scratch_file("module.wasm");
    let mut command = sdk_command(dir, "operetta.build", &job.scratch_file("sdk"))?;
    command.arg(dir).arg("-o").arg(&module);
    command
        .args(job.args.debug.then_some("--debug"))
        .args(&job.args.compiler_args);

    steps.run("compile", |note| {
        "python3 -m operetta.build".clone_into(note);
        // Its output names a temporary file.
        run_quietly(&mut command)?;
        job.read(&module)
    })
}

/// Returns the command that runs a project's tests: pytest, or unittest if the interpreter has no
/// pytest. `scratch` is a folder for the SDK of this binary, if neither the project nor the
/// interpreter has one.
///
/// # Errors
/// Returns an error if there is no Python that is new enough.
pub fn tests(dir: &Path, tools: &Tools, scratch: &Path) -> Result<Command> {
    let interpreter = interpreter(tools, dir)?;
    let mut command = Command::new(&interpreter);

    if imports(&interpreter, dir, "pytest") {
        // The SDK's plugin is found by itself only if the SDK is installed.
        command.args(["-m", "pytest", "-p", "operetta.testing.pytest_plugin"]);
    } else {
        command.args(["-m", "unittest", "discover"]);
        if dir.join("tests").is_dir() {
            command.args(["-s", "tests"]);
        }
    }

    if let Some(sdk) = sdk(dir, &interpreter, "operetta.build", &scratch.join("sdk"))? {
        command.env("PYTHONPATH", with("PYTHONPATH", Some(&sdk), true)?);
    }

    Ok(command)
}

/// Returns the command of the helper, which keeps interpreters in a folder.
///
/// # Errors
/// Returns an error if a tool is missing.
pub fn helper(dir: &Path, folder: &Path) -> Result<Command> {
    let mut command = sdk_command(dir, "operetta.develop", &folder.join("sdk-python"))?;
    command.arg(dir).arg(folder);
    Ok(command)
}

/// Returns the command that runs a module of the SDK. If neither the project nor the interpreter
/// has the SDK, the one in this binary is written into the folder `ours`.
fn sdk_command(dir: &Path, module: &str, ours: &Path) -> Result<Command> {
    let tools = Tools::of(dir);
    let interpreter = interpreter(&tools, dir)?;

    // componentize-py is beside the interpreter, or in one of the folders for tools.
    let componentize = tools.find(
        "componentize-py",
        "`pip install componentize-py`, in the project's .venv if it has one",
    )?;

    let mut command = Command::new(&interpreter);
    command.current_dir(dir).args(["-m", module]);
    command.env("PATH", with("PATH", componentize.parent(), false)?);
    if let Some(sdk) = sdk(dir, &interpreter, module, ours)? {
        command.env("PYTHONPATH", with("PYTHONPATH", Some(&sdk), true)?);
    }

    Ok(command)
}

/// Returns the first Python that is new enough.
fn interpreter(tools: &Tools, dir: &Path) -> Result<PathBuf> {
    let install = "see https://www.python.org; version 3.11 or later";
    let all: Vec<PathBuf> = tools.all(&["python3", "python"]).collect();

    match all.iter().find(|python| imports(python, dir, "tomllib")) {
        Some(python) => Ok(python.clone()),
        None if all.is_empty() => Err(missing("python3", install)),
        None => {
            let message = format!(
                "{} is older than Python 3.11; to install a newer one: {install}",
                all[0].display()
            );
            bail!(reasons::TOOL_MISSING.error(message))
        }
    }
}

/// The folder of the package `operetta`, written to `ours` if need be; None if the interpreter can
/// import it already.
fn sdk(dir: &Path, interpreter: &Path, module: &str, ours: &Path) -> Result<Option<PathBuf>> {
    let own = dir.join("sdk");
    if own.join("operetta/build.py").is_file() {
        return Ok(Some(own));
    }

    if imports(interpreter, dir, module) {
        return Ok(None);
    }

    new::write_sdk("python", ours)?;
    Ok(Some(ours.to_owned()))
}

fn imports(python: &Path, dir: &Path, module: &str) -> bool {
    let mut command = Command::new(python);
    command
        .current_dir(dir)
        .args(["-c", &format!("import {module}")]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());

    command.status().is_ok_and(|status| status.success())
}

/// An environment's search path with one more folder.
fn with(variable: &str, folder: Option<&Path>, first: bool) -> Result<OsString> {
    let there = env::var_os(variable).unwrap_or_default();
    let mut folders: Vec<PathBuf> = env::split_paths(&there)
        .filter(|folder| !folder.as_os_str().is_empty())
        .collect();

    let at = if first { 0 } else { folders.len() };
    folders.splice(at..at, folder.map(Path::to_owned));
    Ok(env::join_paths(folders)?)
}
