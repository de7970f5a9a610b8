//! The program that compiles plugins for `operetta-host`.

use std::{
    env,
    fs::File,
    os::fd::IntoRawFd,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use operetta_manager::config::Compiler;

/// The file name of the compile worker.
const PROGRAM: &str = "operetta-compiler";

/// Returns the compile worker of `operetta-host`: the program `operetta-compiler` in the same folder.
///
/// # Errors
/// Returns an error that names the path if it is not there.
pub fn compiler_beside() -> Result<Compiler> {
    let host = env::current_exe().context("failed to find the path of this program")?;
    open(&host.with_file_name(PROGRAM))
}

/// Opens the program for the life of this process: an upgrade that replaces both programs then
/// leaves a running host its own compiler, not one of another version.
fn open(path: &Path) -> Result<Compiler> {
    let file = File::open(path).with_context(|| {
        format!(
            "failed to open the compile worker {}, which belongs beside operetta-host",
            path.display()
        )
    })?;
    let program = PathBuf::from(format!("/proc/self/fd/{}", file.into_raw_fd()));
    Ok(Compiler::Worker {
        program,
        arguments: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt, process::Command};

    use super::*;

    #[test]
    fn missing_compiler_is_named() {
        let error = format!(
            "{:#}",
            open(Path::new("/no/operetta-compiler")).expect_err("missing")
        );
        assert!(error.contains("/no/operetta-compiler"), "{error}");
    }

    #[test]
    fn replaced_compiler_is_still_the_one_that_was_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(PROGRAM);
        fs::copy("/bin/true", &path).expect("copied");
        let Compiler::Worker { program, .. } = open(&path).expect("opened") else {
            panic!("a worker")
        };

        fs::remove_file(&path).expect("removed");
        fs::write(&path, "not a program").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");

        let status = Command::new(program).status().expect("runs");
        assert!(status.success(), "{status}");
    }
}
