//! Gives up the privileges of a host before it does anything else.

use std::{env, os::unix::process::CommandExt, process::Command};

use operetta_wasm::code;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// The variable that is set where the program runs for the second time.
const RUN_ANEW: &str = "OPERETTA_DROPPED_PRIVILEGES";

/// Drops the capabilities that a host does not need, and forbids core dumps. Failures are logged.
///
/// Capabilities belong to threads, and the allocator has started one already. So the program runs
/// anew, in the same process, with what is left.
pub fn drop_for_host() {
    let problem = match code::drop_for_host() {
        Ok(false) => None,
        Ok(true) if env::var_os(RUN_ANEW).is_some() => {
            Some("running the program anew did not help".to_owned())
        }
        Ok(true) => Some(run_anew()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(problem) = problem {
        tracing::warn!("the host keeps privileges that it does not need: {problem}");
    }
    forbid_core_dumps();
}

/// Replaces the program by itself. Returns the error if that fails.
fn run_anew() -> String {
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_default();
    match env::current_exe() {
        Ok(program) => Command::new(program)
            .arg0(name)
            .args(arguments)
            .env(RUN_ANEW, "1")
            .exec()
            .to_string(),
        Err(error) => error.to_string(),
    }
}

/// Keeps what the process has in memory, such as its token, out of core dumps and from other
/// processes of its user. The files of it in /proc belong to root then.
fn forbid_core_dumps() {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let limited = setrlimit(Resource::Core, none);
    if let Err(error) = limited.and_then(|()| set_dumpable_behavior(DumpableBehavior::NotDumpable))
    {
        tracing::warn!(%error, "failed to forbid core dumps");
    }
}
