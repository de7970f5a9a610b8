//! The looping keys of one controller and their delays: a pure state machine without clock or lock.

use std::{
    collections::HashMap,
    hash::Hash,
    time::{Duration, Instant},
};

/// Burst of counted reconciles per key. More than the dozen steps of a phased operator that writes
/// its status after each.
pub const BURST: u32 = 30;
/// How long until a key may have one more counted reconcile. Polling is slower than this, and
/// nobody would notice the delay.
pub const REFILL: Duration = Duration::from_secs(1);
/// How many own triggers in a row don't count. Chains of objects creating each other are rarely
/// longer.
pub const CHAIN: u32 = 4;
/// The longest delay of a slowed key.
pub const SLOWEST: Duration = Duration::from_secs(60);
/// Delays of a slowed key before it is quarantined: 1 + 2 + … + 32 + 4 × 60 s, five minutes in
/// total for somebody to notice.
pub const ROUNDS: u32 = 10;
/// How long a quarantine lasts.
pub const QUARANTINE: Duration = Duration::from_secs(600);
/// How many keys of a controller are remembered, at 200 bytes each. Loops of further keys go
/// undetected.
pub const KEYS: usize = 16_384;
/// How long to remember a key at rest after its last delay.
const CALM: Duration = Duration::from_secs(60);
/// How often to look for keys at rest while there is no room for more.
const SWEEP: Duration = Duration::from_secs(1);

/// The delay of a round, counted from 1: one second, doubled each time.
pub fn delay_of_round(round: u32) -> Duration {
    let seconds = 2_u64
        .checked_pow(round.saturating_sub(1))
        .unwrap_or(u64::MAX);
    Duration::from_secs(seconds).min(SLOWEST)
}

/// An action of the plugin itself that triggers a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trigger {
    /// A write in a reconcile of depth `depth - 1`, with `other` if that was a reconcile of another
    /// key.
    Write { depth: u32, other: bool },
    /// A requeue by a reconcile of depth `depth - 1`.
    Requeue { depth: u32 },
}

/// What to do with a key taken by a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Reconcile the key.
    Run,
    /// Requeue the key after this delay.
    Hold(Duration, Option<Looping>),
}

/// How far a loop has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Delayed by the time of this round, counted from 1.
    Slowed {
        /// The round.
        round: u32,
    },
    /// Delayed by [`QUARANTINE`].
    Quarantined,
}

/// A loop in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looping {
    /// The stage.
    pub stage: Stage,
    /// Reconciles since the last trigger from outside.
    pub runs: u32,
    /// How many of them were triggered by own writes.
    pub by_write: u32,
    /// How many of them were triggered by requeues.
    pub by_requeue: u32,
    /// The time since that trigger.
    pub within: Duration,
}

/// Summarizes a controller's held keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary<K> {
    /// The number of slowed keys.
    pub slowed: usize,
    /// The number of quarantined keys.
    pub quarantined: usize,
    /// The key in the highest round.
    pub worst: Option<(K, Looping)>,
}

impl<K> Default for Summary<K> {
    fn default() -> Self {
        Self {
            slowed: 0,
            quarantined: 0,
            worst: None,
        }
    }
}

/// The keys triggered by their own plugin.
#[derive(Debug)]
pub(super) struct State<K> {
    /// Delays of a slowed key before it is quarantined.
    rounds: u32,
    /// The remembered keys; at most [`KEYS`]. Keys at rest are removed.
    entries: HashMap<K, Entry>,
    /// When we last looked for keys at rest.
    swept: Option<Instant>,
}

#[derive(Debug)]
struct Entry {
    /// When the token bucket is full: until then it lacks one token per [`REFILL`].
    full_at: Instant,
    /// The plugin's own trigger of the next reconcile.
    pending: Option<Trigger>,
    /// Depth of the reconcile in flight: the length of the chain of own triggers behind it.
    running: Option<u32>,
    hold: Option<Hold>,
    /// When the last trigger from outside came.
    since: Instant,
    runs: u32,
    by_write: u32,
    by_requeue: u32,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    /// Delays so far, including this one.
    round: u32,
    /// When the delay ends.
    until: Instant,
    /// True while the key is delayed; false once it has been reconciled again.
    waiting: bool,
}

