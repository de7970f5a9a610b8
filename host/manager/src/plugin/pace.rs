//! The pace at which the host follows changes of an object: one that somebody changes continually costs the host and the
//! API server no more than one that changes every second.

use std::{collections::HashMap, time::Duration};

use operetta_core::object::ObjectKey;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The number of changes of an object that are followed at once.
const BURST: u32 = 10;
/// The interval at which the changes after these are followed.
const INTERVAL: Duration = Duration::from_secs(1);
/// The number of objects beyond which those that have not changed lately are forgotten.
const FORGET_BEYOND: usize = 1_024;

/// The recent changes of objects, as a token bucket for each object.
#[derive(Default)]
pub struct Pace(Mutex<HashMap<ObjectKey, Instant>>);

impl Pace {
    /// Notes a change of an object. Returns the delay after which the host should follow it: zero, or a second if the
    /// object changes continually.
    pub fn delay(&self, object: &ObjectKey) -> Duration {
        self.delay_at(object, Instant::now())
    }

    fn delay_at(&self, object: &ObjectKey, now: Instant) -> Duration {
        let mut full_at = self.0.lock();
        if full_at.len() >= FORGET_BEYOND {
            full_at.retain(|_, full_at| *full_at > now);
        }
        let bucket = full_at.entry(object.clone()).or_insert(now);
        // Changes that wait merge into one, so that no more than the next one is paid for in advance.
        *bucket = (*bucket).max(now).min(now + INTERVAL * BURST) + INTERVAL;
        bucket.saturating_duration_since(now + INTERVAL * BURST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_is_followed_at_once_and_continual_changes_every_second() {
        let pace = Pace::default();
        let object = ObjectKey::namespaced("a", "b");
        let start = Instant::now();
        let burst: Vec<_> = (0..BURST).map(|_| pace.delay_at(&object, start)).collect();
        assert_eq!(burst, [Duration::ZERO; BURST as usize]);
        // The queue keeps the earliest time.
        let mut due = None;
        let mut followed = 0;
        for tenth in 0..600 {
            let now = start + Duration::from_millis(100) * tenth;
            if due.is_some_and(|due| due <= now) {
                (due, followed) = (None, followed + 1);
            }
            let at = now + pace.delay_at(&object, now);
            assert!(at - now <= INTERVAL, "{:?}", at - now);
            due = Some(due.map_or(at, |due: Instant| due.min(at)));
        }
        assert!((50..=62).contains(&followed), "{followed} of the changes in a minute were followed");
        let other = ObjectKey::namespaced("a", "c");
        assert_eq!(pace.delay_at(&other, start), Duration::ZERO, "each object has its own");
        let later = start + Duration::from_secs(60 + u64::from(BURST) + 1);
        assert_eq!(pace.delay_at(&object, later), Duration::ZERO, "the burst is available again");
    }

    #[test]
    fn objects_that_no_longer_change_are_forgotten() {
        let pace = Pace::default();
        let start = Instant::now();
        for number in 0..FORGET_BEYOND {
            pace.delay_at(&ObjectKey::namespaced("a", number.to_string()), start);
        }
        pace.delay_at(&ObjectKey::namespaced("a", "last"), start + 2 * INTERVAL);
        assert_eq!(pace.0.lock().len(), 1);
    }
}
