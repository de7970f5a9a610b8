//! The sandbox of the process that compiles: code of a component may at most compute there.
//!
//! The compiler reads bytes that a plugin's author wrote, and a mistake in it could let them run as the host's user. So the
//! process gives up everything but computing before it reads the first of them: Landlock denies files, TCP, abstract
//! sockets and signals; seccomp denies every system call that is not in a list, so also opening any file, making any
//! socket, running a program, looking into another process, and memory that is executable. Denied calls fail with EPERM.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    net::{TcpListener, UdpSocket},
    os::unix::net::UnixStream,
    path::PathBuf,
    process::Command,
};

use landlock::{
    ABI, Access, AccessFs, AccessNet, LandlockStatus, Ruleset, RulesetAttr, RulesetError, RulesetStatus, Scope,
};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

/// The newest version of Landlock that is asked for; older kernels enforce what they know.
const LANDLOCK: ABI = ABI::V6;

/// The system calls that allocating, computing on threads, reading stdin and writing stdout need, whatever their arguments.
const ALLOWED: &[libc::c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    // Denied by the second filter, with the answer that makes the C library fall back to `clone`.
    libc::SYS_clone3,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_sysinfo,
    libc::SYS_write,
    libc::SYS_writev,
];

/// The reason why a process cannot be confined.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// Landlock is there and refuses.
    #[error("Landlock cannot be applied: {0}")]
    Landlock(#[from] RulesetError),
    /// The filter cannot be built on this processor.
    #[error("the seccomp filter cannot be built: {0}")]
    Filter(#[from] BackendError),
    /// The kernel refuses the filter.
    #[error("the seccomp filter cannot be applied: {0}")]
    Seccomp(#[from] seccompiler::Error),
}

/// Confines this process for good: all of its threads, and those to come. Returns the version of Landlock that helps.
///
/// # Errors
/// [`SandboxError`]. A kernel without Landlock is none: seccomp alone denies the same.
pub(super) fn confine() -> Result<String, SandboxError> {
    let landlock = restrict_by_landlock()?;
    seccompiler::apply_filter_all_threads(&denying(&[libc::SYS_clone3], libc::ENOSYS)?)?;
    seccompiler::apply_filter_all_threads(&allowing()?)?;
    Ok(landlock)
}

/// Denies this thread, and those it starts, everything that Landlock knows.
fn restrict_by_landlock() -> Result<String, RulesetError> {
    let ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(LANDLOCK))?
        .handle_access(AccessNet::from_all(LANDLOCK))?
        .scope(Scope::from_all(LANDLOCK))?;
    let status = ruleset.create()?.restrict_self()?;
    Ok(match (status.landlock, status.ruleset) {
        (LandlockStatus::Available { effective_abi, .. }, RulesetStatus::FullyEnforced) => {
            format!("seccomp and Landlock (ABI {})", effective_abi as i32)
        }
        (LandlockStatus::Available { effective_abi, .. }, _) => {
            format!("seccomp and a part of Landlock: the kernel knows ABI {} only", effective_abi as i32)
        }
        (LandlockStatus::NotEnabled, _) => "seccomp alone: Landlock is not enabled in this kernel".to_owned(),
        (LandlockStatus::NotImplemented, _) => "seccomp alone: this kernel has no Landlock".to_owned(),
    })
}

/// The filter that fails these system calls, whatever their arguments.
fn denying(calls: &[libc::c_long], errno: i32) -> Result<BpfProgram, BackendError> {
    let rules = calls.iter().map(|call| (*call, Vec::new())).collect();
    let deny = SeccompAction::Errno(errno.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, deny, std::env::consts::ARCH.try_into()?)?.try_into()
}

/// The filter that fails all system calls but the allowed ones.
fn allowing() -> Result<BpfProgram, BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    let own = u64::from(std::process::id());
    let conditional = [
        // Threads, no processes.
        (libc::SYS_clone, 0, bits(libc::CLONE_THREAD as u64, libc::CLONE_THREAD as u64)),
        // No executable memory.
        (libc::SYS_mmap, 2, bits(libc::PROT_EXEC as u64, 0)),
        (libc::SYS_mprotect, 2, bits(libc::PROT_EXEC as u64, 0)),
        // Only to itself, as an abort does.
        (libc::SYS_tgkill, 0, (SeccompCmpOp::Eq, own)),
        (libc::SYS_prlimit64, 0, (SeccompCmpOp::Eq, 0)),
        // Names of threads.
        (libc::SYS_prctl, 0, (SeccompCmpOp::Eq, libc::PR_SET_NAME as u64)),
    ];
    for (call, argument, (operator, value)) in conditional {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Qword, operator, value)?;
        rules.insert(call, vec![SeccompRule::new(vec![condition])?]);
    }
    let deny = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    SeccompFilter::new(rules, deny, SeccompAction::Allow, std::env::consts::ARCH.try_into()?)?.try_into()
}

/// Compares some bits of an argument.
fn bits(mask: u64, wanted: u64) -> (SeccompCmpOp, u64) {
    (SeccompCmpOp::MaskedEq(mask), wanted)
}

/// Tries what code in a confined process must not be able to do, with these files as bait. Returns what it could do.
pub(super) fn break_out(baits: &[PathBuf], parent: Option<rustix::process::Pid>) -> Vec<String> {
    let mut done = Vec::new();
    let mut attempt = |what: String, outcome: io::Result<()>| {
        if outcome.is_ok() {
            done.push(what);
        }
    };
    for bait in baits {
        attempt(format!("open {}", bait.display()), File::open(bait).map(drop));
    }
    attempt("list /".to_owned(), std::fs::read_dir("/").map(drop));
    attempt("create a file".to_owned(), File::create(std::env::temp_dir().join("operetta-break-out")).map(drop));
    attempt("listen on TCP".to_owned(), TcpListener::bind(("127.0.0.1", 0)).map(drop));
    attempt("open a UDP socket".to_owned(), UdpSocket::bind(("127.0.0.1", 0)).map(drop));
    attempt("open a Unix socket".to_owned(), UnixStream::pair().map(drop));
    attempt("run a program".to_owned(), Command::new("/proc/self/exe").arg("--version").status().map(drop));
    if let Some(parent) = parent {
        let signal = rustix::process::test_kill_process(parent).map_err(io::Error::from);
        attempt("signal the host".to_owned(), signal);
        let memory = format!("/proc/{}/mem", parent.as_raw_nonzero());
        attempt("read the host's memory".to_owned(), File::open(memory).map(drop));
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unconfined_process_breaks_out() {
        let bait = tempfile::NamedTempFile::new().expect("a file");
        let done = break_out(&[bait.path().to_owned()], rustix::process::getppid());
        for what in
            ["open ", "list /", "create a file", "listen on TCP", "UDP", "Unix", "run a program", "signal the host"]
        {
            assert!(done.iter().any(|one| one.contains(what)), "{what} is no test of the sandbox: {done:?}");
        }
    }
}
