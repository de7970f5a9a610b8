//! The system calls that the host never makes.
//!
//! The list denies what helps to take over other processes or to attack the kernel. It isn't a list
//! of what is allowed: the host has a hundred dependencies, and one that needs a harmless call after
//! an update must not end it. The compile worker, which reads hostile bytes and only computes, has
//! such a list (`compiler/sandbox.rs` in operetta-wasm).

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};

/// Denied with any arguments.
const DENIED: &[libc::c_long] = &[
    // Reading and changing other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    // Opening files without a path, which Landlock cannot see.
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    // Parts of the kernel in which vulnerabilities are often found.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_fanotify_init,
    // The kernel and the machine.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_personality,
    libc::SYS_vhangup,
    // A program without a path. Programs with one are Landlock's.
    libc::SYS_execveat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
];

/// The flags of clone(2) that make namespaces.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Why the filter cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// It cannot be built for this processor.
    #[error("failed to build the seccomp filter: {0}")]
    Filter(#[from] BackendError),
    /// The kernel refuses it.
    #[error("failed to apply the seccomp filter: {0}")]
    Seccomp(#[from] seccompiler::Error),
}

/// Denies this thread, and those it starts, the system calls: they fail with EPERM.
///
/// # Errors
/// Returns a [`FilterError`] if the kernel refuses.
pub fn deny() -> Result<(), FilterError> {
    // `clone3` has its flags in memory, where a filter cannot read them. Without it, the C library
    // falls back to `clone`: <https://github.com/moby/moby/pull/42681>.
    let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    seccompiler::apply_filter(&filter(clone3, libc::ENOSYS)?)?;
    seccompiler::apply_filter(&filter(denied()?, libc::EPERM)?)?;
    Ok(())
}

fn denied() -> Result<BTreeMap<i64, Vec<SeccompRule>>, BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        DENIED.iter().map(|call| (*call, Vec::new())).collect();

    // One rule for each flag: any of them denies the call.
    let with_namespace = NAMESPACES.map(|flag| {
        let flag = u64::from(flag.unsigned_abs());
        let is_set = SeccompCmpOp::MaskedEq(flag);
        let condition = SeccompCondition::new(0, SeccompCmpArgLen::Qword, is_set, flag)?;
        SeccompRule::new(vec![condition])
    });
    let with_namespace: Result<Vec<_>, _> = with_namespace.into_iter().collect();
    rules.insert(libc::SYS_clone, with_namespace?);
    Ok(rules)
}

fn filter(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    errno: libc::c_int,
) -> Result<BpfProgram, BackendError> {
    SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(errno.unsigned_abs()),
        std::env::consts::ARCH.try_into()?,
    )?
    .try_into()
}

#[cfg(test)]
mod tests {
    use std::{process::Command, thread};

    use super::*;

    #[test]
    fn filtered_thread_starts_threads_and_programs_but_no_namespaces() {
        let filtered = thread::spawn(|| {
            deny().expect("applied");

            thread::spawn(|| {}).join().expect("a thread");
            let status = Command::new("/bin/true").status().expect("runs");
            assert!(status.success());

            let namespace = Command::new("unshare").args(["--uts", "true"]).status();
            assert!(!namespace.expect("unshare runs").success(), "a namespace");
        });
        filtered.join().expect("the thread ends");
    }
}
