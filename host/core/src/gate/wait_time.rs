//! How long calls have waited for something, added up.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The time that all who waited have waited, added up. Those that wait now are counted up to now,
/// and those that gave up until they did: a wait that ends in a timeout is the longest of all.
#[derive(Debug)]
pub struct WaitTime {
    /// Times are offsets from here.
    created: Instant,
    sums: Mutex<Sums>,
}

#[derive(Debug, Default)]
struct Sums {
    /// The waits that have ended.
    ended: Duration,
    /// How many wait now.
    waiting: u32,
    /// When they began, added up.
    began: Duration,
}

/// Somebody who waits, until this is dropped.
#[derive(Debug)]
#[must_use = "the wait ends when this is dropped"]
pub struct Waiting<'a> {
    time: &'a WaitTime,
    began: Duration,
}

impl Default for WaitTime {
    fn default() -> Self {
        Self {
            created: Instant::now(),
            sums: Mutex::default(),
        }
    }
}

impl WaitTime {
    /// Begins a wait.
    pub fn begin(&self) -> Waiting<'_> {
        let began = self.created.elapsed();
        let mut sums = self.sums.lock();
        sums.waiting += 1;
        sums.began += began;
        Waiting { time: self, began }
    }

    /// Returns the sum of all waits up to now. It only rises.
    pub fn total(&self) -> Duration {
        let sums = self.sums.lock();
        let now = self.created.elapsed();
        sums.ended + now.saturating_mul(sums.waiting).saturating_sub(sums.began)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut sums = self.time.sums.lock();
        let now = self.time.created.elapsed();
        sums.waiting -= 1;
        sums.began = sums.began.saturating_sub(self.began);
        sums.ended += now.saturating_sub(self.began);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_are_added_up_while_they_last_and_when_they_are_given_up() {
        let second = Duration::from_secs(1);
        let time = WaitTime::default();
        tokio::time::advance(5 * second).await;
        assert_eq!(time.total(), Duration::ZERO);

        let first = time.begin();
        tokio::time::advance(2 * second).await;
        let second_wait = time.begin();
        tokio::time::advance(second).await;
        assert_eq!(time.total(), 4 * second, "three of one, one of the other");

        drop(first);
        tokio::time::advance(second).await;
        assert_eq!(time.total(), 5 * second, "only the second goes on");
        drop(second_wait);
        tokio::time::advance(9 * second).await;
        assert_eq!(time.total(), 5 * second);
    }
}
