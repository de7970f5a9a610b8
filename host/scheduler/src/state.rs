//! The scheduler's rules, without clock, lock or task: every operation is told the time and says whom it has given a
//! slot, and the shell in `mod.rs` wakes them.
//!
//! Time is in nanoseconds since any beginning. `W` is what wakes a waiter.

use std::collections::{BTreeSet, VecDeque};

use slab::Slab;

use crate::{
    Share, Usage,
    entries::{Account, Granted, Group, Waiter},
    run_queue::{Position, RunQueue, SCALE, Tenant},
};

pub use crate::entries::Ticket;

/// The credit that an idle tenant of weight 100 may keep for each slot, in polled nanoseconds; in proportion for other
/// weights.
const CREDIT_PER_SLOT: u64 = 5_000_000;

/// Whose limit ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Account(usize),
    Group(usize),
}

/// The scheduler. After every operation either no slot is free or nobody is ready.
#[derive(Debug)]
pub struct State<W> {
    /// All slots, at least one.
    slots: usize,
    /// Slots that are neither granted nor taken.
    free: usize,
    /// Slots that are granted and not taken; few, for there are as many slots as processors.
    granted: Vec<Granted<W>>,
    /// Virtual time that an idle tenant may save.
    credit: u128,
    groups: Slab<Group>,
    accounts: Slab<Account<W>>,
    /// The groups.
    line: RunQueue,
    /// Exactly the tenants whose position is [`Position::Throttled`], by the end of it.
    throttled: BTreeSet<(u64, Who)>,
    next_ticket: Ticket,
}

impl<W: Clone> State<W> {
    /// With this many slots, at least one.
    pub fn new(slots: usize) -> Self {
        let slots = slots.max(1);
        Self {
            slots,
            free: slots,
            granted: Vec::new(),
            credit: u128::from(CREDIT_PER_SLOT * SCALE / u64::from(Share::DEFAULT_WEIGHT)) * slots as u128,
            groups: Slab::new(),
            accounts: Slab::new(),
            line: RunQueue::default(),
            throttled: BTreeSet::new(),
            next_ticket: 0,
        }
    }

    /// A new group, which has saved nothing.
    pub fn add_group(&mut self, share: &Share, now: u64) -> usize {
        self.groups.insert(Group { tenant: Tenant::new(share, self.line.floor(), now), line: RunQueue::default() })
    }

    /// A new account, which has saved nothing.
    pub fn add_account(&mut self, group: usize, share: &Share, now: u64) -> usize {
        let tenant = Tenant::new(share, self.groups[group].line.floor(), now);
        self.accounts.insert(Account { tenant, group, waiting: VecDeque::new() })
    }

    /// Forgets a group that has no account any more.
    pub fn remove_group(&mut self, id: usize) {
        self.groups.remove(id);
    }

    /// Forgets an account for which nobody waits and nobody has a slot; its group keeps its numbers.
    pub fn remove_account(&mut self, id: usize) {
        let account = self.accounts.remove(id);
        self.groups[account.group].tenant.inherit(&account.tenant);
    }

    pub fn set_group_share(&mut self, id: usize, share: &Share, now: u64, woken: &mut Vec<W>) {
        self.groups[id].tenant.set_share(share, now);
        self.put_group(id, now);
        self.dispatch(now, woken);
    }

    pub fn set_share(&mut self, id: usize, share: &Share, now: u64, woken: &mut Vec<W>) {
        self.accounts[id].tenant.set_share(share, now);
        self.put(id, now);
        self.dispatch(now, woken);
    }

    /// Asks for a slot. None: it has one. Otherwise it waits, and [`Self::take`] says whether its turn has come.
    ///
    /// Whoever asks is on a thread, and whoever was granted a slot and has not taken it is not: so a slot is taken back
    /// from one that has had more, for one that nobody is before.
    pub fn want(&mut self, id: usize, wake: impl FnOnce() -> W, now: u64, woken: &mut Vec<W>) -> Option<Ticket> {
        if self.pass(id, now, false) {
            return None;
        }
        let ticket = self.wait(id, wake(), now);
        self.dispatch(now, woken);
        if self.take(id, ticket, now) { None } else { Some(ticket) }
    }

    /// Asks for a slot for a poll in the background, which lasts until [`Self::done_in_background`]; returns whether it
    /// has begun. Otherwise [`Self::begin_in_background`] says whether its turn has come.
    ///
    /// Its slot is never taken: as long as the poll lasts it may be taken back for one who asks with [`Self::want`].
    pub fn want_in_background(&mut self, id: usize, wake: W, now: u64, woken: &mut Vec<W>) -> (Ticket, bool) {
        if self.pass(id, now, true) {
            let waiter = Waiter { ticket: self.ticket(), since: now, wake };
            let ticket = waiter.ticket;
            self.granted.push(Granted { account: id, waiter, in_background: true });
            return (ticket, true);
        }
        let ticket = self.wait(id, wake, now);
        self.dispatch(now, woken);
        (ticket, self.begin_in_background(id, ticket, now))
    }

