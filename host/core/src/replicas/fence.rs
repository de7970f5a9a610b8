//! The local fence: a replica may send plugins' requests only while nobody can have taken its
//! Lease.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::status::{ApiError, ErrorKind};

/// The least time for a request: with less, it would end without a response.
const LEAST: Duration = Duration::from_millis(200);

/// When a replica's Lease ends, on a clock that keeps running while the machine or the process is
/// stopped.
#[derive(Debug)]
pub struct Fence {
    /// Time since a fixed moment (`CLOCK_BOOTTIME`).
    clock: fn() -> Duration,
    /// When the Lease ends, in nanoseconds; 0 once it has.
    end: AtomicU64,
}

impl Fence {
    /// Creates a fence, closed at first.
    pub fn new(clock: fn() -> Duration) -> Arc<Self> {
        Arc::new(Self {
            clock,
            end: AtomicU64::new(0),
        })
    }

    /// The time on the fence's clock.
    pub fn now(&self) -> Duration {
        (self.clock)()
    }

    /// Permits requests that finish before this time: when the renewal was sent, plus the Lease's
    /// duration.
    pub fn extend(&self, end: Duration) {
        let nanos = u64::try_from(end.as_nanos()).unwrap_or(u64::MAX);
        self.end.fetch_max(nanos, Ordering::AcqRel);
    }

    /// Permits no more requests until [`Fence::extend`].
    pub fn close(&self) {
        self.end.store(0, Ordering::Release);
    }

    /// How long until the Lease ends; zero if it has ended.
    pub fn remaining(&self) -> Duration {
        Duration::from_nanos(self.end.load(Ordering::Acquire)).saturating_sub(self.now())
    }

    /// How long ago the Lease ended; zero if it has not, or if the fence was closed earlier.
    pub fn overdue(&self) -> Duration {
        match self.end.load(Ordering::Acquire) {
            0 => Duration::ZERO,
            end => self.now().saturating_sub(Duration::from_nanos(end)),
        }
    }

    /// Checks that a request may be sent. Returns how long it may take.
    ///
    /// # Errors
    /// `Unavailable` if the Lease has ended or is about to.
    pub fn check(&self) -> Result<Duration, ApiError> {
        let remaining = self.remaining();
        if remaining < LEAST {
            let message = "this replica has not renewed its Lease in time: another one may run the plugin now";
            return Err(ApiError::new(ErrorKind::Unavailable, message));
        }
        Ok(remaining)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static NOW: AtomicU64 = AtomicU64::new(0);

    fn clock() -> Duration {
        Duration::from_millis(NOW.load(Ordering::Acquire))
    }

    #[test]
    fn permits_requests_until_the_lease_ends() {
        let fence = Fence::new(clock);
        assert_eq!(
            fence.check().expect_err("not held").kind,
            ErrorKind::Unavailable
        );
        fence.extend(Duration::from_secs(4));
        assert_eq!(fence.check(), Ok(Duration::from_secs(4)));
        // An earlier renewal whose response comes late changes nothing.
        fence.extend(Duration::from_secs(3));
        NOW.store(3_800, Ordering::Release);
        assert_eq!(fence.check(), Ok(LEAST));
        // As after SIGSTOP.
        NOW.store(9_000, Ordering::Release);
        assert_eq!(
            (fence.check().is_err(), fence.remaining()),
            (true, Duration::ZERO)
        );
        fence.extend(Duration::from_secs(13));
        assert_eq!(fence.check(), Ok(Duration::from_secs(4)));
        fence.close();
        assert!(fence.check().is_err());
    }
}
