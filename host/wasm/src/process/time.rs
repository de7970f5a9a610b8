//! Times as the guest has them: in nanoseconds.

use std::time::Duration;

use operetta_core::nondeterminism;

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The time since 1970.
pub(super) fn wall_clock() -> u64 {
    nanos(nondeterminism::wall_clock())
}
