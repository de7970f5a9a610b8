//! Decides which Events are written and which are merged into earlier ones: client-go's `EventCorrelator`
//! (tools/record/events_cache.go) as a pure state machine, with the time as an argument.
//!
//! The rules, in this order:
//! 1. a token bucket per source and object allows a burst of 25, then one every 5 minutes; further Events are dropped;
//! 2. more than 10 Events within 10 minutes that differ only in their message become one, marked as combined;
//! 3. an Event that equals an earlier one increases that one's count instead of creating an object.

use std::{collections::HashSet, num::NonZeroUsize, time::Duration};

use lru::LruCache;
use operetta_core::ports::EventNote;
use tokio::time::Instant;

/// The number of objects and Events that are remembered, as in client-go.
const CACHE: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
const SPAM_BURST: f64 = 25.0;
const SPAM_PER_SECOND: f64 = 1.0 / 300.0;
const SIMILAR_LIMIT: usize = 10;
const SIMILAR_WINDOW: Duration = Duration::from_secs(600);

/// The decision about an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Drop the Event: there are too many about this object.
    Drop,
    /// Write a new Event with this message.
    Create {
        /// The key under which the Event is remembered.
        key: Key,
        /// The message.
        message: String,
    },
    /// Increase the count of an Event that was written before.
    Count {
        /// The key under which the Event is remembered.
        key: Key,
        /// The Event's object name.
        name: String,
        /// Its new count.
        count: u32,
        /// The message.
        message: String,
    },
}

/// The identity of an Event: everything but time and count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    similar: Similar,
    message: String,
}

/// The identity of similar Events: everything but time, count and message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Similar {
    about: About,
    event_type: &'static str,
    reason: String,
    action: String,
}

/// The object of an Event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct About {
    kind: String,
    key: String,
    uid: String,
}

struct Bucket {
    tokens: f64,
    at: Instant,
}

struct Window {
    messages: HashSet<String>,
    last: Instant,
}

struct Written {
    name: String,
    count: u32,
}

/// The state of one event source.
pub struct Correlator {
    buckets: LruCache<About, Bucket>,
    windows: LruCache<Similar, Window>,
    written: LruCache<Key, Written>,
}

impl Default for Correlator {
    fn default() -> Self {
        Self { buckets: LruCache::new(CACHE), windows: LruCache::new(CACHE), written: LruCache::new(CACHE) }
    }
}

impl Correlator {
    /// Decides about an Event that arrived at `now`.
    pub fn correlate(&mut self, note: &EventNote, now: Instant) -> Decision {
        let about = About {
            kind: note.regarding.to_string(),
            key: note.key.to_string(),
            uid: note.uid.clone().unwrap_or_default(),
        };
        if !self.admit(&about, now) {
            return Decision::Drop;
        }
        let similar = Similar {
            about,
            event_type: note.event_type.as_str(),
            reason: note.reason.clone(),
            action: note.action.clone(),
        };
        // Combined Events count as one Event whatever their message, so they are remembered without it.
        let (message, remembered) = if self.too_many_similar(&similar, &note.note, now) {
            (format!("(combined from similar events): {}", note.note), String::new())
        } else {
            (note.note.clone(), note.note.clone())
        };
        let key = Key { similar, message: remembered };
        match self.written.get_mut(&key) {
            Some(Written { name, count }) => {
                *count += 1;
                Decision::Count { name: name.clone(), count: *count, key, message }
            }
            None => Decision::Create { key, message },
        }
    }

    /// Records that an Event was created under this name. Equal Events increase its count.
    pub fn created(&mut self, key: Key, name: String) {
        self.written.put(key, Written { name, count: 1 });
    }

    /// Forgets an Event that no longer exists at the API server, where Events live an hour. The next one is new.
    pub fn forget(&mut self, key: &Key) {
        self.written.pop(key);
    }

    fn admit(&mut self, about: &About, now: Instant) -> bool {
        let fresh = || Bucket { tokens: SPAM_BURST, at: now };
        let bucket = self.buckets.get_or_insert_mut(about.clone(), fresh);
        let earned = now.saturating_duration_since(bucket.at).as_secs_f64() * SPAM_PER_SECOND;
        bucket.tokens = (bucket.tokens + earned).min(SPAM_BURST);
        bucket.at = now;
        let admitted = bucket.tokens >= 1.0;
        if admitted {
            bucket.tokens -= 1.0;
        }
        admitted
    }

    fn too_many_similar(&mut self, similar: &Similar, message: &str, now: Instant) -> bool {
        let fresh = || Window { messages: HashSet::new(), last: now };
        let window = self.windows.get_or_insert_mut(similar.clone(), fresh);
        if now.saturating_duration_since(window.last) > SIMILAR_WINDOW {
            window.messages.clear();
        }
        window.last = now;
        if window.messages.len() < SIMILAR_LIMIT || window.messages.contains(message) {
            window.messages.insert(message.to_owned());
            return window.messages.len() >= SIMILAR_LIMIT;
        }
        true
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
            correlator.created(key.clone(), format!("event-of-{}", note.note));
        }
        decision
    }

    #[test]
    fn equal_event_increases_count_of_the_first() {
        let mut correlator = Correlator::default();
        let now = Instant::now();
        assert!(matches!(record(&mut correlator, &note("a", "m"), now), Decision::Create { .. }));
        for expected in 2..=7 {
            let decision = record(&mut correlator, &note("a", "m"), now);
            assert!(
                matches!(&decision, Decision::Count { name, count, .. } if name == "event-of-m" && *count == expected),
                "{decision:?}"
            );
        }
        assert!(matches!(record(&mut correlator, &note("b", "m"), now), Decision::Create { .. }), "another object");
    }

    #[test]
    fn more_than_ten_similar_events_become_one_combined() {
        let mut correlator = Correlator::default();
        let now = Instant::now();
        for at in 0..9 {
            let decision = record(&mut correlator, &note("a", &format!("m{at}")), now);
            assert!(matches!(decision, Decision::Create { .. }), "{at}: {decision:?}");
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
        assert!(matches!(&decision, Decision::Create { message, .. } if message == "m11"), "{decision:?}");
    }

    #[test]
    fn drops_event_flood_after_burst() {
        let mut correlator = Correlator::default();
        let now = Instant::now();
        let kept = (0..100).filter(|_| record(&mut correlator, &note("a", "m"), now) != Decision::Drop).count();
        assert_eq!(kept, 25);
        assert_ne!(record(&mut correlator, &note("b", "m"), now), Decision::Drop, "other objects go on");
        let later = now + Duration::from_secs(301);
        assert_ne!(record(&mut correlator, &note("a", "m"), later), Decision::Drop);
        assert_eq!(record(&mut correlator, &note("a", "m"), later), Decision::Drop);
    }
}
