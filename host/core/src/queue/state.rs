//! The work queue's rules as a pure state machine, without clock, lock or task. Every operation
//! returns which consumers to wake; the shell in `mod.rs` wakes them.
//!
//! A key has any of three independent states: *dirty* (needs processing), *processing* (handed out
//! and not done) and *waiting* (to be added at a certain time). client-go keeps a set for each.
//! Here a single entry per key has all three, so that an operation hashes the key once.

use std::{
    collections::{BTreeMap, HashMap, VecDeque, hash_map},
    hash::Hash,
    time::{Duration, Instant},
};

pub use super::ready::{FlowOf, NORMAL_PER_LOW};
use super::{
    durations::DurationHistogram,
    priority::Priority,
    ready::{QueuePosition, Ready},
    stats::Stats,
};

/// The longest delay, about thirty years: practically forever, but still within range of any clock.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// Which consumers to wake after an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Wake {
    /// No consumer.
    Nobody,
    /// One consumer waiting in `get`: there is one more key.
    One,
    /// All consumers waiting in `get`: the next due time has changed.
    All,
}

/// The phase of a key, for information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPhase {
    /// Ready to be processed, for this long.
    Queued(Duration),
    /// Being processed, for this long.
    Processing(Duration),
    /// Becomes ready after this time.
    Waiting(Duration),
}

#[derive(Debug, Default)]
struct Entry {
    /// Set while the key needs processing, with the time since when.
    dirty: Option<(Dirty, Instant)>,
    /// While the key is handed out: its ticket in `State::processing`, and its priority.
    processing: Option<(u64, Priority)>,
    /// While a delay runs: its position in `State::waiting`.
    waiting: Option<(Instant, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dirty {
    /// Ready to be handed out; the key is not processing.
    Ready(QueuePosition),
    /// Processing; becomes ready with this priority once done.
    WhenDone(Priority),
}

#[derive(Debug)]
struct Processing {
    /// Same as in the key's entry.
    ticket: u64,
    /// When it was handed out.
    start: Instant,
    /// How long it had waited until then.
    waited: Duration,
}

impl Entry {
    fn is_idle(&self) -> bool {
        self.dirty.is_none() && self.processing.is_none() && self.waiting.is_none()
    }
}

/// The state of a queue.
#[derive(Debug)]
pub struct State<K> {
    /// All keys that are dirty, processing or waiting: no entry is idle.
    entries: HashMap<K, Entry>,
    /// All keys with [`Dirty::Ready`], so none being processed.
    ready: Ready<K>,
    /// The keys being processed, longest running first. A deque, because they are few and mostly
    /// done in order: a map would allocate for each key.
    processing: VecDeque<Processing>,
    /// All waiting keys, each with the priority it will be added with. Sorted by due time, then by
    /// the order of the calls.
    waiting: BTreeMap<(Instant, u64), (K, Priority)>,
    /// The next ticket, higher than all in `processing` and `waiting`.
    ticket: u64,
    counts: Counts,
    /// After shutdown, nothing is added any more and nothing waits.
    shutting_down: bool,
}

#[derive(Debug, Default)]
struct Counts {
    /// Dirty entries.
    dirty: usize,
    /// Dirty entries of low priority.
    dirty_low: usize,
    /// How often a key became dirty.
    adds: u64,
    /// Adds with a delay.
    retries: u64,
    /// Times from becoming dirty to being handed out.
    queue_durations: DurationHistogram,
    /// Times from being handed out to being done.
    work_durations: DurationHistogram,
}

impl<K> Default for State<K> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            ready: Ready::default(),
            processing: VecDeque::new(),
            waiting: BTreeMap::new(),
            ticket: 0,
            counts: Counts::default(),
            shutting_down: false,
        }
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    /// Lets the flows of normal keys take turns.
    pub fn in_turns(&mut self, flow_of: FlowOf<K>) {
        self.ready.in_turns(flow_of);
    }

