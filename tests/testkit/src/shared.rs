//! Processes that the tests of one program share.
//!
//! Under `cargo test` the tests of a program are threads of one process, and a static holds what
//! they share. nextest runs each test as a process of its own: the first test of a program starts
//! the shared process and the others attach to it. A keeper (keep.sh) ends the process when the run
//! is over, or when no test has used it for a while.

use std::{
    env,
    fs::{self, File, OpenOptions},
    io,
    os::unix::process::{CommandExt, parent_id},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use crate::target_dir;

/// How long a keeper may take to start, generous for a busy machine.
const KEEPER_START: Duration = Duration::from_secs(60);

/// The nextest group of tests on a real control plane.
const GROUP: &str = "control-plane";

/// A test program's part of a nextest run.
pub(crate) struct TestRun {
    /// The folder of the shared processes' files.
    folder: PathBuf,
    /// The pid of nextest.
    runner: u32,
}

/// A shared process. It keeps running while this exists.
pub(crate) struct SharedProcess {
    /// The process's own folder, with its `stdout` and `stderr`.
    pub(crate) folder: PathBuf,
    /// Its pid.
    pub(crate) pid: u32,
    /// The file of users, with a shared lock. The keeper tries to lock it exclusively to find out
    /// if any user is left.
    _in_use: File,
}

impl TestRun {
    /// Returns the nextest run that this process belongs to, or None under `cargo test`.
    pub(crate) fn current() -> Option<&'static Self> {
        static CURRENT: OnceLock<Option<TestRun>> = OnceLock::new();
        let find = || {
            let run = env::var("NEXTEST_RUN_ID").ok()?;

            let program = env::var("NEXTEST_BINARY_ID")
                .ok()?
                .replace(|letter: char| !letter.is_alphanumeric(), "-");
            let runner = parent_id();

            let name = format!(
                "{runner}-{}-{program}",
                run.split('-').next().unwrap_or(&run)
            );

            Some(TestRun {
                folder: folder().join(name),
                runner,
            })
        };
        CURRENT.get_or_init(find).as_ref()
    }

    /// Attaches to the shared process of this name. If none runs, it starts the command that
    /// `command` returns for the process's folder. Blocks.
    ///
    /// # Errors
    /// Returns the error of `command`, or an error if the process does not start.
    pub(crate) fn attach(
        &self,
        name: &str,
        command: impl FnOnce(&Path) -> io::Result<Command>,
    ) -> io::Result<SharedProcess> {
        fs::create_dir_all(&self.folder)?;

        let users = self.folder.join(format!("{name}.users"));
        let in_use = lock_file(&users)?;
        in_use.lock_shared()?;

        let starting = lock_file(&self.folder.join(format!("{name}.starting")))?;
        starting.lock()?;

        let marker = self.folder.join(format!("{name}.running"));
        if !marker.exists() {
            let folder = self.folder.join(format!("{name}-{}", std::process::id()));
            fs::create_dir_all(&folder)?;
            let command = command(&folder)?;
            keep(self.runner, &[&users, &marker, &folder], &command)?;
        }

        let (pid, folder) = wait_for(&marker)?;
        Ok(SharedProcess {
            folder,
            pid,
            _in_use: in_use,
        })
    }
}

/// Checks that nextest runs this test in the group of tests on a real control plane. The group
/// limits how many run at once.
///
/// # Errors
/// Returns an error that names the file to change.
pub(crate) fn check_group() -> Result<(), String> {
    match env::var("NEXTEST_TEST_GROUP") {
        Ok(group) if group != GROUP => {
            let test = env::var("NEXTEST_TEST_NAME").unwrap_or_default();
            Err(format!(
                "{test} uses a control plane: add its program to the group {GROUP} in .config/nextest.toml"
            ))
        }
        _ => Ok(()),
    }
}

/// Returns the folder of the files that test programs leave behind.
pub(crate) fn folder() -> PathBuf {
    target_dir().join("testkit")
}

/// Starts the keeper of a command, in a process group of its own: nextest kills the group of a test
/// that hangs.
fn keep(runner: u32, files: &[&Path], command: &Command) -> io::Result<()> {
    let mut keeper = Command::new("bash");

    keeper
        .args(["-c", include_str!("keep.sh"), "keep.sh"])
        .arg(runner.to_string())
        .args(files);
    keeper.arg(command.get_program()).args(command.get_args());

    for (name, value) in command.get_envs() {
        match value {
            Some(value) => keeper.env(name, value),
            None => keeper.env_remove(name),
        };
    }

    keeper
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map(drop)
}

/// Waits until the keeper has written the marker: the process's pid and folder.
fn wait_for(marker: &Path) -> io::Result<(u32, PathBuf)> {
    let end = Instant::now() + KEEPER_START;
    loop {
        let text = fs::read_to_string(marker).unwrap_or_default();

        if let Some((pid, folder)) = text.trim_end().split_once(' ')
            && let Ok(pid) = pid.parse()
        {
            return Ok((pid, PathBuf::from(folder)));
        }

        if Instant::now() > end {
            return Err(io::Error::other(format!(
                "no process after {KEEPER_START:?}: {}",
                marker.display()
            )));
        }

        thread::sleep(Duration::from_millis(10));
    }
}

/// Opens a file for locking. Commands that a test starts do not inherit it.
pub(crate) fn lock_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .read(true)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_test_attaches_to_process_until_runner_ends() {
        let folder = folder().join(format!("{}-shared-process", std::process::id()));
        let mut runner = Command::new("sleep").arg("60").spawn().expect("a runner");
        let run = TestRun {
            folder: folder.clone(),
            runner: runner.id(),
        };

        let sleep = |_: &Path| {
            let mut command = Command::new("sleep");
            command.arg("60");
            Ok(command)
        };

        let first = run.attach("sleep", sleep).expect("started");
        let second = run
            .attach("sleep", |_| Err(io::Error::other("started twice")))
            .expect("attached");

        assert_eq!((first.pid, &first.folder), (second.pid, &second.folder));
        runner.kill().expect("ended");
        runner.wait().expect("reaped");

        let end = Instant::now() + KEEPER_START;
        while folder.join("sleep.running").exists() {
            assert!(Instant::now() < end, "the process outlives its runner");
            thread::sleep(Duration::from_millis(50));
        }

        fs::remove_dir_all(folder).expect("removed");
    }
}