    /// Reports whether the ticket has a slot, which it then holds until [`Self::done`]. Drops its wake-up: the caller
    /// has it too.
    pub fn take(&mut self, id: usize, ticket: Ticket, now: u64) -> bool {
        let Some(granted) = self.ungrant(ticket) else { return false };
        self.waited(id, now.saturating_sub(granted.waiter.since));
        true
    }

    /// Reports whether the ticket has a slot, with which its poll in the background begins.
    pub fn begin_in_background(&mut self, id: usize, ticket: Ticket, now: u64) -> bool {
        let Some(granted) = self.granted.iter_mut().find(|granted| granted.waiter.ticket == ticket) else {
            return false;
        };
        granted.in_background = true;
        let since = granted.waiter.since;
        self.waited(id, now.saturating_sub(since));
        true
    }

    /// A slot is given back after a poll of `polled` nanoseconds. With `again` it is wanted once more at once: the
    /// new ticket competes with all who wait.
    pub fn done(&mut self, id: usize, polled: u64, again: Option<W>, now: u64, woken: &mut Vec<W>) -> Option<Ticket> {
        self.free();
        self.settle(id, polled, again, now, woken)
    }

    /// Ends a poll in the background as [`Self::done`] does; its slot may have been taken back meanwhile.
    pub fn done_in_background(
        &mut self,
        id: usize,
        (ticket, polled): (Ticket, u64),
        again: Option<W>,
        now: u64,
        woken: &mut Vec<W>,
    ) -> Option<Ticket> {
        self.give_up(id, ticket);
        self.settle(id, polled, again, now, woken)
    }

    fn settle(&mut self, id: usize, polled: u64, again: Option<W>, now: u64, woken: &mut Vec<W>) -> Option<Ticket> {
        let account = &mut self.accounts[id];
        account.tenant.charge(polled, now);
        self.groups[account.group].tenant.charge(polled, now);
        let ticket = match again {
            Some(wake) => Some(self.wait(id, wake, now)),
            None => {
                self.put(id, now);
                None
            }
        };
        self.dispatch(now, woken);
        ticket
    }

    /// Gives up a ticket, whether it waits or has a slot. What is returned has to be dropped outside of any lock.
    pub fn cancel(&mut self, id: usize, ticket: Ticket, now: u64, woken: &mut Vec<W>) -> Option<W> {
        let cancelled = self.give_up(id, ticket);
        self.put(id, now);
        self.dispatch(now, woken);
        cancelled.map(|waiter| waiter.wake)
    }

    fn give_up(&mut self, id: usize, ticket: Ticket) -> Option<Waiter<W>> {
        if let Some(granted) = self.ungrant(ticket) {
            self.free();
            return Some(granted.waiter);
        }
        let waiting = &mut self.accounts[id].waiting;
        let at = waiting.binary_search_by_key(&ticket, |waiter| waiter.ticket).ok()?;
        waiting.remove(at)
    }

    /// Ends the throttling of those whose time has come, and gives the free slots to those who are next.
    pub fn dispatch(&mut self, now: u64, woken: &mut Vec<W>) {
        self.wake_throttled(now);
        while self.free > 0
            && let Some(group) = self.line.first()
            && let Some(id) = self.groups[group].line.first()
            && let Some(waiter) = self.accounts[id].waiting.pop_front()
        {
            self.free -= 1;
            self.pick(id);
            woken.push(waiter.wake.clone());
            self.granted.push(Granted { account: id, waiter, in_background: false });
            self.put(id, now);
        }
    }

    /// Returns the time when [`Self::dispatch`] must be called although nothing else happens; None for never.
    pub fn next_due(&self) -> Option<u64> {
        self.throttled.first().map(|(due, _)| *due)
    }

    pub fn usage(&self, id: usize, now: u64) -> Usage {
        self.accounts[id].tenant.usage(now)
    }

    /// Returns the usage of the group's accounts, with those that are gone, and the group's own throttling.
    pub fn group_usage(&self, id: usize, now: u64) -> Usage {
        let mut usage = self.groups[id].tenant.usage(now);
        for (_, account) in self.accounts.iter().filter(|(_, account)| account.group == id) {
            let of = account.tenant.usage(now);
            usage.throttled += of.throttled;
            usage.throttled_time += of.throttled_time;
        }
        usage
    }

    fn free(&mut self) {
        self.free += 1;
        debug_assert!(self.free <= self.slots, "a slot is given back twice");
    }

    fn ticket(&mut self) -> Ticket {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        ticket
    }

    /// Gives the account a slot, if it may have one before all who wait.
    fn pass(&mut self, id: usize, now: u64, in_background: bool) -> bool {
        self.wake_throttled(now);
        let is_next = self.is_open(id, now)
            && match self.free {
                0 => self.make_way(id, now, in_background),
                _ => self.line.is_empty(),
            };
        if is_next {
            self.free -= 1;
            self.pick(id);
        }
        is_next
    }

