//! The scheduler's rules, without clock, lock or task; public so that tests can compare them with a
//! naive model. Every operation takes the time and returns the waiters it granted a slot; the shell
//! in `lib.rs` wakes them.
//!
//! Time is in nanoseconds since an arbitrary start. `W` is the handle that wakes a waiter.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use slab::Slab;

use crate::{
    Share, Usage,
    entries::{Account, Granted, Group, Waiter},
    run_queue::{Position, RunQueue, SCALE, Tenant},
};

pub use crate::{bucket::Bucket, entries::Ticket};

/// Credit per slot an idle tenant of weight 100 may keep, in polled nanoseconds; in proportion for
/// other weights.
const CREDIT_PER_SLOT: u64 = 5_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TenantId {
    Account(usize),
    Group(usize),
}

/// The scheduler's state. After every operation, either no slot is free or no tenant is ready.
#[derive(Debug)]
pub struct State<W> {
    /// At least one.
    slots: usize,
    /// Slots neither granted nor taken.
    free: usize,
    /// Slots granted but not taken, and those of background polls. A short list: there are only as
    /// many slots as processors.
    granted: Vec<Granted<W>>,
    /// How much virtual time an idle tenant may save.
    credit: u128,
    groups: Slab<Group>,
    accounts: Slab<Account<W>>,
    queue: RunQueue,
    /// Exactly the tenants at [`Position::Throttled`], ordered by when it ends.
    throttled: BTreeSet<(u64, TenantId)>,
    next_ticket: Ticket,
}

impl<W: Clone> State<W> {
    /// Creates a state with `slots` slots, at least one.
    pub fn new(slots: usize) -> Self {
        let slots = slots.max(1);
        Self {
            slots,
            free: slots,
            granted: Vec::new(),
            credit: u128::from(CREDIT_PER_SLOT * SCALE / u64::from(Share::DEFAULT_WEIGHT))
                * slots as u128,
            groups: Slab::new(),
            accounts: Slab::new(),
            queue: RunQueue::default(),
            throttled: BTreeSet::new(),
            next_ticket: 0,
        }
    }

    /// Adds a group, without credit.
    pub fn add_group(&mut self, share: &Share, now: u64) -> usize {
        self.groups.insert(Group {
            tenant: Tenant::new(share, self.queue.floor(), now),
            queue: RunQueue::default(),
        })
    }

    /// Adds an account, without credit.
    pub fn add_account(&mut self, group: usize, share: &Share, now: u64) -> usize {
        let tenant = Tenant::new(share, self.groups[group].queue.floor(), now);
        self.accounts.insert(Account {
            tenant,
            group,
            waiting: VecDeque::new(),
            throttled_by_group: 0,
            ready_since: None,
        })
    }

    /// Removes a group without accounts.
    pub fn remove_group(&mut self, id: usize) {
        self.groups.remove(id);
    }

    /// Removes an account without waiters and slots. Its group keeps its usage.
    pub fn remove_account(&mut self, id: usize) {
        let account = self.accounts.remove(id);
        self.groups[account.group].tenant.inherit(&account.tenant);
    }

    /// Changes a group's share.
    pub fn set_group_share(&mut self, id: usize, share: &Share, now: u64, woken: &mut Vec<W>) {
        self.groups[id].tenant.set_share(share, now);
        self.update_group_position(id, now);
        self.dispatch(now, woken);
    }

    /// Changes an account's share.
    pub fn set_share(&mut self, id: usize, share: &Share, now: u64, woken: &mut Vec<W>) {
        self.accounts[id].tenant.set_share(share, now);
        self.update_position(id, now);
        self.dispatch(now, woken);
    }

    /// Asks for a slot. Returns None if the caller has one now, else its ticket for [`Self::take`].
    ///
    /// The caller is on a thread; a waiter with an untaken slot is not. So if the caller would be
    /// next, a waiter with more time behind it loses its slot to the caller.
    pub fn want(
        &mut self,
        id: usize,
        wake: impl FnOnce() -> W,
        now: u64,
        woken: &mut Vec<W>,
    ) -> Option<Ticket> {
        if self.try_take(id, now, false) {
            return None;
        }
        let ticket = self.wait(id, wake(), now);
        self.dispatch(now, woken);
        if self.take(id, ticket, now) {
            None
        } else {
            Some(ticket)
        }
    }

