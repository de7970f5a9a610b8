//! Finds and runs the languages' tools.
//!
//! Tools are searched in the project (`node_modules/.bin`, `.venv/bin`), then in PATH, then in the
//! folder `bin` of the environment variable OPERETTA_TOOLS. The output of a tool is passed through.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};

use anyhow::{Context, Result, bail};
use operetta_api::reasons::{self, CodedError};

/// The folders to search for tools.
pub struct Tools {
    folders: Vec<PathBuf>,
}

impl Tools {
    /// Returns the folders for a project.
    pub fn of(project: &Path) -> Self {
        let path = env::var_os("PATH").unwrap_or_default();
        Self::new(
            project,
            &path,
            env::var_os("OPERETTA_TOOLS").map(PathBuf::from).as_deref(),
        )
    }

    fn new(project: &Path, path: &OsString, own: Option<&Path>) -> Self {
        let mut folders = vec![project.join(".venv/bin")];

        // A package of an npm workspace has its tools in the workspace's folder.
        folders.extend(
            project
                .ancestors()
                .map(|folder| folder.join("node_modules/.bin")),
        );

        folders.extend(env::split_paths(path));
        folders.extend(own.map(|own| own.join("bin")));
        Self { folders }
    }

    /// Finds a tool.
    ///
    /// # Errors
    /// Returns an error if the tool is missing; `install` tells how to install it.
    pub fn find(&self, name: &str, install: &str) -> Result<PathBuf> {
        self.look_for(name).ok_or_else(|| missing(name, install))
    }

    /// Finds a tool; None if it is missing.
    pub fn look_for(&self, name: &str) -> Option<PathBuf> {
        self.all(&[name]).next()
    }

    /// Finds every tool with one of these names, in the order of search.
    pub fn all(&self, names: &[&str]) -> impl Iterator<Item = PathBuf> {
        let files = self
            .folders
            .iter()
            .flat_map(|folder| names.iter().map(|name| folder.join(name)));
        files.filter(|file| is_program(file))
    }
}

/// Builds the error about a missing tool.
pub fn missing(name: &str, install: &str) -> anyhow::Error {
    reasons::TOOL_MISSING
        .error(format!("{name} is not installed; to install it: {install}"))
        .into()
}

/// Runs a tool and passes its output through.
///
/// # Errors
/// Returns an error if the tool does not start or fails; it has printed the cause itself.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("failed to start {}", name_of(command)))?;

    if !status.success() {
        bail!(failed(command, status));
    }

    Ok(())
}

/// Runs a tool and prints its output to stderr only if it fails.
///
/// # Errors
/// Returns an error if the tool does not start or fails.
pub fn run_quietly(command: &mut Command) -> Result<()> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("failed to start {}", name_of(command)))?;

    if !output.status.success() {
        eprint!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        bail!(failed(command, output.status));
    }

    Ok(())
}

/// Runs a tool, passes its stderr through and returns its stdout.
///
/// # Errors
/// Returns an error if the tool does not start, fails, or does not write UTF-8.
pub fn output_of(command: &mut Command) -> Result<String> {
    let command = command.stderr(Stdio::inherit());
    let output = command
        .output()
        .with_context(|| format!("failed to start {}", name_of(command)))?;

    if !output.status.success() {
        bail!(failed(command, output.status));
    }

    String::from_utf8(output.stdout)
        .with_context(|| format!("{} did not write UTF-8", name_of(command)))
}

fn failed(command: &Command, status: ExitStatus) -> CodedError {
    reasons::COMPILER_FAILED.error(format!(
        "{} failed ({status}): see its output above",
        name_of(command)
    ))
}

fn name_of(command: &Command) -> String {
    let program = Path::new(command.get_program());
    program
        .file_name()
        .unwrap_or(program.as_os_str())
        .to_string_lossy()
        .into_owned()
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(file)
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_projects_own_tools_come_first_and_operettas_last() {
        let root = tempfile::tempdir().expect("folder");
        let tool = |folder: &str, name: &str| {
            let folder = root.path().join(folder);
            std::fs::create_dir_all(&folder).expect("folder");
            std::fs::write(folder.join(name), "").expect("file");
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(folder.join(name), mode).expect("mode");
            folder.join(name)
        };

        let hoisted = tool("node_modules/.bin", "jco");
        let path = root.path().join("path");
        let own = tool("tools/bin", "zig");
        let everywhere = tool("path", "go");
        for name in ["jco", "zig"] {
            tool("elsewhere", name);
        }
        tool("path", "jco");

        let project = root.path().join("packages/a");
        let tools = Tools::new(
            &project,
            &path.into_os_string(),
            Some(&root.path().join("tools")),
        );

        assert_eq!(tools.look_for("jco"), Some(hoisted));
        assert_eq!(tools.look_for("go"), Some(everywhere));
        assert_eq!(tools.look_for("zig"), Some(own));

        let error = tools
            .find("no-such-tool", "`make it`")
            .expect_err("nowhere")
            .to_string();
        assert_eq!(
            error,
            "no-such-tool is not installed; to install it: `make it`"
        );
    }

    #[test]
    fn a_failing_tool_is_named() {
        let error = run(Command::new("sh").args(["-c", "exit 3"]))
            .expect_err("fails")
            .to_string();
        assert!(error.starts_with("sh failed (exit status: 3)"), "{error}");
        let error = run(&mut Command::new("/no/such/tool")).expect_err("is not there");
        assert!(
            format!("{error:#}").starts_with("failed to start tool: "),
            "{error:#}"
        );
    }
}
