//! The run queue: orders siblings by virtual time, both the groups and the accounts of a group.
//!
//! A tenant's virtual time is its polled time divided by its weight. The ready tenant with the
//! least virtual time goes next. The queue's own time, its *floor*, is the highest virtual time of
//! any pick so far (start-time fair queueing). A tenant becoming ready is lifted to the floor minus
//! [`State::credit`](super::state::State). So an idle tenant saves no more than the credit, and a
//! tenant unable to use its full share loses the rest.

use std::{collections::BTreeSet, time::Duration};

use crate::{Share, Usage, bucket::Bucket};

/// Virtual nanoseconds per polled nanosecond at weight 1, hence 100 at [`Share`]'s default weight.
pub const SCALE: u64 = 10_000;

/// Where a tenant is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// No waiters.
    Out,
    /// In the run queue, at this virtual time.
    Ready(u128),
    /// Throttled by its limit until this time.
    Throttled(u64),
}

/// A group or an account, competing with its siblings.
#[derive(Debug)]
pub struct Tenant {
    weight: u64,
    /// Polled nanoseconds times [`SCALE`], divided by the weight.
    virtual_time: u128,
    /// Present while there is a limit.
    bucket: Option<Bucket>,
    position: Position,
    throttled_since: u64,
    used: Used,
}

/// A tenant's usage, in nanoseconds and counts.
#[derive(Debug, Default)]
struct Used {
    polled: u64,
    polls: u64,
    throttled: u64,
    throttled_time: u64,
    /// The same of removed accounts, if it is a group.
    removed_throttled: u64,
    removed_throttled_time: u64,
    wait: u64,
    wait_max: u64,
    turn_wait: u64,
}

impl Tenant {
    pub fn new(share: &Share, floor: u128, now: u64) -> Self {
        let mut new = Self {
            weight: 1,
            virtual_time: floor,
            bucket: None,
            position: Position::Out,
            throttled_since: 0,
            used: Used::default(),
        };
        new.set_share(share, now);
        new
    }

    /// Changes the share for later polls. A new limit starts with a full bucket.
    pub fn set_share(&mut self, share: &Share, now: u64) {
        self.weight = share.weight.clamp(1, Share::MAX_WEIGHT).into();
        match (&mut self.bucket, share.cpu_limit) {
            (Some(bucket), Some(limit)) => bucket.set_limit(limit, now),
            (bucket, limit) => *bucket = limit.map(|limit| Bucket::new(limit, now)),
        }
    }

    /// Until when its limit throttles the tenant; None if it does not.
    pub fn closed_until(&mut self, now: u64) -> Option<u64> {
        self.bucket.as_mut().and_then(|bucket| bucket.opens_at(now))
    }

    /// Charges a poll of `polled` nanoseconds. Virtual time advances by at least one, so that
    /// tenants with immeasurably short polls still alternate.
    pub fn charge(&mut self, polled: u64, now: u64) {
        self.used.polled = self.used.polled.saturating_add(polled);
        self.used.polls += 1;
        self.virtual_time += u128::from(polled.max(1).saturating_mul(SCALE) / self.weight);
        if let Some(bucket) = &mut self.bucket {
            bucket.charge(polled, now);
        }
    }

    /// Records that a waiter got its slot after `wait` nanoseconds, of which a limit throttled it for
    /// `throttled`.
    pub fn waited(&mut self, wait: u64, throttled: u64) {
        self.used.wait = self.used.wait.saturating_add(wait);
        self.used.wait_max = self.used.wait_max.max(wait);
        let turn = wait.saturating_sub(throttled);
        self.used.turn_wait = self.used.turn_wait.saturating_add(turn);
    }

    /// For how many nanoseconds its own limit has throttled waiters, up to now. Never decreases.
    pub fn throttled_time(&self, now: u64) -> u64 {
        let running = match self.position {
            Position::Throttled(_) => now.saturating_sub(self.throttled_since),
            Position::Out | Position::Ready(_) => 0,
        };
        self.used.throttled_time + running
    }

    /// Adds a removed account's throttling. Its polls and waits were already counted when they
    /// ended.
    pub fn inherit(&mut self, removed: &Self) {
        self.used.removed_throttled += removed.used.throttled;
        self.used.removed_throttled_time += removed.used.throttled_time;
    }

    pub fn position(&self) -> Position {
        self.position
    }

    pub fn virtual_time(&self) -> u128 {
        self.virtual_time
    }

    pub fn usage(&self, now: u64) -> Usage {
        Usage {
            polled: Duration::from_nanos(self.used.polled),
            polls: self.used.polls,
            throttled: self.used.throttled + self.used.removed_throttled,
            throttled_time: Duration::from_nanos(
                self.throttled_time(now) + self.used.removed_throttled_time,
            ),
            wait: Duration::from_nanos(self.used.wait),
            wait_max: Duration::from_nanos(self.used.wait_max),
            throttled_by_group: Duration::ZERO,
            turn_wait: Duration::from_nanos(self.used.turn_wait),
        }
    }
}

/// Siblings with waiters and without throttling.
#[derive(Debug, Default)]
pub struct RunQueue {
    /// Virtual time and id of exactly the tenants at [`Position::Ready`].
    ready: BTreeSet<(u128, usize)>,
    /// Never decreases.
    floor: u128,
}

impl RunQueue {
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    pub fn floor(&self) -> u128 {
        self.floor
    }

    /// The next tenant.
    pub fn first(&self) -> Option<usize> {
        self.ready.first().map(|(_, id)| *id)
    }

    /// Whether no tenant is ahead of this id and virtual time.
    pub fn is_next(&self, id: usize, virtual_time: u128) -> bool {
        self.ready
            .first()
            .is_none_or(|first| (virtual_time, id) <= *first)
    }

    /// The tenant's virtual time in this queue, or the one it would enter with.
    pub fn time(&self, tenant: &Tenant, credit: u128) -> u128 {
        match tenant.position {
            Position::Ready(at) => at,
            Position::Out | Position::Throttled(_) => {
                tenant.virtual_time.max(self.floor.saturating_sub(credit))
            }
        }
    }

    /// Records that the tenant gets a slot.
    pub fn pick(&mut self, tenant: &mut Tenant, credit: u128) {
        if tenant.position == Position::Out {
            tenant.virtual_time = self.time(tenant, credit);
        }
        self.floor = self.floor.max(tenant.virtual_time);
    }

    /// Updates the tenant's position after any change, and returns the previous one.
    pub fn put(
        &mut self,
        id: usize,
        tenant: &mut Tenant,
        waits: bool,
        credit: u128,
        now: u64,
    ) -> Position {
        let before = tenant.position;
        if !waits && before == Position::Out {
            return before;
        }

        let after = if !waits {
            Position::Out
        } else if let Some(until) = tenant.closed_until(now) {
            Position::Throttled(until)
        } else {
            if !matches!(before, Position::Ready(_)) {
                tenant.virtual_time = self.time(tenant, credit);
            }
            Position::Ready(tenant.virtual_time)
        };

        if after == before {
            return before;
        }

        if let Position::Ready(at) = before {
            self.ready.remove(&(at, id));
        }

        if let Position::Ready(at) = after {
            self.ready.insert((at, id));
        }

        match (before, after) {
            (Position::Throttled(_), Position::Throttled(_)) => {}
            (Position::Throttled(_), _) => {
                tenant.used.throttled_time += now.saturating_sub(tenant.throttled_since);
            }
            (_, Position::Throttled(_)) => {
                tenant.used.throttled += 1;
                tenant.throttled_since = now;
            }
            (_, _) => {}
        }

        tenant.position = after;
        before
    }
}
