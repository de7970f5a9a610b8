//! Confines the host's own process: the second wall behind wasmtime's sandbox.
//!
//! A component that breaks out of the sandbox runs in the host. It then has the host's token and
//! memory, and nothing can take those away. But it doesn't get the rest of the machine: Landlock
//! denies all files but those that the host needs, and all programs but the host and its compile
//! worker; seccomp denies system calls that the host never makes.
//!
//! Landlock restricts a thread and those it starts, and the allocator has started one already. So
//! the program restricts its first thread once it knows its configuration, and executes itself
//! again: every thread then starts inside. The second run tries to break out, and reports what it
//! finds.

mod break_out;
mod paths;
mod system_calls;

use std::{env, fmt, os::unix::process::CommandExt, process::Command};

use anyhow::{Result, bail};
use landlock::{
    ABI, Access, AccessFs, LandlockStatus, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use operetta_api::reasons;
use operetta_manager::{
    config::{Compiler, HostConfig},
    confinement::{Confine, Confinement},
};

use self::paths::Paths;
use crate::args::RunArgs;

/// The version of Landlock to request. Older kernels enforce what they support.
const LANDLOCK: ABI = ABI::V6;

/// The variable that is set where the program runs for the second time: what confines it.
const CONFINED: &str = "OPERETTA_CONFINED";

/// Confines this process for good, and executes the program again. Returns what confines it in the
/// second run, or where it is not confined. Call it before anything starts threads or opens files
/// that only it may open.
///
/// # Errors
/// When the configuration requires a confinement that isn't possible here.
pub fn confine_host(args: &RunArgs, compiler: &Compiler) -> Result<Confinement> {
    if let Some(found) = env::var_os(CONFINED) {
        return Ok(decode(&found.to_string_lossy()));
    }
    // Without a valid configuration the host doesn't start. It reports that itself.
    let Ok(config) = HostConfig::read(args.config.as_deref()) else {
        return Ok(Confinement::default());
    };
    if config.confine == Confine::Off {
        return Ok(Confinement::default());
    }

    let paths = Paths::of_host(args, &config, compiler);
    let confinement = confine_thread(paths);
    check_required(&config, &confinement)?;

    let problem = execute_again(&confinement);
    let confinement = Confinement {
        problem: Some(format!(
            "the threads of the allocator are not confined: failed to execute the program again: {problem}"
        )),
        ..Confinement::default()
    };
    check_required(&config, &confinement)?;
    Ok(confinement)
}

/// Tries to break out, on a thread of the runtime, and logs what confines the host.
///
/// # Errors
/// When the configuration requires a confinement that is not effective.
pub async fn verify(config: &HostConfig, claimed: Confinement) -> Result<Confinement> {
    let found = match claimed {
        Confinement {
            seccomp: false,
            landlock: false,
            ..
        } => claimed,
        claimed => tokio::task::spawn_blocking(move || break_out::check(claimed)).await?,
    };
    check_required(config, &found)?;

    match &found {
        _ if config.confine == Confine::Off => tracing::info!("host: not confined, confine is off"),
        Confinement {
            problem: Some(problem),
            ..
        } => tracing::warn!("host: {}: {problem}", Mechanisms(&found)),
        found => tracing::info!("host: {}", Mechanisms(found)),
    }
    Ok(found)
}

/// Says what confines the host.
struct Mechanisms<'a>(&'a Confinement);

impl fmt::Display for Mechanisms<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.0.seccomp, self.0.landlock) {
            (true, true) => "confined by seccomp and Landlock",
            (true, false) => "confined by seccomp alone",
            (false, true) => "confined by Landlock alone",
            (false, false) => "not confined",
        })
    }
}

fn check_required(config: &HostConfig, confinement: &Confinement) -> Result<()> {
    if config.confine != Confine::Required || confinement.is_complete() {
        return Ok(());
    }
    let why = confinement
        .problem
        .as_deref()
        .unwrap_or("nothing confines it");
    bail!(reasons::NOT_CONFINED.error(format!(
        "the host is {}, and confine is required: {why}",
        Mechanisms(confinement)
    )))
}

/// Confines this thread, and those it starts. Without paths, by seccomp alone.
fn confine_thread(paths: Result<Paths, String>) -> Confinement {
    let mut confinement = Confinement::default();
    let mut problems = Vec::new();

    match paths.map(|paths| restrict(&paths)) {
        Ok(Ok(None)) => confinement.landlock = true,
        Ok(Ok(Some(Partial { landlock, why }))) => {
            confinement.landlock = landlock;
            problems.push(why);
        }
        Ok(Err(error)) => problems.push(format!("failed to apply Landlock: {error}")),
        Err(why) => problems.push(format!("Landlock is not applied: {why}")),
    }
    match system_calls::deny() {
        Ok(()) => confinement.seccomp = true,
        Err(error) => problems.push(error.to_string()),
    }

    confinement.problem = Some(problems.join("; ")).filter(|text| !text.is_empty());
    confinement
}

/// A restriction that isn't complete.
#[derive(Debug)]
struct Partial {
    /// True if a part of it is in force.
    landlock: bool,
    why: String,
}