    /// Asks for a slot for a background poll, which lasts until [`Self::done_in_background`].
    /// Reports whether the poll has begun; if not, ask [`Self::begin_in_background`] later.
    ///
    /// The slot stays granted and is never taken. Even during the poll, a caller of [`Self::want`]
    /// may get it instead.
    pub fn want_in_background(
        &mut self,
        id: usize,
        wake: W,
        now: u64,
        woken: &mut Vec<W>,
    ) -> (Ticket, bool) {
        if self.try_take(id, now, true) {
            let waiter = Waiter {
                ticket: self.new_ticket(),
                since: now,
                throttled_before: self.throttled_time(id, now),
                wake,
            };
            let ticket = waiter.ticket;
            self.granted.push(Granted {
                account: id,
                waiter,
                in_background: true,
            });

            return (ticket, true);
        }

        let ticket = self.wait(id, wake, now);
        self.dispatch(now, woken);
        (ticket, self.begin_in_background(id, ticket, now))
    }

    /// Whether the ticket has a slot; if so, the caller holds it until [`Self::done`]. Drops the
    /// waiter's wake handle, of which the caller has a copy.
    pub fn take(&mut self, id: usize, ticket: Ticket, now: u64) -> bool {
        let Some(granted) = self.ungrant(ticket) else {
            return false;
        };
        self.waited(
            id,
            granted.waiter.since,
            granted.waiter.throttled_before,
            now,
        );
        true
    }

    /// Whether the ticket has a slot; if so, its background poll begins.
    pub fn begin_in_background(&mut self, id: usize, ticket: Ticket, now: u64) -> bool {
        let Some(granted) = self
            .granted
            .iter_mut()
            .find(|granted| granted.waiter.ticket == ticket)
        else {
            return false;
        };

        granted.in_background = true;
        let (since, throttled_before) = (granted.waiter.since, granted.waiter.throttled_before);
        self.waited(id, since, throttled_before, now);
        true
    }

    /// Returns a slot after a poll of `polled` nanoseconds. With `again`, asks for another one
    /// right away: the new ticket competes with all waiters.
    pub fn done(
        &mut self,
        id: usize,
        polled: u64,
        again: Option<W>,
        now: u64,
        woken: &mut Vec<W>,
    ) -> Option<Ticket> {
        self.free();
        self.finish(id, polled, again, now, woken)
    }

    /// Ends a background poll like [`Self::done`]; its slot may have been taken back meanwhile.
    pub fn done_in_background(
        &mut self,
        id: usize,
        (ticket, polled): (Ticket, u64),
        again: Option<W>,
        now: u64,
        woken: &mut Vec<W>,
    ) -> Option<Ticket> {
        self.release(id, ticket);
        self.finish(id, polled, again, now, woken)
    }

    fn finish(
        &mut self,
        id: usize,
        polled: u64,
        again: Option<W>,
        now: u64,
        woken: &mut Vec<W>,
    ) -> Option<Ticket> {
        let account = &mut self.accounts[id];
        account.tenant.charge(polled, now);
        self.groups[account.group].tenant.charge(polled, now);
        let ticket = match again {
            Some(wake) => Some(self.wait(id, wake, now)),
            None => {
                self.update_position(id, now);
                None
            }
        };

        self.dispatch(now, woken);
        ticket
    }

    /// Cancels a ticket, with or without a slot. Drop the returned value outside of any lock.
    pub fn cancel(&mut self, id: usize, ticket: Ticket, now: u64, woken: &mut Vec<W>) -> Option<W> {
        let cancelled = self.release(id, ticket);
        self.update_position(id, now);
        self.dispatch(now, woken);
        cancelled.map(|waiter| waiter.wake)
    }

    fn release(&mut self, id: usize, ticket: Ticket) -> Option<Waiter<W>> {
        if let Some(granted) = self.ungrant(ticket) {
            self.free();
            return Some(granted.waiter);
        }
        let waiting = &mut self.accounts[id].waiting;
        let at = waiting
            .binary_search_by_key(&ticket, |waiter| waiter.ticket)
            .ok()?;
        waiting.remove(at)
    }

