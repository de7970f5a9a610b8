//! The run queue: orders siblings by virtual time, both the groups and the accounts of a group.
//!
//! A tenant's virtual time is its polled time divided by its weight. The ready tenant with the
//! least virtual time is next. The queue's own time, its *floor*, is the highest virtual time at
//! which a tenant was picked (start-time fair queueing). A tenant that becomes ready is lifted to
//! the floor less [`State::credit`](super::state::State). So this is the most that an idle tenant
//! saves, and a tenant that cannot use its whole share loses the rest.

use std::{collections::BTreeSet, time::Duration};

use crate::{Share, Usage, bucket::Bucket};

/// The virtual nanoseconds per polled nanosecond at weight 1; hence 100 at [`Share`]'s default
/// weight.
pub const SCALE: u64 = 10_000;

/// The position of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Without waiters.
    Out,
    /// In the run queue, at this virtual time.
    Ready(u128),
    /// Throttled by its limit until this time.
    Throttled(u64),
}

/// A group or an account, which competes with its siblings.
#[derive(Debug)]
pub struct Tenant {
    weight: u64,
    /// The polled nanoseconds times [`SCALE`], divided by the weight.
    virtual_time: u128,
    /// Set while there is a limit.
    bucket: Option<Bucket>,
    position: Position,
    /// When the throttling began.
    throttled_since: u64,
    used: Used,
}

/// The usage of a tenant, in nanoseconds and counts.
#[derive(Debug, Default)]
struct Used {
    polled: u64,
    polls: u64,
    throttled: u64,
    throttled_time: u64,
    wait: u64,
    wait_max: u64,
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

    /// Changes the share of later polls. A new limit begins with a full bucket.
    pub fn set_share(&mut self, share: &Share, now: u64) {
        self.weight = share.weight.clamp(1, Share::MAX_WEIGHT).into();
        match (&mut self.bucket, share.cpu_limit) {
            (Some(bucket), Some(limit)) => bucket.set_limit(limit, now),
            (bucket, limit) => *bucket = limit.map(|limit| Bucket::new(limit, now)),
        }
    }

    /// Returns the time until which its limit throttles it; None if it does not.
    pub fn closed_until(&mut self, now: u64) -> Option<u64> {
        self.bucket.as_mut().and_then(|bucket| bucket.opens_at(now))
    }

    /// Charges a poll of `polled` nanoseconds. The virtual time counts at least one, so that
    /// tenants whose polls take no measurable time still alternate.
    pub fn charge(&mut self, polled: u64, now: u64) {
        self.used.polled = self.used.polled.saturating_add(polled);
        self.used.polls += 1;
        self.virtual_time += u128::from(polled.max(1).saturating_mul(SCALE) / self.weight);
        if let Some(bucket) = &mut self.bucket {
            bucket.charge(polled, now);
        }
    }

    /// Records that a waiter got its slot after `wait` nanoseconds.
    pub fn waited(&mut self, wait: u64) {
        self.used.wait = self.used.wait.saturating_add(wait);
        self.used.wait_max = self.used.wait_max.max(wait);
    }

    /// Adds the throttling of a removed account. Its polls and waits were counted when they ended.
    pub fn inherit(&mut self, removed: &Self) {
        self.used.throttled += removed.used.throttled;
        self.used.throttled_time += removed.used.throttled_time;
    }

    pub fn position(&self) -> Position {
        self.position
    }

    pub fn virtual_time(&self) -> u128 {
        self.virtual_time
    }

    pub fn usage(&self, now: u64) -> Usage {
        let running = match self.position {
            Position::Throttled(_) => now.saturating_sub(self.throttled_since),
            Position::Out | Position::Ready(_) => 0,
        };

        Usage {
            polled: Duration::from_nanos(self.used.polled),
            polls: self.used.polls,
            throttled: self.used.throttled,
            throttled_time: Duration::from_nanos(self.used.throttled_time + running),
            wait: Duration::from_nanos(self.used.wait),
            wait_max: Duration::from_nanos(self.used.wait_max),
        }
    }
}

/// The siblings that have waiters and are not throttled.
#[derive(Debug, Default)]
pub struct RunQueue {
    /// The virtual time and id of exactly the tenants whose position is [`Position::Ready`].
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

    /// Returns the next tenant.
    pub fn first(&self) -> Option<usize> {
        self.ready.first().map(|(_, id)| *id)
    }

    /// Reports whether no tenant is ahead of this id and virtual time.
    pub fn is_next(&self, id: usize, virtual_time: u128) -> bool {
        self.ready
            .first()
            .is_none_or(|first| (virtual_time, id) <= *first)
    }

    /// Returns the virtual time of the tenant in this queue, or the one it would enter with.
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
