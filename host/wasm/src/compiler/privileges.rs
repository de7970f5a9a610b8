//! Drops the privileges of the compile worker for good when it starts.
//!
//! The worker keeps no capability and, if allowed, becomes a different user from the host's. It
//! then cannot read the files of the host, or signal or inspect it, even on a kernel without
//! Landlock.
//!
//! On Linux, users and capabilities belong to threads, not to processes
//! (<https://man7.org/linux/man-pages/man7/capabilities.7.html>). Any thread that kept them would
//! lend them to whoever controls the memory of the process, so the worker refuses to run beside
//! other threads.

use rustix::{
    io::Errno,
    process::{Gid, Uid, geteuid},
    thread::{
        CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs, set_thread_groups,
        set_thread_res_gid, set_thread_res_uid,
    },
};

use crate::code::privileges::{FOR_WORKERS, PrivilegeError, keep};

/// The users of workers: the first one, unless the host runs as it. No distribution and no image
/// assigns them.
const USERS: [u32; 2] = [65_533, 65_531];

/// The user of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum User {
    /// A different user from the host's.
    Own(u32),
    /// The host's user, with the reason.
    Shared(u32, String),
}

impl std::fmt::Display for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Own(user) => write!(f, "as user {user}"),
            Self::Shared(user, why) => write!(f, "as the host's user {user}: {why}"),
        }
    }
}

/// Drops all capabilities of this process. If allowed, also changes its user and drops its
/// supplementary groups.
///
/// # Errors
/// Returns a [`PrivilegeError`] if there are other threads, or the kernel refuses to take
/// capabilities away.
pub(super) fn drop_for_worker() -> Result<User, PrivilegeError> {
    check_threads()?;
    let former = geteuid().as_raw();

    let user = match change_user(former) {
        Ok(user) => User::Own(user),
        Err(Errno::PERM) => User::Shared(
            former,
            "it may not change users (CAP_SETUID, CAP_SETGID)".to_owned(),
        ),
        Err(error) => User::Shared(former, format!("failed to change users: {error}")),
    };

    keep(CapabilitySet::empty())?;
    set_no_new_privs(true)?;
    Ok(user)
}

fn change_user(former: u32) -> Result<u32, Errno> {
    let user = if former == USERS[0] {
        USERS[1]
    } else {
        USERS[0]
    };
    let uid = Uid::from_raw(user);
    let gid = Gid::from_raw(user);

    // The user comes last: changing it may take away the right to change groups.
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    Ok(user)
}

fn check_threads() -> Result<(), PrivilegeError> {
    match std::fs::read_dir("/proc/self/task")?.count() {
        1 => Ok(()),
        threads => Err(PrivilegeError::Threads(threads)),
    }
}

/// Attempts to undo [`drop_for_worker`] in a process with a user of its own. Returns the successful
/// attempts.
pub(super) fn regain() -> Vec<String> {
    let root = Uid::ROOT;
    let gained = CapabilitySets {
        effective: FOR_WORKERS,
        permitted: FOR_WORKERS,
        inheritable: CapabilitySet::empty(),
    };
    let attempts = [
        ("become root", set_thread_res_uid(root, root, root)),
        ("change its groups", set_thread_groups(&[Gid::ROOT])),
        ("gain capabilities", set_capabilities(None, gained)),
    ];

    attempts
        .into_iter()
        .filter(|(_, outcome)| outcome.is_ok())
        .map(|(attempt, _)| attempt.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_refuses_to_drop_privileges_beside_other_threads() {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || stopped.recv().is_err());
        assert!(matches!(
            drop_for_worker(),
            Err(PrivilegeError::Threads(2..))
        ));
        drop(stop);
        assert!(other.join().expect("ends"));
    }
}
