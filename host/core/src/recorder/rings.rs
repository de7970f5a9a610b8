//! Rings of encoded records, bounded together in bytes and in time.
//!
//! Each plugin has a ring, and so have the changes of objects. When all rings together exceed their bytes, the largest one
//! loses its oldest record: a plugin that reconciles often shortens its own history first.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    time::Duration,
};

use memchr::memmem::Finder;
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::Instant;

/// The memory of a record beside its bytes: its place in the ring, and the allocator's rounding.
const OVERHEAD: usize = size_of::<Stored>() + 16;

/// The limits of all rings together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The bytes of all records.
    pub bytes: usize,
    /// The age of the oldest record.
    pub window: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 16 << 20, window: Duration::from_secs(3600) }
    }
}

struct Stored {
    at: Instant,
    bytes: Box<[u8]>,
}

#[derive(Default)]
struct Ring {
    records: VecDeque<Stored>,
    bytes: usize,
    /// The number of records that were lost because the rings were full, not because they were old.
    lost: u64,
}

impl Ring {
    fn drop_oldest(&mut self) -> usize {
        let freed = self.records.pop_front().map_or(0, |oldest| oldest.bytes.len() + OVERHEAD);
        self.bytes -= freed;
        if self.records.len() < self.records.capacity() / 4 {
            self.records.shrink_to(self.records.len() * 2);
        }
        freed
    }
}

/// The rings.
pub(super) struct Rings<K> {
    limits: Limits,
    rings: HashMap<K, Ring>,
    bytes: usize,
}

impl<K: Clone + Eq + Hash> Rings<K> {
    /// Creates empty rings.
    pub fn new(limits: Limits) -> Self {
        Self { limits, rings: HashMap::new(), bytes: 0 }
    }

    /// Adds an encoded record.
    pub fn push(&mut self, key: &K, bytes: Box<[u8]>, now: Instant) {
        if bytes.len() + OVERHEAD > self.limits.bytes {
            self.rings.entry(key.clone()).or_default().lost += 1;
            return;
        }
        let ring = match self.rings.get_mut(key) {
            Some(ring) => ring,
            None => self.rings.entry(key.clone()).or_default(),
        };
        let added = bytes.len() + OVERHEAD;
        ring.records.push_back(Stored { at: now, bytes });
        ring.bytes += added;
        self.bytes += added;
        // The oldest of this ring; those of silent rings are dropped when the bytes are needed, or are read no more.
        while ring.records.front().is_some_and(|oldest| now.duration_since(oldest.at) > self.limits.window) {
            self.bytes -= ring.drop_oldest();
        }
        while self.bytes > self.limits.bytes {
            let Some(largest) = self.rings.values_mut().max_by_key(|ring| ring.bytes) else { return };
            largest.lost += 1;
            self.bytes -= largest.drop_oldest();
        }
    }

    /// Drops the records that are too old, and the rings without records.
    pub fn expire(&mut self, now: Instant) {
        let window = self.limits.window;
        for ring in self.rings.values_mut() {
            while ring.records.front().is_some_and(|oldest| now.duration_since(oldest.at) > window) {
                self.bytes -= ring.drop_oldest();
            }
        }
        self.rings.retain(|_, ring| !ring.records.is_empty());
    }

    /// Calls a function with each record of a ring that contains a text, the newest first, until it returns false. Texts
    /// stand in an encoded record as they are, so others are not decoded.
    pub fn newest_first<T: DeserializeOwned>(
        &self,
        key: &K,
        text: &str,
        now: Instant,
        mut each: impl FnMut(T) -> bool,
    ) {
        let Some(ring) = self.rings.get(key) else { return };
        let finder = Finder::new(text);
        let young = |stored: &&Stored| now.duration_since(stored.at) <= self.limits.window;
        for stored in ring.records.iter().rev().take_while(young) {
            // A record of this process always decodes.
            if finder.find(&stored.bytes).is_some()
                && let Ok(record) = decode(&stored.bytes)
                && !each(record)
            {
                return;
            }
        }
    }

    /// Returns the keys of the rings.
    pub fn keys(&self) -> Vec<K> {
        self.rings.keys().cloned().collect()
    }

    /// Returns the number of records, their bytes, and the number of those that were lost because the rings were full.
    pub fn counts(&self) -> Counts {
        let records = self.rings.values().map(|ring| ring.records.len()).sum();
        let lost = self.rings.values().map(|ring| ring.lost).sum();
        Counts { records, bytes: self.bytes, lost }
    }
}

/// The counts of a recorder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of records.
    pub records: usize,
    /// The bytes of all records.
    pub bytes: usize,
    /// The number of records that were dropped because the recorder was full.
    pub lost: u64,
}

/// Encodes a record.
pub(super) fn encode<T: Serialize>(record: &T) -> Option<Box<[u8]>> {
    postcard::to_allocvec(record).ok().map(Vec::into_boxed_slice)
}

/// Decodes a record.
fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, postcard::Error> {
    postcard::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(60);

    fn rings(records: usize) -> Rings<&'static str> {
        Rings::new(Limits { bytes: records * (encoded(0).len() + OVERHEAD), window: WINDOW })
    }

    fn encoded(number: u32) -> Box<[u8]> {
        // As many bytes for each number.
        encode(&number.to_le_bytes()).expect("encodes")
    }

    fn read(rings: &Rings<&'static str>, key: &'static str, now: Instant) -> Vec<u32> {
        let mut found = Vec::new();
        rings.newest_first(&key, "", now, |bytes: [u8; 4]| {
            found.push(u32::from_le_bytes(bytes));
            true
        });
        found
    }

    #[tokio::test(start_paused = true)]
    async fn busy_ring_loses_its_oldest_and_silent_ring_nothing() {
        let mut rings = rings(4);
        let now = Instant::now();
        rings.push(&"silent", encoded(7), now);
        (0..10).for_each(|number| rings.push(&"busy", encoded(number), now));
        assert_eq!(read(&rings, "silent", now), [7]);
        assert_eq!(read(&rings, "busy", now), [9, 8, 7]);
        let Counts { records, bytes, lost } = rings.counts();
        assert_eq!((records, lost), (4, 7));
        assert_eq!(bytes, rings.limits.bytes);
    }

    #[tokio::test(start_paused = true)]
    async fn old_records_are_neither_kept_nor_read() {
        let mut rings = rings(10);
        let start = Instant::now();
        rings.push(&"a", encoded(1), start);
        rings.push(&"b", encoded(2), start);
        let later = start + WINDOW + Duration::from_secs(1);
        assert_eq!(read(&rings, "a", later), [0; 0]);
        rings.push(&"a", encoded(3), later);
        assert_eq!((read(&rings, "a", later), rings.counts().records), (vec![3], 2));
        rings.expire(later);
        assert_eq!((rings.counts().records, rings.keys()), (1, vec!["a"]));
        assert_eq!(rings.counts().lost, 0, "they were too old");
    }

    #[tokio::test(start_paused = true)]
    async fn record_larger_than_the_limit_is_lost_alone() {
        let mut rings = rings(2);
        let now = Instant::now();
        rings.push(&"a", encoded(1), now);
        rings.push(&"a", vec![0; 4096].into(), now);
        assert_eq!((read(&rings, "a", now), rings.counts().lost), (vec![1], 1));
    }
}
