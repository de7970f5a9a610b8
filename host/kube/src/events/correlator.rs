//! Decides which Events are written and which are merged into earlier ones: client-go's
//! [`EventCorrelator`] as a pure state machine, with the time as an argument.
//!
//! The rules, in this order:
//! 1. a token bucket per source and object allows a burst of 25, then one every 5 minutes; further
//!    Events are dropped;
//! 2. more than 10 Events within 10 minutes that differ only in their message become one, marked as
//!    combined;
//! 3. an Event equal to an earlier one increases that one's count instead of creating an object.
//!
//! [`EventCorrelator`]: https://github.com/kubernetes/client-go/blob/v0.36.2/tools/record/events_cache.go#L506

use std::{
    hash::{BuildHasher, RandomState},
    num::NonZeroUsize,
    time::Duration,
};

use lru::LruCache;
use operetta_core::ports::EventNote;
use tokio::time::Instant;

/// How many objects and Events are remembered, as in client-go.
const CACHE: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
const SPAM_BURST: f64 = 25.0;
const SPAM_PER_SECOND: f64 = 1.0 / 300.0;
const SIMILAR_LIMIT: usize = 10;
const SIMILAR_WINDOW: Duration = Duration::from_secs(600);

/// What to do with an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Drop the Event: there are too many about this object.
    Drop,
    /// Write a new Event with this message.
    Create {
        /// The key to remember the Event by.
        key: Key,
        /// The message.
        message: String,
    },
    /// Increase the count of an Event already written.
    Count {
        /// The key to remember the Event by.
        key: Key,
        /// The Event's object name.
        name: String,
        /// Its new count.
        count: u32,
        /// The message.
        message: String,
    },
}

/// The identity of an Event: a hash of everything but time and count. The texts come from a plugin
/// and may be long, so we don't keep them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(u64);

struct Bucket {
    tokens: f64,
    at: Instant,
}

struct Window {
    /// Hashes of at most [`SIMILAR_LIMIT`] messages.
    messages: Vec<u64>,
    last: Instant,
}

struct Written {
    name: String,
    count: u32,
}

/// The state of one event source. Grows as the source emits Events, to less than three megabytes.
pub struct Correlator {
    /// Randomly seeded, so that nobody can make two Events with the same hash.
    hasher: RandomState,
    /// Per object.
    buckets: LruCache<u64, Bucket>,
    /// Per group of Events that differ only in their message.
    windows: LruCache<u64, Window>,
    written: LruCache<Key, Written>,
}

impl Default for Correlator {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            buckets: empty(),
            windows: empty(),
            written: empty(),
        }
    }
}

/// Creates a cache of [`CACHE`] entries that allocates nothing yet: most sources emit few Events.
/// `LruCache::new` would allocate everything up front.
fn empty<K: std::hash::Hash + Eq, V>() -> LruCache<K, V> {
    let mut cache = LruCache::unbounded();
    cache.resize(CACHE);
    cache
}

impl Correlator {
    /// Decides about an Event arriving at `now`.
    pub fn correlate(&mut self, note: &EventNote, now: Instant) -> Decision {
        let about = self
            .hasher
            .hash_one((&note.regarding, &note.key, &note.uid));
        if !self.admit(about, now) {
            return Decision::Drop;
        }

        let similar =
            self.hasher
                .hash_one((about, note.event_type.as_str(), &note.reason, &note.action));
        // Combined Events count as one Event whatever their message, so remember them without it.
        let (message, remembered) = if self.too_many_similar(similar, &note.note, now) {
            (format!("(combined from similar events): {}", note.note), "")
        } else {
            (note.note.clone(), note.note.as_str())
        };
        let key = Key(self.hasher.hash_one((similar, remembered)));

        match self.written.get_mut(&key) {
            Some(Written { name, count }) => {
                *count += 1;
                Decision::Count {
                    name: name.clone(),
                    count: *count,
                    key,
                    message,
                }
            }
            None => Decision::Create { key, message },
        }
    }

    /// Records that an Event was created under this name. Equal Events increase its count.
    pub fn created(&mut self, key: Key, name: String) {
        self.written.put(key, Written { name, count: 1 });
    }

    /// Forgets an Event that is gone from the API server, where Events live an hour. The next one
    /// is new.
    pub fn forget(&mut self, key: Key) {
        self.written.pop(&key);
    }

    fn admit(&mut self, about: u64, now: Instant) -> bool {
        let fresh = || Bucket {
            tokens: SPAM_BURST,
            at: now,
        };
        let bucket = self.buckets.get_or_insert_mut(about, fresh);
        let earned = now.saturating_duration_since(bucket.at).as_secs_f64() * SPAM_PER_SECOND;
        bucket.tokens = (bucket.tokens + earned).min(SPAM_BURST);
        bucket.at = now;
        let admitted = bucket.tokens >= 1.0;

        if admitted {
            bucket.tokens -= 1.0;
        }

        admitted
    }

