//! Rings of encoded records, bounded together in bytes and in time.
//!
//! Each plugin has a ring, and so have the changes of objects. When all rings together exceed their
//! bytes, the largest one loses its oldest record, so a plugin that reconciles often shortens its
//! own history first.

use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use memchr::memmem::Finder;
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::Instant;

/// Memory of a record besides its bytes: its place in the ring, and the allocator's rounding.
const OVERHEAD: usize = size_of::<Stored>() + 16;

/// How many records are searched at once, with the rings locked.
const AT_ONCE: usize = 1_024;

/// Limits for all rings together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all records.
    pub bytes: usize,
    /// Age of the oldest record.
    pub window: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 16 << 20,
            window: Duration::from_secs(3600),
        }
    }
}

struct Stored {
    at: Instant,
    marks: Marks,
    bytes: Box<[u8]>,
}

/// The names in a record, as two bits each: a search looks only into records with its name's bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks(u64);

impl Marks {
    /// Adds a name.
    pub fn add(&mut self, name: &str) {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let hash = hasher.finish();
        self.0 |= 1 << (hash & 63) | 1 << (hash >> 6 & 63);
    }

    fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

pub(super) struct Pattern {
    marks: Marks,
    finder: Finder<'static>,
}

impl Pattern {
    /// Searches for a value with this name, relying on it being encoded the same alone and within a
    /// record.
    pub fn of<T: Serialize>(name: &str, value: &T) -> Self {
        let mut marks = Marks::default();
        marks.add(name);
        // Encoding fails only for a value without a length, and no record contains one.
        Self {
            marks,
            finder: Finder::new(&encode(value).unwrap_or_default()).into_owned(),
        }
    }

    /// Matches all records.
    pub fn all() -> Self {
        Self {
            marks: Marks::default(),
            finder: Finder::new(b""),
        }
    }

    fn is_in(&self, stored: &Stored) -> bool {
        stored.marks.has(self.marks) && self.finder.find(&stored.bytes).is_some()
    }
}

#[derive(Default)]
struct Ring {
    records: VecDeque<Stored>,
    bytes: usize,
    dropped: u64,
    /// How many records were lost because the rings were full, not because of their age.
    lost: u64,
}

impl Ring {
    fn drop_oldest(&mut self) -> usize {
        let freed = self
            .records
            .pop_front()
            .map_or(0, |oldest| oldest.bytes.len() + OVERHEAD);
        self.bytes -= freed;
        self.dropped += 1;
        if self.records.len() < self.records.capacity() / 4 {
            self.records.shrink_to(self.records.len() * 2);
        }
        freed
    }
}

#[derive(Debug, Default)]
pub(super) struct Found {
    /// The matching records, newest first.
    pub records: Vec<Box<[u8]>>,
    /// Where to continue the search; None at the end.
    pub rest: Option<u64>,
}

pub(super) struct Rings<K> {
    limits: Limits,
    rings: HashMap<K, Ring>,
    bytes: usize,
}

impl<K: Clone + Eq + Hash> Rings<K> {
    /// Creates empty rings.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            rings: HashMap::new(),
            bytes: 0,
        }
    }

    /// Adds an encoded record containing these names.
    pub fn push(&mut self, key: &K, bytes: Box<[u8]>, marks: Marks, now: Instant) {
        if bytes.len() + OVERHEAD > self.limits.bytes {
            self.rings.entry(key.clone()).or_default().lost += 1;
            return;
        }

        let ring = match self.rings.get_mut(key) {
            Some(ring) => ring,
            None => self.rings.entry(key.clone()).or_default(),
        };
        let added = bytes.len() + OVERHEAD;
        ring.records.push_back(Stored {
            at: now,
            marks,
            bytes,
        });
        ring.bytes += added;
        self.bytes += added;

        // Expire only this ring. Idle rings lose their old records when the bytes are needed; until
        // then those are just not read.
        while ring
            .records
            .front()
            .is_some_and(|oldest| now.duration_since(oldest.at) > self.limits.window)
        {
            self.bytes -= ring.drop_oldest();
        }

        while self.bytes > self.limits.bytes {
            let Some(largest) = self.rings.values_mut().max_by_key(|ring| ring.bytes) else {
                return;
            };
            largest.lost += 1;
            self.bytes -= largest.drop_oldest();
        }
    }

    /// Drops records past their age, and rings without records.
    pub fn expire(&mut self, now: Instant) {
        let window = self.limits.window;
        for ring in self.rings.values_mut() {
            while ring
                .records
                .front()
                .is_some_and(|oldest| now.duration_since(oldest.at) > window)
            {
                self.bytes -= ring.drop_oldest();
            }
        }

        self.rings.retain(|_, ring| !ring.records.is_empty());
    }

    /// Searches a ring for records containing a pattern, newest first. `before` is the `rest` of
    /// the previous call, and initially `u64::MAX`.
    pub fn search(&self, key: &K, pattern: &Pattern, before: u64, now: Instant) -> Found {
        let Some(ring) = self.rings.get(key) else {
            return Found::default();
        };

        let end = usize::try_from(before.saturating_sub(ring.dropped))
            .unwrap_or(usize::MAX)
            .min(ring.records.len());
        let start = end.saturating_sub(AT_ONCE);
        let young =
            |stored: &&Stored| now.saturating_duration_since(stored.at) <= self.limits.window;

        let searched: Vec<&Stored> = ring
            .records
            .range(start..end)
            .rev()
            .take_while(young)
            .collect();

        let is_end = start == 0 || searched.len() < end - start;
        let has_pattern = searched.into_iter().filter(|stored| pattern.is_in(stored));
        let records = has_pattern.map(|stored| stored.bytes.clone()).collect();
        let rest = ring.dropped + u64::try_from(start).unwrap_or_default();
        Found {
            records,
            rest: (!is_end).then_some(rest),
        }
    }

    /// How many records of a ring are not past their age.
    pub fn count(&self, key: &K, now: Instant) -> usize {
        let young =
            |stored: &Stored| now.saturating_duration_since(stored.at) <= self.limits.window;
        self.rings.get(key).map_or(0, |ring| {
            ring.records.len() - ring.records.partition_point(|stored| !young(stored))
        })
    }

    /// The keys of the rings.
    pub fn keys(&self) -> Vec<K> {
        self.rings.keys().cloned().collect()
    }

    /// The number of records, their bytes, and how many were lost because the rings were full.
    pub fn counts(&self) -> Counts {
        let records = self.rings.values().map(|ring| ring.records.len()).sum();
        let lost = self.rings.values().map(|ring| ring.lost).sum();
        Counts {
            records,
            bytes: self.bytes,
            lost,
        }
    }
}

