//! The privileges of the host, which it drops at its start, for good.
//!
//! It keeps the capabilities to start and end compile workers as another user, if it has them. A
//! host without these capabilities shares its user with its workers. A user namespace would not
//! help: without privileges a process can map no user but its own, so files, signals and quotas of
//! the host's user stay the same.
//!
//! Linux keeps users and capabilities for each thread. A thread that kept them would lend them to
//! whoever controls the memory of the process, so the host runs its program anew.

use rustix::{
    io::Errno,
    thread::{
        CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
        clear_ambient_capability_set, no_new_privs, remove_capability_from_bounding_set,
        set_capabilities, set_no_new_privs,
    },
};

/// The capabilities to become another user, and to end a process of that user.
pub(crate) const FOR_WORKERS: CapabilitySet = CapabilitySet::SETUID
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::KILL);

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

/// Drops all capabilities of this thread but those to start compile workers as another user. It and
/// its children cannot gain others. Returns false if that was so already, and true if other threads
/// of the process may still have some: the program must be run anew (`exec`), and has then nowhere
/// more than this thread has now.
///
/// # Errors
/// Returns a [`PrivilegeError`] if the kernel refuses.
pub fn drop_for_host() -> Result<bool, PrivilegeError> {
    let held = capabilities(None)?;
    let kept = if held.effective.contains(FOR_WORKERS) {
        FOR_WORKERS
    } else {
        CapabilitySet::empty()
    };
    if held.permitted == kept && held.inheritable.is_empty() && no_new_privs()? {
        return Ok(false);
    }
    keep(kept)?;
    set_no_new_privs(true)?;
    Ok(true)
}

/// Drops all capabilities of this thread but these, which it has.
pub(crate) fn keep(kept: CapabilitySet) -> Result<(), Errno> {
    clear_ambient_capability_set()?;
    // Without this right the bounding set stays. It matters to who can gain capabilities by running
    // programs: nobody can.
    if capabilities(None)?
        .effective
        .contains(CapabilitySet::SETPCAP)
    {
        for capability in (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit)) {
            match capability_is_in_bounding_set(capability) {
                Ok(true) if !kept.contains(capability) => {
                    remove_capability_from_bounding_set(capability)?;
                }
                Ok(_) => {}
                // It is beyond the last one that this kernel knows.
                Err(_) => break,
            }
        }
    }
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets)
}
