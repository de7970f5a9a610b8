//! The priority of the compile worker: the host's threads come first, and soon.
//!
//! Niceness gives the worker a smaller share of a busy processor. It does not shorten the wait of a
//! host thread once it is runnable: Linux lets the running thread use up its slice, about 3 ms.
//! Since Linux 6.12 a thread can ask for a shorter slice (`sched_runtime` of `sched_setattr(2)`,
//! <https://docs.kernel.org/scheduler/sched-eevdf.html>); older kernels ignore it.

#![allow(
    unsafe_code,
    reason = "no library that we found has sched_setattr(2) for an ordinary thread"
)]

use std::io;

use rustix::process::{getpriority_process, setpriority_process};

const NICENESS: i32 = 5;

/// The slice of the worker's threads in nanoseconds: the shortest Linux allows.
const SLICE: u64 = 100_000;

/// Lowers the priority of this thread, and of the threads it starts. A host that already has a
/// lower priority, or the policy SCHED_IDLE, keeps it: without `CAP_SYS_NICE` the kernel refuses to
/// raise it.
///
/// # Errors
/// Returns the kernel's error.
pub(super) fn lower() -> io::Result<()> {
    let own = getpriority_process(None)?;
    if policy() == libc::c_long::from(libc::SCHED_IDLE) {
        setpriority_process(None, own.max(NICENESS))?;
        return Ok(());
    }

    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: 0,
        sched_nice: own.max(NICENESS),
        sched_priority: 0,
        sched_runtime: SLICE,
        sched_deadline: 0,
        sched_period: 0,
    };

    // SAFETY: the kernel reads `size` bytes of the structure, which lives longer than the call. 0
    // is the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The scheduling policy of this thread, or -1. musl has no function for it.
fn policy() -> libc::c_long {
    // SAFETY: the call has no pointers. 0 is the calling thread.
    unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the niceness of a thread that is started after `prepare`.
    fn niceness_after(prepare: fn()) -> i32 {
        let stat = std::thread::spawn(move || {
            prepare();
            std::thread::spawn(|| std::fs::read_to_string("/proc/thread-self/stat")).join()
        });
        let stat = stat
            .join()
            .expect("no panic")
            .expect("no panic")
            .expect("readable");
        // After the name: state is the first field, and nice the seventeenth.
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .expect("a name")
            .1
            .split_whitespace()
            .collect();
        fields[16].parse().expect("a number")
    }

    #[test]
    fn threads_inherit_niceness() {
        let own = niceness_after(|| {});
        let lowered =
            niceness_after(|| lower().expect("an ordinary thread may lower its priority"));
        assert_eq!(lowered, own.max(NICENESS));
    }

    #[test]
    fn idle_policy_is_kept() {
        let policy = std::thread::spawn(|| {
            let priority: libc::c_int = 0;
            // SAFETY: the kernel reads the priority, which lives longer than the call. 0 is the
            // calling thread.
            let set = unsafe {
                libc::syscall(
                    libc::SYS_sched_setscheduler,
                    0,
                    libc::SCHED_IDLE,
                    &raw const priority,
                )
            };
            assert_eq!(set, 0);
            lower().expect("no change");
            policy()
        });
        assert_eq!(
            policy.join().expect("no panic"),
            libc::c_long::from(libc::SCHED_IDLE)
        );
    }

    #[test]
    fn lower_priority_is_kept() {
        let lowered = niceness_after(|| {
            let own = getpriority_process(None).expect("a priority");
            setpriority_process(None, own.max(15))
                .expect("an ordinary thread may lower its priority");
            lower().expect("no change");
        });
        assert!(lowered >= 15, "{lowered}");
    }
}
