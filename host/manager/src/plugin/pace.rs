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
pub struct Pace(Mutex<HashMap<ObjectKey, Changes>>);

/// The recent changes of an object.
struct Changes {
    /// The time when the bucket is full again.
    full_at: Instant,
    /// The time when changes that were not followed at once are to be followed.
    due: Option<Instant>,
}

impl Changes {
    /// Returns the time until they are due; zero if nothing waits.
    fn delay(&self, now: Instant) -> Duration {
        self.due.map_or(Duration::ZERO, |due| due.saturating_duration_since(now))
    }
}

impl Pace {
    /// Notes a change of an object. Returns the delay after which the host should follow it: zero, or a second if the
    /// object changes continually.
    pub fn delay(&self, object: &ObjectKey) -> Duration {
        self.delay_at(object, Instant::now())
    }

    /// Follows the changes of an object, if none of them must wait. Returns the delay if one must.
    pub fn follow(&self, object: &ObjectKey) -> Duration {
        self.follow_at(object, Instant::now())
    }

    fn delay_at(&self, object: &ObjectKey, now: Instant) -> Duration {
        let mut objects = self.0.lock();
        if objects.len() >= FORGET_BEYOND {
            objects.retain(|_, changes| changes.full_at > now);
        }
        let changes = objects.entry(object.clone()).or_insert(Changes { full_at: now, due: None });
        // Changes that wait merge into one, so that no more than the next one is paid for in advance.
        changes.full_at = changes.full_at.max(now).min(now + INTERVAL * BURST) + INTERVAL;
        let delay = changes.full_at.saturating_duration_since(now + INTERVAL * BURST);
        if changes.due.is_none() && !delay.is_zero() {
            changes.due = Some(now + delay);
        }
        changes.delay(now)
    }

    fn follow_at(&self, object: &ObjectKey, now: Instant) -> Duration {
        let mut objects = self.0.lock();
        let Some(changes) = objects.get_mut(object) else { return Duration::ZERO };
        let delay = changes.delay(now);
        if delay.is_zero() {
            changes.due = None;
        }
        delay
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
        let mut followed = 0;
        for tenth in 0..600 {
            let now = start + Duration::from_millis(100) * tenth;
            let delay = pace.delay_at(&object, now);
            assert!(delay <= INTERVAL, "{delay:?}");
            // Whatever else causes a reconcile, and however often.
            followed += u32::from(pace.follow_at(&object, now).is_zero());
        }
        assert!((50..=62).contains(&followed), "{followed} of the changes in a minute were followed");
        let other = ObjectKey::namespaced("a", "c");
        assert_eq!(pace.delay_at(&other, start), Duration::ZERO, "each object has its own");
        assert_eq!(pace.follow_at(&other, start), Duration::ZERO);
        let later = start + Duration::from_secs(60 + u64::from(BURST) + 1);
        assert_eq!(pace.delay_at(&object, later), Duration::ZERO, "the burst is available again");
    }

    #[test]
    fn change_that_is_due_is_followed_although_more_changes_come() {
        let pace = Pace::default();
        let object = ObjectKey::namespaced("a", "b");
        let start = Instant::now();
        let delay = (0..=BURST).map(|_| pace.delay_at(&object, start)).last().expect("a change");
        assert_eq!((delay, pace.follow_at(&object, start)), (INTERVAL, INTERVAL));
        let due = start + INTERVAL;
        assert_eq!(pace.delay_at(&object, due), Duration::ZERO, "it is due, and the new one with it");
        assert_eq!(pace.follow_at(&object, due), Duration::ZERO);
        assert_eq!(pace.delay_at(&object, due), INTERVAL, "the next one has to wait again");
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