    /// Ends due throttlings and grants the free slots to the next waiters.
    pub fn dispatch(&mut self, now: u64, woken: &mut Vec<W>) {
        self.wake_throttled(now);
        while self.free > 0
            && let Some(group) = self.queue.first()
            && let Some(id) = self.groups[group].queue.first()
            && let Some(waiter) = self.accounts[id].waiting.pop_front()
        {
            self.free -= 1;
            self.pick(id);
            woken.push(waiter.wake.clone());
            self.granted.push(Granted {
                account: id,
                waiter,
                in_background: false,
            });
            self.update_position(id, now);
        }
    }

    /// When to call [`Self::dispatch`] at the latest, even if nothing else happens; None for never.
    pub fn next_due(&self) -> Option<u64> {
        self.throttled.first().map(|(due, _)| *due)
    }

    /// An account's usage.
    pub fn usage(&self, id: usize, now: u64) -> Usage {
        let account = &self.accounts[id];
        let group = &self.groups[account.group];
        let running = account.ready_since.map_or(0, |before| {
            group.tenant.throttled_time(now).saturating_sub(before)
        });

        Usage {
            throttled_by_group: Duration::from_nanos(account.throttled_by_group + running),
            ..account.tenant.usage(now)
        }
    }

    /// Usage of the group's accounts, including removed ones, plus the group's own throttling.
    pub fn group_usage(&self, id: usize, now: u64) -> Usage {
        let mut usage = self.groups[id].tenant.usage(now);
        for (_, account) in self
            .accounts
            .iter()
            .filter(|(_, account)| account.group == id)
        {
            let account_usage = account.tenant.usage(now);
            usage.throttled += account_usage.throttled;
            usage.throttled_time += account_usage.throttled_time;
        }

        usage
    }

    fn free(&mut self) {
        self.free += 1;
        debug_assert!(self.free <= self.slots, "a slot is returned twice");
    }

    fn new_ticket(&mut self) -> Ticket {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        ticket
    }

    /// Gives the account a slot right away if it is ahead of all waiters. Reports whether it did.
    fn try_take(&mut self, id: usize, now: u64, in_background: bool) -> bool {
        self.wake_throttled(now);
        let is_next = self.is_open(id, now)
            && match self.free {
                0 => self.take_back_slot(id, now, in_background),
                _ => self.queue.is_empty(),
            };

        if is_next {
            self.free -= 1;
            self.pick(id);
        }

        is_next
    }

    /// For how long the limits of an account and of its group have throttled it.
    fn throttled_time(&self, id: usize, now: u64) -> u64 {
        let account = &self.accounts[id];
        let group = &self.groups[account.group];
        account.tenant.throttled_time(now) + group.tenant.throttled_time(now)
    }

    fn waited(&mut self, id: usize, since: u64, throttled_before: u64, now: u64) {
        let wait = now.saturating_sub(since);
        let throttled = self
            .throttled_time(id, now)
            .saturating_sub(throttled_before);
        let account = &mut self.accounts[id];
        account.tenant.waited(wait, throttled);
        self.groups[account.group].tenant.waited(wait, throttled);
    }

    fn wait(&mut self, id: usize, wake: W, now: u64) -> Ticket {
        let ticket = self.new_ticket();
        let throttled_before = self.throttled_time(id, now);
        self.accounts[id].waiting.push_back(Waiter {
            ticket,
            since: now,
            throttled_before,
            wake,
        });
        self.update_position(id, now);
        ticket
    }

    fn ungrant(&mut self, ticket: Ticket) -> Option<Granted<W>> {
        let at = self
            .granted
            .iter()
            .position(|granted| granted.waiter.ticket == ticket)?;
        Some(self.granted.swap_remove(at))
    }

