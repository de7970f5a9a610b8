//! The workqueue's rules, without clock, lock or task: every operation says who has to be woken, and the shell in
//! `mod.rs` does it.
//!
//! A key is in any of three conditions, independent of each other: *dirty* (has to be processed), *processing*
//! (handed out and not done) and *waiting* (will be added at a certain time). client-go keeps a set for each; here one
//! entry per key holds all three, so that an operation hashes the key once.

use std::{
    collections::{BTreeMap, HashMap, VecDeque, hash_map},
    hash::Hash,
    time::{Duration, Instant},
};

use super::{
    Priority, Stats,
    ready::{QueuePosition, Ready},
};

/// The longest delay, about thirty years: far enough to be never, near enough to be added to any clock.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// The tasks to wake after an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Wake {
    /// Nobody.
    Nobody,
    /// One that waits in get: there is one more key.
    One,
    /// All that wait in get: the time they wait for has changed.
    All,
}

/// The state of one key.
#[derive(Debug, Default)]
struct Entry {
    /// Set while the key has to be processed.
    dirty: Option<Dirty>,
    /// Set while the key is handed out: its ticket in `State::processing`, and the priority it was handed out with.
    processing: Option<(u64, Priority)>,
    /// Set while a delay runs: the key's position in `State::waiting`.
    waiting: Option<(Instant, u64)>,
}

/// The location of a dirty key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dirty {
    /// Ready to be handed out; the key is not processing.
    Ready(QueuePosition),
    /// Becomes ready with this priority when it is done; the key is processing.
    WhenDone(Priority),
}

impl Entry {
    fn is_idle(&self) -> bool {
        self.dirty.is_none() && self.processing.is_none() && self.waiting.is_none()
    }
}

/// The queue.
#[derive(Debug)]
pub struct State<K> {
    /// Exactly the keys that are dirty, processing or waiting: no entry is idle.
    entries: HashMap<K, Entry>,
    /// Exactly the keys with [`Dirty::Ready`], hence none that is processing.
    ready: Ready<K>,
    /// The ticket of each key being processed and when it was handed out, in this order, hence the longest running
    /// first. Few and mostly done in turn: a map would allocate for each key.
    processing: VecDeque<(u64, Instant)>,
    /// Exactly the keys whose entry is waiting, the earliest first, those of one instant in the order they came; and the
    /// priority that they are added with.
    waiting: BTreeMap<(Instant, u64), (K, Priority)>,
    /// The next ticket, above all in `processing` and `waiting`.
    ticket: u64,
    /// The number of dirty entries.
    dirty: usize,
    /// The number of times that a key became dirty.
    adds: u64,
    /// The number of adds with a delay.
    retries: u64,
    /// Once set nothing is added any more, and nothing waits.
    shutting_down: bool,
}