/// Denies this thread, and those it starts, all files but these.
///
/// # Errors
/// When the kernel has Landlock, but refuses the rules.
fn restrict(paths: &Paths) -> Result<Option<Partial>, RulesetError> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let write = read
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::MakeDir
        | AccessFs::RemoveFile
        | AccessFs::RemoveDir;

    let ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(LANDLOCK))?
        .scope(Scope::from_all(LANDLOCK))?
        .create()?
        // Paths that don't exist are left out.
        .add_rules(path_beneath_rules(&paths.read, read))?
        .add_rules(path_beneath_rules(&paths.write, write))?
        .add_rules(programs(paths))?;
    let status = ruleset.restrict_self()?;

    Ok(match (status.landlock, status.ruleset) {
        (LandlockStatus::Available { .. }, RulesetStatus::FullyEnforced) => None,
        (LandlockStatus::Available { effective_abi, .. }, _) => Some(Partial {
            landlock: true,
            why: format!(
                "the kernel supports ABI {} of Landlock only",
                effective_abi as i32
            ),
        }),
        (LandlockStatus::NotEnabled, _) => Some(Partial {
            landlock: false,
            why: "Landlock is not enabled in this kernel".to_owned(),
        }),
        (LandlockStatus::NotImplemented, _) => Some(Partial {
            landlock: false,
            why: "this kernel has no Landlock".to_owned(),
        }),
    })
}

/// The rules for programs, which are read as well: the dynamic linker maps them.
fn programs(paths: &Paths) -> impl Iterator<Item = Result<PathBeneath<PathFd>, RulesetError>> {
    path_beneath_rules(&paths.execute, AccessFs::Execute | AccessFs::ReadFile)
}

/// Replaces the program by itself. Returns the error if that fails.
fn execute_again(confinement: &Confinement) -> String {
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_default();
    match env::current_exe() {
        Ok(program) => Command::new(program)
            .arg0(name)
            .args(arguments)
            .env(CONFINED, encode(confinement))
            .exec()
            .to_string(),
        Err(error) => error.to_string(),
    }
}

fn encode(confinement: &Confinement) -> String {
    let Confinement {
        seccomp,
        landlock,
        problem,
    } = confinement;
    format!(
        "{seccomp} {landlock} {}",
        problem.as_deref().unwrap_or_default()
    )
}

/// Reads what [`encode`] wrote.
fn decode(text: &str) -> Confinement {
    let mut parts = text.splitn(3, ' ');
    let seccomp = parts.next() == Some("true");
    let landlock = parts.next() == Some("true");
    let problem = parts.next().filter(|text| !text.is_empty());
    Confinement {
        seccomp,
        landlock,
        problem: problem.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf, process::Stdio, thread};

    use super::*;

    #[test]
    fn second_run_knows_what_confines_it() {
        for confinement in [
            Confinement::default(),
            Confinement {
                seccomp: true,
                landlock: true,
                problem: None,
            },
            Confinement {
                seccomp: true,
                landlock: false,
                problem: Some("this kernel has no Landlock".to_owned()),
            },
        ] {
            assert_eq!(decode(&encode(&confinement)), confinement);
        }
    }

    #[test]
    fn host_that_must_be_confined_does_not_start_without() {
        let config = |confine| HostConfig {
            confine,
            ..HostConfig::default()
        };
        let partial = Confinement {
            seccomp: true,
            landlock: false,
            problem: Some("this kernel has no Landlock".to_owned()),
        };
        assert!(check_required(&config(Confine::Auto), &partial).is_ok());
        assert!(check_required(&config(Confine::Off), &partial).is_ok());
        let error = check_required(&config(Confine::Required), &partial)
            .expect_err("refused")
            .to_string();
        assert!(
            error.contains("seccomp alone") && error.contains("this kernel has no Landlock"),
            "{error}"
        );

        let complete = Confinement {
            landlock: true,
            ..partial
        };
        assert!(check_required(&config(Confine::Required), &complete).is_ok());
    }

    /// Confinement belongs to threads, so a test confines one of its own.
    #[test]
    fn confined_thread_gets_its_own_files_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = folder.path().join("own");
        fs::create_dir(&own).expect("a folder");
        let readable = folder.path().join("readable");
        fs::write(&readable, "text").expect("written");

        let paths = Paths {
            read: vec![readable.clone(), PathBuf::from("/proc")],
            write: vec![own.clone(), PathBuf::from("/dev/null")],
            execute: Vec::new(),
        };
        let run_sh = || {
            Command::new("/bin/sh")
                .args(["-c", "exit 0"])
                .stdin(Stdio::null())
                .status()
        };
        assert!(run_sh().expect("a shell").success());
        assert!(
            !break_out::succeeded().is_empty(),
            "the attempts prove nothing"
        );

        let confined = thread::spawn(move || {
            let confinement = confine_thread(Ok(paths));
            assert!(confinement.seccomp, "{confinement:?}");
            if !confinement.landlock {
                // This kernel has none: only system calls are denied.
                return;
            }

            assert_eq!(fs::read_to_string(&readable).expect("readable"), "text");
            assert!(
                fs::write(&readable, "other").is_err(),
                "it may only be read"
            );
            fs::write(own.join("new"), "text").expect("written");
            fs::rename(own.join("new"), own.join("renamed")).expect("renamed");
            fs::remove_file(own.join("renamed")).expect("removed");
            fs::read_to_string("/proc/self/status").expect("readable");

            for file in ["/etc/passwd", "/bin/sh", "/etc"] {
                assert!(fs::File::open(file).is_err(), "{file} is open");
            }
            assert!(run_sh().is_err(), "a shell runs");
            assert_eq!(break_out::succeeded(), Vec::<String>::new());
        });
        confined.join().expect("the thread ends");
    }

    #[test]
    fn confined_thread_runs_the_programs_it_is_given() {
        let shell = PathBuf::from("/bin/sh").canonicalize().expect("a shell");
        let mut paths = Paths::of_programs();
        paths.execute.push(shell.clone());
        paths.write.push("/dev/null".into());

        let confined = thread::spawn(move || {
            confine_thread(Ok(paths));
            let status = Command::new(&shell)
                .args(["-c", "exit 7"])
                .stdin(Stdio::null())
                .status();
            assert_eq!(status.expect("runs").code(), Some(7));
        });
        confined.join().expect("the thread ends");
    }
}