    /// Frees the untaken slot of the most served waiter, if the account would be next and has had
    /// less. A background request never takes a background poll's slot: both run at the same
    /// priority.
    fn take_back_slot(&mut self, id: usize, now: u64, in_background: bool) -> bool {
        let times = |account: usize| {
            let account = &self.accounts[account];
            (
                account.group,
                self.groups[account.group].tenant.virtual_time(),
                account.tenant.virtual_time(),
            )
        };

        let may_lose = |at: &usize| !(in_background && self.granted[*at].in_background);
        let most = (0..self.granted.len()).filter(may_lose).max_by_key(|at| {
            let Granted {
                account, waiter, ..
            } = &self.granted[*at];
            let (_, group_time, time) = times(*account);
            (group_time, time, waiter.ticket)
        });

        let Some(at) = most else { return false };
        let account = &self.accounts[id];
        let group = &self.groups[account.group];
        let group_time = self.queue.time(&group.tenant, self.credit);
        let time = group.queue.time(&account.tenant, self.credit);
        let is_next = self.queue.is_next(account.group, group_time)
            && group.queue.is_next(id, time)
            // First come, first served.
            && account.waiting.is_empty();
        let (other_group, other_group_time, other_time) = times(self.granted[at].account);
        let had_less = if other_group == account.group {
            time < other_time
        } else {
            group_time < other_group_time
        };
        if !is_next || !had_less {
            return false;
        }

        let Granted {
            account: other,
            waiter,
            ..
        } = self.granted.swap_remove(at);
        self.free();
        let waiting = &mut self.accounts[other].waiting;
        waiting.insert(
            waiting.partition_point(|before| before.ticket < waiter.ticket),
            waiter,
        );
        self.update_position(other, now);

        true
    }

    /// Whether neither the account's nor its group's limit throttles it.
    fn is_open(&mut self, id: usize, now: u64) -> bool {
        let account = &mut self.accounts[id];
        let group = &mut self.groups[account.group];
        account.tenant.closed_until(now).is_none() && group.tenant.closed_until(now).is_none()
    }

    fn pick(&mut self, id: usize) {
        let account = &mut self.accounts[id];
        let group = &mut self.groups[account.group];
        group.queue.pick(&mut account.tenant, self.credit);
        self.queue.pick(&mut group.tenant, self.credit);
    }

    /// Moves tenants back into their run queue when their throttling is over.
    fn wake_throttled(&mut self, now: u64) {
        while let Some((due, tenant)) = self
            .throttled
            .first()
            .copied()
            .filter(|(due, _)| *due <= now)
        {
            match tenant {
                TenantId::Account(id) => self.update_position(id, now),
                TenantId::Group(id) => self.update_group_position(id, now),
            }
            debug_assert_ne!(
                self.throttled.first(),
                Some(&(due, tenant)),
                "it is still throttled at its due time"
            );
        }
    }

    /// Updates the positions of an account and its group after any change.
    fn update_position(&mut self, id: usize, now: u64) {
        let account = &mut self.accounts[id];
        let group = account.group;
        let waits = !account.waiting.is_empty();
        let before = self.groups[group]
            .queue
            .put(id, &mut account.tenant, waits, self.credit, now);
        let after = account.tenant.position();
        self.update_ready(id, now);
        self.update_throttled(TenantId::Account(id), before, after);
        self.update_group_position(group, now);
    }

    /// Counts for how long the group's limit has kept the account back while it was ready.
    fn update_ready(&mut self, id: usize, now: u64) {
        let account = &mut self.accounts[id];
        let is_ready = matches!(account.tenant.position(), Position::Ready(_));
        if is_ready == account.ready_since.is_some() {
            return;
        }

        let throttled = self.groups[account.group].tenant.throttled_time(now);
        match account.ready_since.take() {
            Some(before) => account.throttled_by_group += throttled.saturating_sub(before),
            None => account.ready_since = Some(throttled),
        }
    }

    fn update_group_position(&mut self, id: usize, now: u64) {
        let group = &mut self.groups[id];
        let before = self.queue.put(
            id,
            &mut group.tenant,
            !group.queue.is_empty(),
            self.credit,
            now,
        );
        let after = group.tenant.position();
        self.update_throttled(TenantId::Group(id), before, after);
    }

    fn update_throttled(&mut self, tenant: TenantId, before: Position, after: Position) {
        if before == after {
            return;
        }
        if let Position::Throttled(due) = before {
            self.throttled.remove(&(due, tenant));
        }
        if let Position::Throttled(due) = after {
            self.throttled.insert((due, tenant));
        }
    }
}

/// Inspection for tests.
impl<W> State<W> {
    /// The numbers of free slots, waiters, accounts and groups.
    pub fn counts(&self) -> (usize, usize, usize, usize) {
        let waiting = self
            .accounts
            .iter()
            .map(|(_, account)| account.waiting.len())
            .sum();
        (self.free, waiting, self.accounts.len(), self.groups.len())
    }

    /// Slots granted and not taken.
    pub fn untaken(&self) -> usize {
        self.granted.len()
    }
}
