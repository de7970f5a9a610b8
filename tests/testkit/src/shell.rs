//! Commands from the documentation and from messages of the host, run as a user would.

use std::{path::Path, process::Command};

use crate::controlplane::{ControlPlane, kubectl_path};

/// Returns a command that runs a line from the documentation or a message in bash, with kubectl and
/// `programs` in its PATH and with a kubeconfig. It fails if any command of the line fails.
///
/// # Panics
/// Panics if kubectl was not built.
pub fn shell(programs: &[&Path], kubeconfig: &Path, line: &str) -> Command {
    let kubectl = kubectl_path();
    let folders = programs
        .iter()
        .copied()
        .chain([kubectl.as_path()])
        .filter_map(Path::parent)
        .map(Path::to_owned);

    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let path =
        std::env::join_paths(folders.chain(std::env::split_paths(&inherited))).expect("paths");

    let mut shell = Command::new("bash");
    shell
        .args(["-e", "-o", "pipefail", "-c", line])
        .env("PATH", path)
        .env("KUBECONFIG", kubeconfig);
    shell
}

/// Runs the command that a message ends with, as an administrator would: from `begin` on, such as
/// `kubectl `. It finds `programs` besides kubectl. Blocks.
///
/// # Panics
/// Panics if there is no such command, or if it fails.
pub fn run_what_it_says(
    control_plane: &ControlPlane,
    programs: &[&Path],
    begin: &str,
    message: &str,
) {
    let command = message
        .find(begin)
        .map(|at| &message[at..])
        .expect("a command");

    let output = shell(programs, control_plane.kubeconfig(), command)
        .output()
        .expect("bash runs");

    assert!(
        output.status.success(),
        "{command}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
