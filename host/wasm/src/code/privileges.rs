//! The privileges of the host and of the compile worker, which both give up at their start, for good.
//!
//! The host keeps the capabilities to start and end workers as another user, if it has them. The worker keeps none, and becomes
//! that user: it then cannot read the files of the host, or signal or inspect it, even where the kernel has no Landlock.
//!
//! A host without these capabilities shares its user with its workers. A user namespace would not help: without privileges
//! a process can map no user but its own, so files, signals and quotas of the host's user stay the same.
//!
//! Linux keeps users and capabilities for each thread. A thread that kept them would lend them to whoever controls the
//! memory of the process. So the worker refuses to run beside other threads, and the host runs its program anew.

use rustix::{
    io::Errno,
    process::{Gid, Uid, geteuid},
    thread::{
        CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
        no_new_privs, remove_capability_from_bounding_set, set_capabilities, set_no_new_privs, set_thread_groups,
        set_thread_res_gid, set_thread_res_uid,
    },
};

/// The capabilities to become another user, and to end a process of that user.
const FOR_WORKERS: CapabilitySet = CapabilitySet::SETUID.union(CapabilitySet::SETGID).union(CapabilitySet::KILL);

/// The users of workers, of which the first that is not the host's is taken. No distribution and no image assigns them.
const USERS: [u32; 2] = [65_533, 65_531];

/// The reason why privileges could not be given up.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// Other threads would keep theirs.
    #[error("failed to drop privileges: the process has {0} threads, and each would keep its own")]
    Threads(usize),
    /// The threads are not known.
    #[error("failed to list the threads of the process: {0}")]
    Unlisted(#[from] std::io::Error),
    /// The kernel refuses.
    #[error("failed to drop privileges: {0}")]
    Refused(#[from] Errno),
}

/// The user that a worker runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum User {
    /// Another one than the host's.
    Own(u32),
    /// The host's, with the reason.
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

/// Drops all capabilities of this thread but those to start compile workers as another user. It and its children cannot
/// gain others. Returns false if that was so already, and true if other threads of the process may still have some: the
/// program must be run anew (`exec`), and has then nowhere more than this thread has now.
///
/// # Errors
/// Returns a [`PrivilegeError`] if the kernel refuses.
pub fn drop_for_host() -> Result<bool, PrivilegeError> {
    let held = capabilities(None)?;
    let kept = if held.effective.contains(FOR_WORKERS) { FOR_WORKERS } else { CapabilitySet::empty() };
    if held.permitted == kept && held.inheritable.is_empty() && no_new_privs()? {
        return Ok(false);
    }
    keep(kept)?;
    set_no_new_privs(true)?;
    Ok(true)
}

/// Drops all capabilities of this process and, where it may, makes it another user's, without supplementary groups.
///
/// # Errors
/// Returns a [`PrivilegeError`] if there are other threads, or the kernel refuses to take capabilities away.
pub(super) fn drop_for_worker() -> Result<User, PrivilegeError> {
    check_threads()?;
    let former = geteuid().as_raw();
    let user = match change_user(former) {
        Ok(user) => User::Own(user),
        Err(Errno::PERM) => User::Shared(former, "it may not change users (CAP_SETUID, CAP_SETGID)".to_owned()),
        Err(error) => User::Shared(former, format!("failed to change users: {error}")),
    };
    keep(CapabilitySet::empty())?;
    set_no_new_privs(true)?;
    Ok(user)
}

/// Changes the user of this thread, its group and its supplementary groups.
fn change_user(former: u32) -> Result<u32, Errno> {
    let user = if former == USERS[0] { USERS[1] } else { USERS[0] };
    let uid = Uid::from_raw(user);
    let gid = Gid::from_raw(user);
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    Ok(user)
}

/// Drops all capabilities of this thread but these, which it has.
fn keep(kept: CapabilitySet) -> Result<(), Errno> {
    clear_ambient_capability_set()?;
    // Without this right the bounding set stays. It matters to who can gain capabilities by running programs: nobody can.
    if capabilities(None)?.effective.contains(CapabilitySet::SETPCAP) {
        for capability in (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit)) {
            match capability_is_in_bounding_set(capability) {
                Ok(true) if !kept.contains(capability) => remove_capability_from_bounding_set(capability)?,
                Ok(_) => {}
                // It is beyond the last one that this kernel knows.
                Err(_) => break,
            }
        }
    }
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets)
}

/// Checks that this process has no other thread.
fn check_threads() -> Result<(), PrivilegeError> {
    match std::fs::read_dir("/proc/self/task")?.count() {
        1 => Ok(()),
        threads => Err(PrivilegeError::Threads(threads)),
    }
}

/// Attempts to undo what [`drop_for_worker`] did to a process with a user of its own. Returns the attempts that succeeded.
pub(super) fn regain() -> Vec<String> {
    let root = Uid::ROOT;
    let gained = CapabilitySets { effective: FOR_WORKERS, permitted: FOR_WORKERS, inheritable: CapabilitySet::empty() };
    let attempts = [
        ("become root", set_thread_res_uid(root, root, root)),
        ("change its groups", set_thread_groups(&[Gid::ROOT])),
        ("gain capabilities", set_capabilities(None, gained)),
    ];
    attempts.into_iter().filter(|(_, outcome)| outcome.is_ok()).map(|(what, _)| what.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_refuses_to_drop_privileges_beside_other_threads() {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || stopped.recv().is_err());
        assert!(matches!(drop_for_worker(), Err(PrivilegeError::Threads(2..))));
        drop(stop);
        assert!(other.join().expect("ends"));
    }
}
