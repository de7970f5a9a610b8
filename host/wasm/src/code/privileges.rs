//! Drops the privileges of the host for good when it starts.
//!
//! If the host has the capabilities to start and end compile workers as another user, it keeps
//! those. Without them it shares its user with its workers. A user namespace would not help: an
//! unprivileged process can map no user but its own, so files, signals and quotas of the host's
//! user stay the same.
//!
//! On Linux, users and capabilities belong to threads, not to processes
//! (<https://man7.org/linux/man-pages/man7/capabilities.7.html>). Any thread that kept them would
//! lend them to whoever controls the memory of the process, so the host executes its program again.

use rustix::{
    io::Errno,
    thread::{
        CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
        clear_ambient_capability_set, no_new_privs, remove_capability_from_bounding_set,
        set_capabilities, set_no_new_privs,
    },
};

/// The capabilities to become another user, and to end processes of that user.
pub(crate) const FOR_WORKERS: CapabilitySet = CapabilitySet::SETUID
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::KILL);

/// Why privileges could not be dropped.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// Other threads would keep theirs.
    #[error("failed to drop privileges: the process has {0} threads, and each would keep its own")]
    Threads(usize),
    /// The threads could not be listed.
    #[error("failed to list the threads of the process: {0}")]
    Unlisted(#[from] std::io::Error),
    /// The kernel refuses.
    #[error("failed to drop privileges: {0}")]
    Refused(#[from] Errno),
}

/// Drops all capabilities of this thread, except those to start compile workers as another user.
/// Neither it nor its children can gain others. Returns false if there was nothing to drop. If it
/// returns true, other threads of the process may still have more: the caller must execute the
/// program again (`exec`), and every thread then starts with what this one has now.
///
/// # Errors
/// Returns a [`PrivilegeError`] if the kernel refuses.
pub fn drop_for_host() -> Result<bool, PrivilegeError> {
    let current = capabilities(None)?;
    let kept = if current.effective.contains(FOR_WORKERS) {
        FOR_WORKERS
    } else {
        CapabilitySet::empty()
    };

    if current.permitted == kept && current.inheritable.is_empty() && no_new_privs()? {
        return Ok(false);
    }

    keep(kept)?;
    set_no_new_privs(true)?;
    Ok(true)
}

/// Drops all capabilities of this thread except these. It must have them already.
pub(crate) fn keep(kept: CapabilitySet) -> Result<(), Errno> {
    clear_ambient_capability_set()?;

    // Without this right the bounding set stays. It only limits what a thread gains by running
    // programs, and `no_new_privs` rules that out anyway.
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
                // Beyond the last one known to this kernel.
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