impl<K> Default for State<K> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            ready: Ready::default(),
            processing: VecDeque::new(),
            waiting: BTreeMap::new(),
            ticket: 0,
            dirty: 0,
            adds: 0,
            retries: 0,
            shutting_down: false,
        }
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    /// Marks a key as needing processing. One that is dirty already stays where it is, unless its priority is raised.
    pub fn add(&mut self, key: K, priority: Priority) -> Wake {
        if self.shutting_down {
            return Wake::Nobody;
        }
        let mut slot = match self.entries.entry(key) {
            hash_map::Entry::Occupied(slot) => slot,
            hash_map::Entry::Vacant(slot) => slot.insert_entry(Entry::default()),
        };
        let (dirty, wake) = match (slot.get().dirty, priority) {
            (None, _) => {
                self.dirty += 1;
                self.adds += 1;
                if slot.get().processing.is_some() {
                    (Dirty::WhenDone(priority), Wake::Nobody)
                } else {
                    (Dirty::Ready(self.ready.push(slot.key().clone(), priority)), Wake::One)
                }
            }
            (Some(Dirty::Ready(QueuePosition::Low(ticket))), Priority::Normal) => {
                (Dirty::Ready(self.ready.raise(ticket)), Wake::Nobody)
            }
            (Some(Dirty::WhenDone(before)), _) => (Dirty::WhenDone(before.max(priority)), Wake::Nobody),
            (Some(ready), _) => (ready, Wake::Nobody),
        };
        slot.get_mut().dirty = Some(dirty);
        wake
    }

    /// Adds a key when the delay is over; at once when there is none. Of two delays of a key the earlier one counts, and
    /// the higher priority: the one with which the key was handed out while it is processing, else the normal one.
    pub fn add_after(&mut self, key: K, delay: Duration, now: Instant) -> Wake {
        if self.shutting_down {
            return Wake::Nobody;
        }
        self.retries += 1;
        let handed_out = |entry: &Entry| entry.processing.map_or(Priority::Normal, |(_, priority)| priority);
        if delay.is_zero() {
            let priority = self.entries.get(&key).map_or(Priority::Normal, handed_out);
            return self.add(key, priority);
        }
        let due = now.checked_add(delay.min(FAR)).unwrap_or(now);
        let mut slot = match self.entries.entry(key) {
            hash_map::Entry::Occupied(slot) => slot,
            hash_map::Entry::Vacant(slot) => slot.insert_entry(Entry::default()),
        };
        let at = (due, self.ticket);
        let priority = handed_out(slot.get());
        let new = || (slot.key().clone(), priority);
        let (key, before) = match slot.get().waiting {
            Some(earlier) if earlier.0 <= due => {
                if let Some((_, kept)) = self.waiting.get_mut(&earlier) {
                    *kept = priority.max(*kept);
                }
                return Wake::Nobody;
            }
            Some(later) => self.waiting.remove(&later).unwrap_or_else(new),
            None => new(),
        };
        self.ticket += 1;
        slot.get_mut().waiting = Some(at);
        self.waiting.insert(at, (key, priority.max(before)));
        if self.next_due() == Some(due) { Wake::All } else { Wake::Nobody }
    }

    /// Adds the keys whose delay is over. Whoever waits in get has a timer for the earliest of them, so nobody has to
    /// be woken.
    pub fn advance(&mut self, now: Instant) {
        while let Some(first) = self.waiting.first_entry().filter(|first| first.key().0 <= now) {
            let (key, priority) = first.remove();
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.waiting = None;
            }
            let _has_a_timer = self.add(key, priority);
        }
    }

    /// Returns the time when the earliest delay is over.
    pub fn next_due(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((due, _), _)| *due)
    }

    /// Hands out the next key.
    pub fn get(&mut self, now: Instant) -> Option<K> {
        let (key, priority) = self.ready.pop()?;
        let ticket = self.ticket;
        self.ticket += 1;
        self.dirty -= 1;
        self.processing.push_back((ticket, now));
        let entry = self.entries.get_mut(&key).expect("a ready key has an entry");
        entry.dirty = None;
        entry.processing = Some((ticket, priority));
        Some(key)
    }

    /// Takes a key back; it is ready again if it was added meanwhile. Of a key that is not processing nothing changes.
    pub fn done(&mut self, key: &K) -> Wake {
        let Some((key, mut entry)) = self.entries.remove_entry(key) else { return Wake::Nobody };
        let mut wake = Wake::Nobody;
        if let Some((ticket, _)) = entry.processing.take() {
            if let Ok(at) = self.processing.binary_search_by_key(&ticket, |(ticket, _)| *ticket) {
                self.processing.remove(at);
            }
            if let Some(Dirty::WhenDone(priority)) = entry.dirty {
                entry.dirty = Some(Dirty::Ready(self.ready.push(key.clone(), priority)));
                wake = Wake::One;
            }
        }
        if !entry.is_idle() {
            self.entries.insert(key, entry);
        }
        wake
    }

    /// From now on nothing is added, and what waits is dropped; dirty keys are still handed out.
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
        self.waiting.clear();
        self.entries.retain(|_, entry| {
            entry.waiting = None;
            !entry.is_idle()
        });
    }

    /// Reports whether [`Self::shut_down`] was called.
    pub fn is_shutting_down(&self) -> bool {
        self.shutting_down
    }

    /// Reports whether no key is ready and none is being processed.
    pub fn is_drained(&self) -> bool {
        self.ready.is_empty() && self.processing.is_empty()
    }

    /// Keys that are ready.
    pub fn len(&self) -> usize {
        self.ready.len()
    }

    /// Returns the number of keys with any state.
    #[cfg(test)]
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    /// The counters, as they are at this time.
    pub fn stats(&self, now: Instant) -> Stats {
        let age = |(_, start): &(u64, Instant)| now.saturating_duration_since(*start);
        Stats {
            depth: self.dirty,
            waiting: self.waiting.len(),
            processing: self.processing.len(),
            adds_total: self.adds,
            retries_total: self.retries,
            unfinished_work: self.processing.iter().map(age).sum(),
            longest_running: self.processing.front().map(age).unwrap_or_default(),
        }
    }
}
