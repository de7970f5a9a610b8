//! The sandbox of the compile worker: it may only compute.
//!
//! The compiler reads bytes that a plugin's author wrote, and a bug in it could let them run as the
//! host's user. So the process drops all other rights before it reads the first of them. Landlock
//! denies files, TCP, abstract sockets and signals. seccomp denies every system call that is not in
//! a list, such as opening a file, creating a socket, running a program, inspecting another
//! process, and mapping executable memory. Denied calls fail with EPERM.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    net::{TcpListener, UdpSocket},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::Command,
};

use landlock::{
    ABI, Access, AccessFs, AccessNet, LandlockStatus, Ruleset, RulesetAttr, RulesetError,
    RulesetStatus, Scope,
};
use rustix::process::Pid;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};

/// The version of Landlock to request. Older kernels enforce what they support.
const LANDLOCK: ABI = ABI::V6;

/// The system calls allowed with any arguments. They allocate memory, compute on threads, read
/// stdin and write stdout.
const ALLOWED: &[libc::c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    // Denied by the other filter with ENOSYS, so the C library falls back to `clone`:
    // <https://github.com/moby/moby/pull/42681>.
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

/// Why a process cannot be confined.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The kernel has Landlock, but refuses the rules.
    #[error("failed to apply Landlock: {0}")]
    Landlock(#[from] RulesetError),
    /// The filter cannot be built for this processor.
    #[error("failed to build the seccomp filter: {0}")]
    Filter(#[from] BackendError),
    /// The kernel refuses the filter.
    #[error("failed to apply the seccomp filter: {0}")]
    Seccomp(#[from] seccompiler::Error),
}

/// Confines this process and its later threads for good. Landlock restricts only the calling
/// thread, so there must be no other yet. Returns a description of the sandbox.
///
/// # Errors
/// Returns a [`SandboxError`] if the kernel refuses. A kernel without Landlock is no error, because
/// seccomp alone denies the same.
pub(super) fn confine() -> Result<String, SandboxError> {
    let landlock = restrict_by_landlock()?;
    seccompiler::apply_filter_all_threads(&denying(&[libc::SYS_clone3], libc::ENOSYS)?)?;
    seccompiler::apply_filter_all_threads(&allowing()?)?;
    Ok(landlock)
}

/// Denies this thread, and those it starts, everything restricted by Landlock. Returns a
/// description of the sandbox.
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
            format!(
                "seccomp and a part of Landlock: the kernel supports ABI {} only",
                effective_abi as i32
            )
        }
        (LandlockStatus::NotEnabled, _) => {
            "seccomp alone: Landlock is not enabled in this kernel".to_owned()
        }
        (LandlockStatus::NotImplemented, _) => {
            "seccomp alone: this kernel has no Landlock".to_owned()
        }
    })
}

/// A filter denying these system calls with any arguments.
fn denying(calls: &[libc::c_long], errno: i32) -> Result<BpfProgram, BackendError> {
    let rules = calls.iter().map(|call| (*call, Vec::new())).collect();
    let deny = SeccompAction::Errno(errno.unsigned_abs());
    SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        deny,
        std::env::consts::ARCH.try_into()?,
    )?
    .try_into()
}

/// A filter denying all system calls but the allowed ones.
fn allowing() -> Result<BpfProgram, BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    let own_pid = u64::from(std::process::id());

    let conditional = [
        // It may start threads, but no processes.
        (
            libc::SYS_clone,
            0,
            bits(libc::CLONE_THREAD as u64, libc::CLONE_THREAD as u64),
        ),
        // It may not map executable memory.
        (libc::SYS_mmap, 2, bits(libc::PROT_EXEC as u64, 0)),
        (libc::SYS_mprotect, 2, bits(libc::PROT_EXEC as u64, 0)),
        // It may signal only itself, as an abort does, and read or set only its own limits.
        (libc::SYS_tgkill, 0, (SeccompCmpOp::Eq, own_pid)),
        (libc::SYS_prlimit64, 0, (SeccompCmpOp::Eq, 0)),
        // It may name threads.
        (
            libc::SYS_prctl,
            0,
            (SeccompCmpOp::Eq, libc::PR_SET_NAME as u64),
        ),
    ];

    for (call, argument, (operator, value)) in conditional {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Qword, operator, value)?;
        rules.insert(call, vec![SeccompRule::new(vec![condition])?]);
    }

    let deny = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    SeccompFilter::new(
        rules,
        deny,
        SeccompAction::Allow,
        std::env::consts::ARCH.try_into()?,
    )?
    .try_into()
}

/// Demands these values of these bits of an argument.
fn bits(mask: u64, wanted: u64) -> (SeccompCmpOp, u64) {
    (SeccompCmpOp::MaskedEq(mask), wanted)
}

/// Attempts to open the host's files and memory, and to signal it. Returns the successful attempts.
pub(super) fn break_into_host(baits: &[PathBuf], parent: Option<Pid>) -> Vec<String> {
    let open = |name: String, file: &Path| (name, File::open(file).map(drop));
    let mut attempts: Vec<_> = baits
        .iter()
        .map(|bait| open(format!("open {}", bait.display()), bait))
        .collect();

    if let Some(parent) = parent {
        let signal = rustix::process::test_kill_process(parent).map_err(io::Error::from);
        attempts.push(("signal the host".to_owned(), signal));
        // Opening it takes the right to trace the process, see ptrace(2).
        let memory = PathBuf::from(format!("/proc/{}/mem", parent.as_raw_nonzero()));
        attempts.push(open("read the host's memory".to_owned(), &memory));
    }
    succeeded(attempts)
}

/// Attempts everything a confined process must not be able to do, with these files as bait. Returns
/// the successful attempts.
pub(super) fn break_out(baits: &[PathBuf], parent: Option<Pid>) -> Vec<String> {
    let mut attempts = Vec::new();
    let mut attempt =
        |name: &str, outcome: io::Result<()>| attempts.push((name.to_owned(), outcome));

    attempt("list /", std::fs::read_dir("/").map(drop));
    attempt(
        "create a file",
        File::create(std::env::temp_dir().join("operetta-break-out")).map(drop),
    );
    attempt(
        "listen on TCP",
        TcpListener::bind(("127.0.0.1", 0)).map(drop),
    );
    attempt(
        "open a UDP socket",
        UdpSocket::bind(("127.0.0.1", 0)).map(drop),
    );
    attempt("open a Unix socket", UnixStream::pair().map(drop));
    attempt(
        "run a program",
        Command::new("/proc/self/exe")
            .arg("--version")
            .status()
            .map(drop),
    );

    let mut all = break_into_host(baits, parent);
    all.extend(succeeded(attempts));
    all
}

fn succeeded(attempts: Vec<(String, io::Result<()>)>) -> Vec<String> {
    attempts
        .into_iter()
        .filter(|(_, outcome)| outcome.is_ok())
        .map(|(name, _)| name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unconfined_process_breaks_out() {
        let bait = tempfile::NamedTempFile::new().expect("a file");
        let succeeded = break_out(&[bait.path().to_owned()], rustix::process::getppid());
        for what in [
            "open ",
            "list /",
            "create a file",
            "listen on TCP",
            "UDP",
            "Unix",
            "run a program",
            "signal the host",
        ] {
            assert!(
                succeeded.iter().any(|one| one.contains(what)),
                "{what} does not test the sandbox: {succeeded:?}"
            );
        }
    }
}