    /// Marks a key as needing processing. A key that is already dirty keeps its position, unless
    /// its priority is raised.
    pub fn add(&mut self, key: K, priority: Priority, now: Instant) -> Wake {
        if self.shutting_down {
            return Wake::Nobody;
        }

        let mut slot = match self.entries.entry(key) {
            hash_map::Entry::Occupied(slot) => slot,
            hash_map::Entry::Vacant(slot) => slot.insert_entry(Entry::default()),
        };
        let before = slot.get().dirty;
        let since = before.map_or(now, |(_, since)| since);

        let (dirty, wake) = match (before.map(|(dirty, _)| dirty), priority) {
            (None, _) => {
                self.counts.dirty += 1;
                self.counts.dirty_low += usize::from(priority == Priority::Low);
                self.counts.adds += 1;
                if slot.get().processing.is_some() {
                    (Dirty::WhenDone(priority), Wake::Nobody)
                } else {
                    (
                        Dirty::Ready(self.ready.push(slot.key().clone(), priority)),
                        Wake::One,
                    )
                }
            }
            (Some(Dirty::Ready(QueuePosition::Low(ticket))), Priority::Normal) => {
                self.counts.dirty_low -= 1;
                (Dirty::Ready(self.ready.raise(ticket)), Wake::Nobody)
            }
            (Some(Dirty::WhenDone(before)), _) => {
                self.counts.dirty_low -= usize::from(before < priority);
                (Dirty::WhenDone(before.max(priority)), Wake::Nobody)
            }
            (Some(ready), _) => (ready, Wake::Nobody),
        };

        slot.get_mut().dirty = Some((dirty, since));
        wake
    }

    /// Whether the key has a running delay that ends within this time.
    pub fn is_due_within(&self, key: &K, delay: Duration, now: Instant) -> bool {
        let waiting = self.entries.get(key).and_then(|entry| entry.waiting);
        waiting.is_some_and(|(due, _)| due.saturating_duration_since(now) <= delay)
    }

    /// Adds a key after the delay, or right away if it is zero. If the key is already waiting, the
    /// earlier delay and the higher priority count. The priority is the one the key was handed out
    /// with if it is being processed, otherwise normal.
    pub fn add_after(&mut self, key: K, delay: Duration, now: Instant) -> Wake {
        if self.shutting_down {
            return Wake::Nobody;
        }

        self.counts.retries += 1;
        let handed_out = |entry: &Entry| {
            entry
                .processing
                .map_or(Priority::Normal, |(_, priority)| priority)
        };
        if delay.is_zero() {
            let priority = self.entries.get(&key).map_or(Priority::Normal, handed_out);
            return self.add(key, priority, now);
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

        if self.next_due() == Some(due) {
            Wake::All
        } else {
            Wake::Nobody
        }
    }

    /// Adds the keys that are due. Wakes nobody: every consumer has a timer for the earliest delay.
    pub fn advance(&mut self, now: Instant) {
        while let Some(first) = self
            .waiting
            .first_entry()
            .filter(|first| first.key().0 <= now)
        {
            let ((due, _), (key, priority)) = first.remove_entry();
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.waiting = None;
            }
            let _has_a_timer = self.add(key, priority, due);
        }
    }

    /// Ends the delays of the keys selected by `ends`, adding them now with the priority they wait
    /// with. Returns their number. Waking consumers is up to the caller. Takes time linear in the
    /// number of waiting keys.
    pub fn end_delays(&mut self, ends: impl Fn(&K) -> bool, now: Instant) -> usize {
        let ended: Vec<_> = self
            .waiting
            .extract_if(.., |_, (key, _)| ends(key))
            .collect();
        let count = ended.len();

        for (_, (key, priority)) in ended {
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.waiting = None;
            }
            let _caller_wakes = self.add(key, priority, now);
        }

