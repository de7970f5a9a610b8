//! TypeScript and JavaScript: runs `operetta-js build` of the SDK, which bundles the project and
//! makes a component of it and the QuickJS engine.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{
    Job, Tools,
    steps::Steps,
    tools::{missing, run},
};

const SDK: &str = "@operetta/sdk";

/// Bundles and compiles the project.
///
/// # Errors
/// Returns an error if a tool is missing or fails.
pub fn compile(job: &Job<'_>, steps: &mut Steps) -> Result<Vec<u8>> {
    let dir = &job.project.dir;
    let operetta_js = operetta_js(dir)?;
    let module = job.scratch_file("module.wasm");

    steps.run("compile", |note| {
        "operetta-js build".clone_into(note);
        // The steps are printed here; its errors are on stderr.
        let mut command = Command::new(operetta_js);
        command
            .current_dir(dir)
            .arg("build")
            .arg(dir)
            .arg("-o")
            .arg(&module)
            .args(&job.args.compiler_args);

        run(command.stdout(std::process::Stdio::null()))?;
        job.read(&module)
    })
}

/// Returns the command of the helper, which keeps interpreters in a folder.
///
/// # Errors
/// Returns an error if a tool is missing.
pub fn helper(dir: &Path, folder: &Path) -> Result<Command> {
    let mut command = Command::new(operetta_js(dir)?);
    command
        .current_dir(dir)
        .arg("develop")
        .arg(dir)
        .arg("--interpreters")
        .arg(folder);

    Ok(command)
}

/// Finds the SDK's program.
fn operetta_js(dir: &Path) -> Result<PathBuf> {
    let tools = Tools::of(dir);
    tools.find("node", "see https://nodejs.org; version 20 or later")?;
    tools
        .look_for("operetta-js")
        .map_or_else(|| Err(not_installed(dir)), Ok)
}

/// Builds the error about a project that lacks the SDK, or only its packages.
fn not_installed(dir: &Path) -> anyhow::Error {
    let manifest = std::fs::read_to_string(dir.join("package.json"))
        .context("failed to read package.json")
        .and_then(|text| serde_json::from_str::<Value>(&text).context("package.json is not JSON"));

    let depends = |manifest: &Value| {
        ["dependencies", "devDependencies"]
            .iter()
            .any(|group| manifest[group].get(SDK).is_some())
    };

    let dir = dir.display();
    match manifest {
        Ok(manifest) if !depends(&manifest) => {
            anyhow::anyhow!(
                "{dir}/package.json does not depend on {SDK}, which compiles the plugin: add it to its dependencies"
            )
        }
        _ => missing(
            "operetta-js, of the project's packages,",
            &format!("`npm install` in {dir}"),
        ),
    }
}