    fn too_many_similar(&mut self, similar: u64, message: &str, now: Instant) -> bool {
        let message = self.hasher.hash_one(message);
        let fresh = || Window {
            messages: Vec::new(),
            last: now,
        };
        let window = self.windows.get_or_insert_mut(similar, fresh);

        if now.saturating_duration_since(window.last) > SIMILAR_WINDOW {
            window.messages.clear();
        }

        window.last = now;
        if window.messages.len() < SIMILAR_LIMIT && !window.messages.contains(&message) {
            window.messages.push(message);
        }

        window.messages.len() >= SIMILAR_LIMIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use operetta_core::{
        object::{ObjectKey, kind::GroupVersionKind},
        ports::EventType,
    };

    fn note(name: &str, message: &str) -> EventNote {
        EventNote {
            regarding: GroupVersionKind::new("v1", "Pod"),
            key: ObjectKey::namespaced("n", name),
            uid: Some("u".into()),
            event_type: EventType::Normal,
            reason: "Synced".into(),
            action: String::new(),
            note: message.into(),
        }
    }

    fn record(correlator: &mut Correlator, note: &EventNote, now: Instant) -> Decision {
        let decision = correlator.correlate(note, now);
        if let Decision::Create { key, .. } = &decision {
            correlator.created(*key, format!("event-of-{}", note.note));
        }
        decision
    }

    #[test]
    fn equal_event_increases_count_of_the_first() {
        let mut correlator = Correlator::default();
        let now = Instant::now();
        assert!(matches!(
            record(&mut correlator, &note("a", "m"), now),
            Decision::Create { .. }
        ));
        for expected in 2..=7 {
            let decision = record(&mut correlator, &note("a", "m"), now);
            assert!(
                matches!(&decision, Decision::Count { name, count, .. } if name == "event-of-m" && *count == expected),
                "{decision:?}"
            );
        }
        assert!(
            matches!(
                record(&mut correlator, &note("b", "m"), now),
                Decision::Create { .. }
            ),
            "another object"
        );
    }

    #[test]
    fn more_than_ten_similar_events_become_one_combined() {
        let mut correlator = Correlator::default();
        let now = Instant::now();
        for at in 0..9 {
            let decision = record(&mut correlator, &note("a", &format!("m{at}")), now);
            assert!(
                matches!(decision, Decision::Create { .. }),
                "{at}: {decision:?}"
            );
        }
        let decision = record(&mut correlator, &note("a", "m9"), now);
        assert!(
            matches!(&decision, Decision::Create { message, .. } if message == "(combined from similar events): m9")
        );
        let decision = record(&mut correlator, &note("a", "m10"), now);
        assert!(
            matches!(&decision, Decision::Count { count: 2, message, .. } if message.ends_with("m10")),
            "{decision:?}"
        );
        let later = now + SIMILAR_WINDOW + Duration::from_secs(1);
        let decision = record(&mut correlator, &note("a", "m11"), later);
        assert!(
            matches!(&decision, Decision::Create { message, .. } if message == "m11"),
            "{decision:?}"
        );
    }

    #[test]
    fn drops_event_flood_after_burst() {
        let mut correlator = Correlator::default();
        let now = Instant::now();
        let kept = (0..100)
            .filter(|_| record(&mut correlator, &note("a", "m"), now) != Decision::Drop)
            .count();
        assert_eq!(kept, 25);
        assert_ne!(
            record(&mut correlator, &note("b", "m"), now),
            Decision::Drop,
            "other objects go on"
        );
        let later = now + Duration::from_secs(301);
        assert_ne!(
            record(&mut correlator, &note("a", "m"), later),
            Decision::Drop
        );
        assert_eq!(
            record(&mut correlator, &note("a", "m"), later),
            Decision::Drop
        );
    }

    #[test]
    fn remembers_a_limited_number_of_events_of_a_flood() {
        let mut correlator = Correlator::default();
        let now = Instant::now();
        for number in 0..2 * CACHE.get() {
            record(&mut correlator, &note(&number.to_string(), "m"), now);
        }
        assert_eq!(correlator.buckets.len(), CACHE.get());
        assert_eq!(correlator.windows.len(), CACHE.get());
        assert_eq!(correlator.written.len(), CACHE.get());
        let newest = note(&(2 * CACHE.get() - 1).to_string(), "m");
        assert!(matches!(
            record(&mut correlator, &newest, now),
            Decision::Count { count: 2, .. }
        ));
        assert!(
            matches!(
                record(&mut correlator, &note("0", "m"), now),
                Decision::Create { .. }
            ),
            "the oldest is forgotten"
        );
    }
}
