//! The clock of Leases.

use std::time::Duration;

use operetta_core::nondeterminism;
use rustix::time::{ClockId, clock_gettime};

/// Returns the time since the machine booted. Unlike `Instant`, it includes the time the machine
/// was suspended. In a simulation this is the simulation's monotonic clock.
pub fn boot_time() -> Duration {
    if let Some(source) = nondeterminism::replacement() {
        return source.monotonic_clock();
    }
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_goes_forward() {
        let before = boot_time();
        std::thread::sleep(Duration::from_millis(2));
        assert!(boot_time() >= before + Duration::from_millis(2));
    }
}