        count
    }

    /// Ends one key's delay without adding it.
    pub fn end_delay(&mut self, key: &K) {
        let delay = self
            .entries
            .get_mut(key)
            .and_then(|entry| entry.waiting.take());
        if let Some(delay) = delay {
            self.waiting.remove(&delay);
        }
    }

    /// Whether the key is dirty, processing or waiting.
    pub fn has(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    /// The phase of a key at this time; None if it has no entry. A key both processing and dirty
    /// counts as processing.
    pub fn phase(&self, key: &K, now: Instant) -> Option<KeyPhase> {
        let entry = self.entries.get(key)?;
        if let Some((ticket, _)) = entry.processing {
            let start = self
                .processing
                .iter()
                .find(|processing| processing.ticket == ticket)?
                .start;
            return Some(KeyPhase::Processing(now.saturating_duration_since(start)));
        }

        if let Some((_, since)) = entry.dirty {
            return Some(KeyPhase::Queued(now.saturating_duration_since(since)));
        }

        entry
            .waiting
            .map(|(due, _)| KeyPhase::Waiting(due.saturating_duration_since(now)))
    }

    /// The end of the earliest delay.
    pub fn next_due(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((due, _), _)| *due)
    }

    /// Hands out the next key.
    pub fn get(&mut self, now: Instant) -> Option<K> {
        let (key, priority) = self.ready.pop()?;
        let ticket = self.ticket;
        self.ticket += 1;
        self.counts.dirty -= 1;
        self.counts.dirty_low -= usize::from(priority == Priority::Low);
        let entry = self
            .entries
            .get_mut(&key)
            .expect("a ready key has an entry");
        let since = entry.dirty.take().map_or(now, |(_, since)| since);
        entry.processing = Some((ticket, priority));
        let waited = now.saturating_duration_since(since);
        self.counts.queue_durations.observe(waited);
        self.processing.push_back(Processing {
            ticket,
            start: now,
            waited,
        });

        Some(key)
    }

    /// Marks a key as processed. If it was added meanwhile, it is ready again. Ignores keys not
    /// being processed.
    pub fn done(&mut self, key: &K, now: Instant) -> Wake {
        let Some((key, mut entry)) = self.entries.remove_entry(key) else {
            return Wake::Nobody;
        };

        let mut wake = Wake::Nobody;
        if let Some((ticket, _)) = entry.processing.take() {
            if let Ok(at) = self
                .processing
                .binary_search_by_key(&ticket, |processing| processing.ticket)
                && let Some(Processing { start, .. }) = self.processing.remove(at)
            {
                self.counts
                    .work_durations
                    .observe(now.saturating_duration_since(start));
            }

            if let Some((Dirty::WhenDone(priority), since)) = entry.dirty {
                entry.dirty = Some((Dirty::Ready(self.ready.push(key.clone(), priority)), since));
                wake = Wake::One;
            }
        }

        if !entry.is_idle() {
            self.entries.insert(key, entry);
        }

        wake
    }

    /// How long a key waited to be handed out; None if it is not being processed.
    pub fn queue_duration(&self, key: &K) -> Option<Duration> {
        let (ticket, _) = self.entries.get(key)?.processing?;
        let at = self
            .processing
            .binary_search_by_key(&ticket, |processing| processing.ticket)
            .ok()?;
        self.processing.get(at).map(|processing| processing.waited)
    }

    /// Shuts down: nothing is added any more and running delays are dropped, but dirty keys are
    /// still handed out.
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
        self.waiting.clear();
        self.entries.retain(|_, entry| {
            entry.waiting = None;
            !entry.is_idle()
        });
    }

    /// Whether [`Self::shut_down`] was called.
    pub fn is_shutting_down(&self) -> bool {
        self.shutting_down
    }

    /// Whether no key is ready and none is being processed.
    pub fn is_drained(&self) -> bool {
        self.ready.is_empty() && self.processing.is_empty()
    }

    /// The number of ready keys.
    pub fn len(&self) -> usize {
        self.ready.len()
    }

    /// Whether the key has an entry already, or may get one without exceeding `limit` entries.
    pub fn has_room(&self, key: &K, limit: usize) -> bool {
        self.entries.len() < limit || self.entries.contains_key(key)
    }

    /// Whether no key is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of keys in any state.
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    /// When the oldest dirty key became dirty.
    pub fn oldest(&self) -> Option<Instant> {
        self.entries
            .values()
            .filter_map(|entry| entry.dirty.map(|(_, since)| since))
            .min()
    }

    /// The counters at this time.
    pub fn stats(&self, now: Instant) -> Stats {
        let age = |processing: &Processing| now.saturating_duration_since(processing.start);
        Stats {
            depth: self.counts.dirty,
            depth_low: self.counts.dirty_low,
            waiting: self.waiting.len(),
            processing: self.processing.len(),
            adds_total: self.counts.adds,
            retries_total: self.counts.retries,
            unfinished_work: self.processing.iter().map(age).sum(),
            longest_running: self.processing.front().map(age).unwrap_or_default(),
            queue_durations: self.counts.queue_durations,
            work_durations: self.counts.work_durations,
        }
    }
}