impl<K> Default for State<K> {
    fn default() -> Self {
        Self::new(ROUNDS)
    }
}

impl<K> State<K> {
    /// Creates a state without keys that quarantines keys after `rounds` delays.
    pub fn new(rounds: u32) -> Self {
        Self {
            rounds,
            entries: HashMap::new(),
            swept: None,
        }
    }

    /// Forgets all keys.
    pub fn reset(&mut self) {
        *self = Self::new(self.rounds);
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Records a trigger from outside. Reports whether the key was held until now.
    pub fn outside(&mut self, key: &K) -> bool {
        let Some(entry) = self.entries.get_mut(key) else {
            return false;
        };
        let was_held = entry.hold.is_some_and(|hold| hold.waiting);
        // The reconcile in flight was triggered earlier, but its writes react to this change as
        // well.
        self.entries.remove(key);
        was_held
    }

    /// Records a trigger by the plugin itself. Reports whether a held key is released.
    pub fn trigger(&mut self, key: &K, trigger: Trigger, now: Instant) -> bool {
        if !self.entries.contains_key(key) && !self.has_room(now) {
            return false;
        }

        let entry = self
            .entries
            .entry(key.clone())
            .or_insert_with(|| Entry::new(now));
        let released = entry.restart(trigger, now);
        entry.pending = Some(match entry.pending {
            Some(before) if before.depth() <= trigger.depth() => before,
            _ => trigger,
        });

        released
    }

    /// Corrects a trigger: it was a write in a reconcile of this depth, of this key or another.
    /// Reports whether a held key is released.
    pub fn correct(&mut self, key: &K, trigger: Trigger, now: Instant) -> bool {
        let Some(entry) = self.entries.get_mut(key) else {
            return false;
        };

        let depth = trigger.depth();
        let released = entry.restart(trigger, now);
        if let Some(running) = &mut entry.running {
            *running = depth.min(*running);
        }

        if entry.pending.is_some_and(|pending| pending.depth() > depth) {
            entry.pending = Some(trigger);
        }

        released
    }

    /// Decides whether to reconcile a key taken by a worker.
    pub fn admit(&mut self, key: &K, now: Instant) -> Admission {
        match self.entries.get_mut(key) {
            None => Admission::Run,
            Some(entry) => entry.admit(self.rounds, now),
        }
    }

    /// Ends a reconcile. With `requeues`, it asks for another one soon.
    pub fn ended(&mut self, key: &K, requeues: bool, now: Instant) {
        let depth = self
            .entries
            .get_mut(key)
            .and_then(|entry| entry.running.take())
            .unwrap_or_default();

        if requeues {
            let _never = self.trigger(
                key,
                Trigger::Requeue {
                    depth: depth.saturating_add(1),
                },
                now,
            );
        }

        if self
            .entries
            .get(key)
            .is_some_and(|entry| entry.is_at_rest(now))
        {
            self.entries.remove(key);
        }
    }

    /// How many own triggers led to the key's reconcile in flight.
    pub fn depth(&self, key: &K) -> u32 {
        self.entries
            .get(key)
            .and_then(|entry| entry.running)
            .unwrap_or_default()
    }

    /// Summarizes the held keys.
    pub fn summary(&mut self, now: Instant) -> Summary<K> {
        self.sweep(now);
        let mut summary = Summary::default();
        let mut farthest = 0;

        for (key, entry) in &self.entries {
            let Some(hold) = entry.hold else { continue };
            let quarantined = hold.waiting && hold.round > self.rounds;
            let count = if quarantined {
                &mut summary.quarantined
            } else {
                &mut summary.slowed
            };
            *count += 1;

            if hold.round > farthest {
                farthest = hold.round;
                summary.worst = Some((key.clone(), entry.looping(hold, self.rounds, now)));
            }
        }

        summary
    }

    fn has_room(&mut self, now: Instant) -> bool {
        if self.entries.len() >= KEYS
            && self
                .swept
                .is_none_or(|at| now.saturating_duration_since(at) >= SWEEP)
        {
            self.sweep(now);
        }
        self.entries.len() < KEYS
    }

    fn sweep(&mut self, now: Instant) {
        self.swept = Some(now);
        self.entries.retain(|_, entry| !entry.is_at_rest(now));
    }
}

impl Trigger {
    fn depth(self) -> u32 {
        match self {
            Self::Write { depth, .. } | Self::Requeue { depth } => depth,
        }
    }
}

impl Entry {
    fn new(now: Instant) -> Self {
        let pending = None;
        let running = None;
        let hold = None;
        Self {
            full_at: now,
            pending,
            running,
            hold,
            since: now,
            runs: 0,
            by_write: 0,
            by_requeue: 0,
        }
    }