    fn waited(&mut self, id: usize, wait: u64) {
        let account = &mut self.accounts[id];
        account.tenant.waited(wait);
        self.groups[account.group].tenant.waited(wait);
    }

    fn wait(&mut self, id: usize, wake: W, now: u64) -> Ticket {
        let ticket = self.ticket();
        self.accounts[id].waiting.push_back(Waiter { ticket, since: now, wake });
        self.put(id, now);
        ticket
    }

    fn ungrant(&mut self, ticket: Ticket) -> Option<Granted<W>> {
        let at = self.granted.iter().position(|granted| granted.waiter.ticket == ticket)?;
        Some(self.granted.swap_remove(at))
    }

    /// Frees the untaken slot of whoever has had most, if the account would be next and has had less. One that asks in
    /// the background takes none of a poll under way: they are equals on their threads.
    fn make_way(&mut self, id: usize, now: u64, in_background: bool) -> bool {
        let of = |account: usize| {
            let account = &self.accounts[account];
            (account.group, self.groups[account.group].tenant.virtual_time(), account.tenant.virtual_time())
        };
        let may_lose = |at: &usize| !(in_background && self.granted[*at].in_background);
        let most = (0..self.granted.len()).filter(may_lose).max_by_key(|at| {
            let Granted { account, waiter, .. } = &self.granted[*at];
            let (_, group_time, time) = of(*account);
            (group_time, time, waiter.ticket)
        });
        let Some(at) = most else { return false };
        let account = &self.accounts[id];
        let group = &self.groups[account.group];
        let group_time = self.line.time(&group.tenant, self.credit);
        let time = group.line.time(&account.tenant, self.credit);
        let is_next = self.line.is_next(account.group, group_time)
            && group.line.is_next(id, time)
            // First come, first served.
            && account.waiting.is_empty();
        let (other_group, other_group_time, other_time) = of(self.granted[at].account);
        let had_less = if other_group == account.group { time < other_time } else { group_time < other_group_time };
        if !is_next || !had_less {
            return false;
        }
        let Granted { account: other, waiter, .. } = self.granted.swap_remove(at);
        self.free();
        let waiting = &mut self.accounts[other].waiting;
        waiting.insert(waiting.partition_point(|of| of.ticket < waiter.ticket), waiter);
        self.put(other, now);
        true
    }

    /// Reports whether no limit holds the account back.
    fn is_open(&mut self, id: usize, now: u64) -> bool {
        let account = &mut self.accounts[id];
        let group = &mut self.groups[account.group];
        account.tenant.closed_until(now).is_none() && group.tenant.closed_until(now).is_none()
    }

    fn pick(&mut self, id: usize) {
        let account = &mut self.accounts[id];
        let group = &mut self.groups[account.group];
        group.line.pick(&mut account.tenant, self.credit);
        self.line.pick(&mut group.tenant, self.credit);
    }

    /// Those whose throttling has ended come into their line.
    fn wake_throttled(&mut self, now: u64) {
        while let Some((due, who)) = self.throttled.first().copied().filter(|(due, _)| *due <= now) {
            match who {
                Who::Account(id) => self.put(id, now),
                Who::Group(id) => self.put_group(id, now),
            }
            debug_assert_ne!(self.throttled.first(), Some(&(due, who)), "it has another position");
        }
    }

    /// Brings an account and its group to their places, after any change.
    fn put(&mut self, id: usize, now: u64) {
        let account = &mut self.accounts[id];
        let group = account.group;
        let waits = !account.waiting.is_empty();
        let before = self.groups[group].line.put(id, &mut account.tenant, waits, self.credit, now);
        let after = account.tenant.position();
        self.note(Who::Account(id), before, after);
        self.put_group(group, now);
    }

    fn put_group(&mut self, id: usize, now: u64) {
        let group = &mut self.groups[id];
        let before = self.line.put(id, &mut group.tenant, !group.line.is_empty(), self.credit, now);
        let after = group.tenant.position();
        self.note(Who::Group(id), before, after);
    }

    fn note(&mut self, who: Who, before: Position, after: Position) {
        if before == after {
            return;
        }
        if let Position::Throttled(due) = before {
            self.throttled.remove(&(due, who));
        }
        if let Position::Throttled(due) = after {
            self.throttled.insert((due, who));
        }
    }
}

#[cfg(test)]
impl<W> State<W> {
    /// Free slots, waiters, accounts and groups.
    pub fn counts(&self) -> (usize, usize, usize, usize) {
        let waiting = self.accounts.iter().map(|(_, account)| account.waiting.len()).sum();
        (self.free, waiting, self.accounts.len(), self.groups.len())
    }

    /// Slots that are granted and not taken.
    pub fn untaken(&self) -> usize {
        self.granted.len()
    }
}