/// A recorder's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of records.
    pub records: usize,
    /// The bytes of all records.
    pub bytes: usize,
    /// Records dropped because the recorder was full.
    pub lost: u64,
}

pub(super) fn encode<T: Serialize>(record: &T) -> Option<Box<[u8]>> {
    postcard::to_allocvec(record)
        .ok()
        .map(Vec::into_boxed_slice)
}

pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, postcard::Error> {
    postcard::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(60);

    fn rings(records: usize) -> Rings<&'static str> {
        Rings::new(Limits {
            bytes: records * (encoded(0).len() + OVERHEAD),
            window: WINDOW,
        })
    }

    fn encoded(number: u32) -> Box<[u8]> {
        // As many bytes for each number.
        encode(&number.to_le_bytes()).expect("encodes")
    }

    fn push(rings: &mut Rings<&'static str>, key: &'static str, number: u32, now: Instant) {
        let mut marks = Marks::default();
        marks.add(&number.to_string());
        rings.push(&key, encoded(number), marks, now);
    }

    fn read(rings: &Rings<&'static str>, key: &'static str, now: Instant) -> Vec<u32> {
        read_with(rings, key, &Pattern::all(), now)
    }

    fn read_with(
        rings: &Rings<&'static str>,
        key: &'static str,
        pattern: &Pattern,
        now: Instant,
    ) -> Vec<u32> {
        let mut all = Vec::new();
        let mut before = Some(u64::MAX);
        while let Some(place) = before {
            let Found { records, rest } = rings.search(&key, pattern, place, now);
            all.extend(
                records
                    .iter()
                    .map(|bytes| u32::from_le_bytes(decode(bytes).expect("decodes"))),
            );
            before = rest;
        }
        all
    }

    #[tokio::test(start_paused = true)]
    async fn busy_ring_loses_its_oldest_and_silent_ring_nothing() {
        let mut rings = rings(4);
        let now = Instant::now();
        push(&mut rings, "silent", 7, now);
        (0..10).for_each(|number| push(&mut rings, "busy", number, now));
        assert_eq!(read(&rings, "silent", now), [7]);
        assert_eq!(read(&rings, "busy", now), [9, 8, 7]);
        let Counts {
            records,
            bytes,
            lost,
        } = rings.counts();
        assert_eq!((records, lost), (4, 7));
        assert_eq!(bytes, rings.limits.bytes);
    }

    #[tokio::test(start_paused = true)]
    async fn old_records_are_neither_kept_nor_read() {
        let mut rings = rings(10);
        let start = Instant::now();
        push(&mut rings, "a", 1, start);
        push(&mut rings, "b", 2, start);
        let later = start + WINDOW + Duration::from_secs(1);
        assert_eq!(read(&rings, "a", later), [0; 0]);
        push(&mut rings, "a", 3, later);
        assert_eq!(
            (read(&rings, "a", later), rings.counts().records),
            (vec![3], 2)
        );
        rings.expire(later);
        assert_eq!((rings.counts().records, rings.keys()), (1, vec!["a"]));
        assert_eq!(rings.counts().lost, 0, "they were too old");
    }

    #[tokio::test(start_paused = true)]
    async fn search_finds_each_record_once_while_others_are_added_and_dropped() {
        let last = 3 * AT_ONCE as u32;
        let mut rings = rings(3 * AT_ONCE);
        let now = Instant::now();
        (0..last).for_each(|number| push(&mut rings, "a", number, now));
        assert_eq!(read(&rings, "a", now), (0..last).rev().collect::<Vec<_>>());
        assert_eq!(rings.count(&"a", now), last as usize);
        assert_eq!(
            read_with(&rings, "a", &Pattern::of("7", &7_u32.to_le_bytes()), now),
            [7]
        );

        let all = Pattern::all();
        let first = rings.search(&"a", &all, u64::MAX, now);
        (last..last + 10).for_each(|number| push(&mut rings, "a", number, now));
        let second = rings.search(&"a", &all, first.rest.expect("more"), now);
        let third = rings.search(&"a", &all, second.rest.expect("more"), now);
        assert_eq!(third.rest, None);
        let found = [first.records, second.records, third.records].concat();
        let found: Vec<u32> = found
            .iter()
            .map(|bytes| u32::from_le_bytes(decode(bytes).expect("decodes")))
            .collect();
        assert_eq!(
            found,
            (10..last).rev().collect::<Vec<_>>(),
            "all but the dropped ones"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn record_larger_than_the_limit_is_lost_alone() {
        let mut rings = rings(2);
        let now = Instant::now();
        push(&mut rings, "a", 1, now);
        rings.push(&"a", vec![0; 4096].into(), Marks::default(), now);
        assert_eq!((read(&rings, "a", now), rings.counts().lost), (vec![1], 1));
    }
}