    /// Starts over if the trigger goes back to a change from outside, because such a change had
    /// triggered the writing key. Reports whether the key was held until now.
    fn restart(&mut self, trigger: Trigger, now: Instant) -> bool {
        let Trigger::Write {
            depth: ..=CHAIN,
            other: true,
        } = trigger
        else {
            return false;
        };

        let was_held = self.hold.is_some_and(|hold| hold.waiting);
        *self = Self {
            running: self.running,
            pending: self.pending,
            ..Self::new(now)
        };

        was_held
    }

    fn admit(&mut self, rounds: u32, now: Instant) -> Admission {
        let counts = self.pending.is_some_and(|trigger| trigger.depth() > CHAIN);
        match &mut self.hold {
            Some(hold) if hold.waiting && now < hold.until => {
                return Admission::Hold(hold.until.saturating_duration_since(now), None);
            }
            Some(hold) if hold.waiting => hold.waiting = false,
            Some(hold) if counts => {
                let round = hold.round.saturating_add(1);
                return self.wait(round, rounds, now);
            }
            None if counts => {
                let full_at = self.full_at.max(now) + REFILL;
                if full_at.saturating_duration_since(now) > REFILL * BURST {
                    return self.wait(1, rounds, now);
                }
                self.full_at = full_at;
            }
            Some(_) | None => {}
        }

        self.runs = self.runs.saturating_add(1);
        match self.pending {
            Some(Trigger::Write { .. }) => self.by_write = self.by_write.saturating_add(1),
            Some(Trigger::Requeue { .. }) => self.by_requeue = self.by_requeue.saturating_add(1),
            None => {}
        }

        self.running = Some(self.pending.take().map_or(0, Trigger::depth));
        Admission::Run
    }

    fn wait(&mut self, round: u32, rounds: u32, now: Instant) -> Admission {
        let delay = if round > rounds {
            QUARANTINE
        } else {
            delay_of_round(round)
        };
        let hold = Hold {
            round,
            until: now + delay,
            waiting: true,
        };
        self.hold = Some(hold);

        Admission::Hold(delay, Some(self.looping(hold, rounds, now)))
    }

    fn looping(&self, hold: Hold, rounds: u32, now: Instant) -> Looping {
        let round = hold.round;
        let quarantined = hold.waiting && round > rounds;
        Looping {
            stage: if quarantined {
                Stage::Quarantined
            } else {
                Stage::Slowed { round }
            },
            runs: self.runs,
            by_write: self.by_write,
            by_requeue: self.by_requeue,
            within: now.saturating_duration_since(self.since),
        }
    }

    /// Whether there is nothing to remember about the key.
    fn is_at_rest(&self, now: Instant) -> bool {
        let calm = self
            .hold
            .is_none_or(|hold| !hold.waiting && now >= hold.until + CALM);
        calm && self.pending.is_none() && self.running.is_none() && self.full_at <= now
    }
}
