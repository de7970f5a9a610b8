//! Tries what a confined host must not be able to do.

use std::{
    fs::{self, File},
    io,
    process::{Command, Stdio},
};

use operetta_manager::confinement::Confinement;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// Attempts to leave the confinement. A mechanism that doesn't keep its promise doesn't count, and
/// the problem names the attempts.
pub fn check(claimed: Confinement) -> Confinement {
    let succeeded = succeeded();
    if succeeded.is_empty() {
        return claimed;
    }

    // Without Landlock, only the system call fails.
    let is_of_files = |attempt: &&String| attempt.as_str() != SYSTEM_CALL;
    let files: Vec<String> = succeeded.iter().filter(is_of_files).cloned().collect();
    let broken = match claimed.landlock {
        true => succeeded.clone(),
        false => succeeded
            .iter()
            .filter(|attempt| !is_of_files(attempt))
            .cloned()
            .collect(),
    };
    let found = Confinement {
        seccomp: claimed.seccomp && files.len() == succeeded.len(),
        landlock: claimed.landlock && files.is_empty(),
        problem: claimed.problem,
    };
    if broken.is_empty() {
        return found;
    }

    let why = format!(
        "it is not effective: the host can still {}",
        broken.join(", ")
    );
    let before = found
        .problem
        .map_or_else(String::new, |before| format!("{before}; "));
    Confinement {
        problem: Some(before + &why),
        ..found
    }
}

/// The attempt that seccomp denies.
const SYSTEM_CALL: &str = "take a file of a process";

/// Makes all attempts, and returns those that succeeded.
pub fn succeeded() -> Vec<String> {
    let attempts = [
        ("list /", fs::read_dir("/").map(drop)),
        ("open /etc/passwd", File::open("/etc/passwd").map(drop)),
        ("run /bin/sh", run_shell()),
        (SYSTEM_CALL, take_file().map_err(io::Error::from)),
    ];
    attempts
        .into_iter()
        .filter(|(_, outcome)| outcome.is_ok())
        .map(|(attempt, _)| attempt.to_owned())
        .collect()
}

fn run_shell() -> io::Result<()> {
    Command::new("/bin/sh")
        .args(["-c", "exit 0"])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map(drop)
}

/// Takes a file of a process, here of this one, where the kernel needs no other right.
fn take_file() -> rustix::io::Result<()> {
    let process = pidfd_open(getpid(), PidfdFlags::empty())?;
    pidfd_getfd(&process, 2, PidfdGetfdFlags::empty()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mechanism_that_is_not_effective_does_not_count() {
        // This process is not confined.
        let found = check(Confinement {
            seccomp: true,
            landlock: true,
            problem: None,
        });
        assert!(!found.landlock, "{found:?}");
        let problem = found.problem.expect("a problem");
        assert!(problem.contains("list /"), "{problem}");
    }
}
