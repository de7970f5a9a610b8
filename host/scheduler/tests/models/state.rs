//! Compares the pure state with a naive model, on random operations.
//!
//! The model keeps plain lists, and sorts and scans them. After every operation:
//!
//! - both grant slots to the same tickets in the same order: by virtual time of the group, then of
//!   the account, then first in first out;
//! - both take back a slot from the same ticket for the same ticket, also during a background poll;
//! - no more slots are granted than exist, and none is free while a waiter may have it;
//! - the next due time is the same.
//!
//! At the end, polled time, polls and waits are equal. Without new requests, every waiter gets a
//! slot as time passes, and all slots become free.
//!
//! A failing run prints its seed; `OPERETTA_SEED` repeats it.

use std::time::Duration;

use operetta_scheduler::{
    Share,
    state::{Bucket, State},
};
use rand::{
    Rng, SeedableRng,
    rngs::StdRng,
    seq::{IndexedMutRandom, IndexedRandom},
};

type Ticket = u64;

/// A group or an account.
struct Tenant {
    weight: u64,
    virtual_time: u128,
    bucket: Option<Bucket>,
    /// True if it was in its run queue at the last refresh.
    ready: bool,
    polled: u64,
    polls: u64,
    wait: u64,
}

impl Tenant {
    fn new(share: &Share, floor: u128, now: u64) -> Self {
        let bucket = share.cpu_limit.map(|limit| Bucket::new(limit, now));
        let weight = share.weight.into();
        Self {
            weight,
            virtual_time: floor,
            bucket,
            ready: false,
            polled: 0,
            polls: 0,
            wait: 0,
        }
    }

    fn set_share(&mut self, share: &Share, now: u64) {
        self.weight = share.weight.into();
        match (&mut self.bucket, share.cpu_limit) {
            (Some(bucket), Some(limit)) => bucket.set_limit(limit, now),
            (bucket, None) => *bucket = None,
            (bucket, Some(limit)) => *bucket = Some(Bucket::new(limit, now)),
        }
    }

    fn closed(&mut self, now: u64) -> Option<u64> {
        self.bucket.as_mut().and_then(|bucket| bucket.opens_at(now))
    }

    fn charge(&mut self, polled: u64, now: u64) {
        self.polled += polled;
        self.polls += 1;
        self.virtual_time += u128::from(polled.max(1) * 10_000 / self.weight);
        if let Some(bucket) = &mut self.bucket {
            bucket.charge(polled, now);
        }
    }

    /// Limits the saved time to the credit when the tenant enters its run queue.
    fn enter(&mut self, ready: bool, floor: u128, credit: u128) {
        if ready && !self.ready {
            self.virtual_time = self.virtual_time.max(floor.saturating_sub(credit));
        }
        self.ready = ready;
    }
}

struct Account {
    /// The id in the state.
    id: usize,
    group: usize,
    tenant: Tenant,
    waiting: Vec<(Ticket, u64)>,
}

struct Group {
    id: usize,
    tenant: Tenant,
    floor: u128,
}

#[derive(Clone, Copy)]
struct Grant {
    account: usize,
    ticket: Ticket,
    since: u64,
    /// True during a background poll with this slot.
    polled: bool,
}

struct Model {
    free: usize,
    /// The slots that are granted and not taken.
    granted: Vec<Grant>,
    credit: u128,
    floor: u128,
    groups: Vec<Group>,
    accounts: Vec<Account>,
}

impl Model {
    /// Updates which accounts and groups are in their run queues: those that are not throttled and
    /// have waiters.
    fn refresh(&mut self, now: u64) {
        let mut waits = vec![false; self.groups.len()];
        for account in &mut self.accounts {
            let ready = !account.waiting.is_empty() && account.tenant.closed(now).is_none();
            account
                .tenant
                .enter(ready, self.groups[account.group].floor, self.credit);
            waits[account.group] |= ready;
        }
        for (group, waits) in self.groups.iter_mut().zip(waits) {
            let ready = waits && group.tenant.closed(now).is_none();
            group.tenant.enter(ready, self.floor, self.credit);
        }
    }

    fn pick(&mut self, at: usize) {
        let account = &mut self.accounts[at];
        let group = &mut self.groups[account.group];
        if !account.tenant.ready {
            account.tenant.enter(true, group.floor, self.credit);
        }
        if !group.tenant.ready {
            group.tenant.enter(true, self.floor, self.credit);
        }
        group.floor = group.floor.max(account.tenant.virtual_time);
        self.floor = self.floor.max(group.tenant.virtual_time);
        self.free -= 1;
    }

    /// Returns the next account.
    fn first(&self) -> Option<usize> {
        let groups = self
            .groups
            .iter()
            .enumerate()
            .filter(|(_, group)| group.tenant.ready);
        let (group, _) = groups.min_by_key(|(_, group)| (group.tenant.virtual_time, group.id))?;
        let accounts = self.accounts.iter().enumerate();
        let accounts =
            accounts.filter(|(_, account)| account.group == group && account.tenant.ready);
        accounts
            .min_by_key(|(_, account)| (account.tenant.virtual_time, account.id))
            .map(|(at, _)| at)
    }

    fn dispatch(&mut self, now: u64) -> Vec<Ticket> {
        self.refresh(now);
        let mut given = Vec::new();
        while let Some(at) = self.first().filter(|_| self.free > 0) {
            self.pick(at);
            let (ticket, since) = self.accounts[at].waiting.remove(0);
            self.granted.push(Grant {
                account: at,
                ticket,
                since,
                polled: false,
            });
            given.push(ticket);
            self.refresh(now);
        }
        given
    }

    /// Takes a slot for an account if it has one at once. Returns the account and ticket that lose
    /// it, if any.
    fn try_take(
        &mut self,
        at: usize,
        now: u64,
        in_background: bool,
    ) -> Option<Option<(usize, Ticket)>> {
        self.refresh(now);
        let open = self.accounts[at].tenant.closed(now).is_none();
        let group = self.accounts[at].group;
        let open = open && self.groups[group].tenant.closed(now).is_none();
        if !open {
            return None;
        }
        let loser = if self.free > 0 {
            None
        } else {
            Some(self.slot_to_take_back(at, in_background)?)
        };
        if self.free > 0 && self.first().is_some() {
            return None;
        }
        if let Some(Grant {
            account,
            ticket,
            since,
            ..
        }) = loser
        {
            self.granted.retain(|other| other.ticket != ticket);
            self.accounts[account].waiting.push((ticket, since));
            self.accounts[account].waiting.sort_unstable();
            self.free += 1;
            self.refresh(now);
        }
        self.pick(at);
        self.refresh(now);
        Some(loser.map(|grant| (grant.account, grant.ticket)))
    }

    /// Returns the slot to take back for an account: that of the waiter that has had most time, if
    /// the account would be next and has had less.
    fn slot_to_take_back(&mut self, at: usize, in_background: bool) -> Option<Grant> {
        let may_lose = self
            .granted
            .iter()
            .filter(|grant| !in_background || !grant.polled);
        let most = may_lose.max_by_key(|grant| {
            let account = &self.accounts[grant.account];
            (
                self.groups[account.group].tenant.virtual_time,
                account.tenant.virtual_time,
                grant.ticket,
            )
        });
        let most = *most?;
        let account = &self.accounts[at];
        let group = &self.groups[account.group];
        let lifted = |tenant: &Tenant, floor: u128| match tenant.ready {
            true => tenant.virtual_time,
            false => tenant.virtual_time.max(floor.saturating_sub(self.credit)),
        };
        let group_time = lifted(&group.tenant, self.floor);
        let time = lifted(&account.tenant, group.floor);
        let is_before = |other: &Account| {
            let other_group = &self.groups[other.group];
            if other.group == account.group {
                (time, account.id) < (other.tenant.virtual_time, other.id)
            } else {
                (group_time, group.id) < (other_group.tenant.virtual_time, other_group.id)
            }
        };
        let ready = |other: &&Account| other.tenant.ready && self.groups[other.group].tenant.ready;
        let is_next =
            account.waiting.is_empty() && self.accounts.iter().filter(ready).all(is_before);
        let loser = &self.accounts[most.account];
        let had_less = if loser.group == account.group {
            time < loser.tenant.virtual_time
        } else {
            group_time < self.groups[loser.group].tenant.virtual_time
        };
        (is_next && had_less).then_some(most)
    }

    fn take(&mut self, ticket: Ticket, now: u64) {
        let at = self
            .granted
            .iter()
            .position(|grant| grant.ticket == ticket)
            .expect("it was granted a slot");
        let Grant { account, since, .. } = self.granted.swap_remove(at);
        let account = &mut self.accounts[account];
        account.tenant.wait += now - since;
        self.groups[account.group].tenant.wait += now - since;
    }

    fn begin_in_background(&mut self, ticket: Ticket, now: u64) {
        let grant = *self
            .granted
            .iter()
            .find(|grant| grant.ticket == ticket)
            .expect("it was granted a slot");
        self.take(ticket, now);
        self.granted.push(Grant {
            polled: true,
            ..grant
        });
    }

    /// Removes a ticket that waits or has a slot.
    fn remove(&mut self, at: usize, ticket: Ticket) {
        self.accounts[at]
            .waiting
            .retain(|(other, _)| *other != ticket);
        let before = self.granted.len();
        self.granted.retain(|grant| grant.ticket != ticket);
        self.free += before - self.granted.len();
    }

    fn next_due(&mut self, now: u64) -> Option<u64> {
        let mut due: Vec<u64> = Vec::new();
        let mut waits = vec![false; self.groups.len()];
        for account in self
            .accounts
            .iter_mut()
            .filter(|account| !account.waiting.is_empty())
        {
            match account.tenant.closed(now) {
                Some(at) => due.push(at),
                None => waits[account.group] = true,
            }
        }
        let groups = self
            .groups
            .iter_mut()
            .zip(waits)
            .filter(|(_, waits)| *waits);
        due.extend(groups.filter_map(|(group, _)| group.tenant.closed(now)));
        due.into_iter().min()
    }
}

/// The state, the model, and the tickets by their progress.
struct Run {
    random: StdRng,
    state: State<Ticket>,
    model: Model,
    now: u64,
    /// The account and ticket of each waiter.
    waiting: Vec<(usize, Ticket)>,
    /// The account and ticket of each slot that is granted and not taken.
    granted: Vec<(usize, Ticket)>,
    /// The account of each foreground poll.
    polling: Vec<usize>,
    /// The account and ticket of each background poll. The ticket is also in `granted` or
    /// `waiting`.
    in_background: Vec<(usize, Ticket)>,
    next_ticket: Ticket,
    slots: usize,
    /// The number of slots taken back.
    displaced: u64,
    /// The number of these that were taken back during a poll.
    preempted: u64,
}

impl Run {
    fn share(&mut self) -> Share {
        let weight = *[1, 50, 100, 100, 300, 10_000]
            .choose(&mut self.random)
            .expect("some");
        let cpu_limit = self
            .random
            .random_bool(0.3)
            .then(|| self.random.random_range(0.001..2.0));
        Share {
            weight,
            cpu_limit,
            concurrency: None,
        }
    }

    /// Moves the tickets that were granted a slot. `woken` are the state's, `given` the model's.
    fn move_granted(&mut self, woken: &[Ticket], given: &[Ticket]) {
        assert_eq!(woken, given);
        for ticket in given {
            let at = self
                .waiting
                .iter()
                .position(|(_, waiting)| waiting == ticket)
                .expect("it waited");
            self.granted.push(self.waiting.remove(at));
        }
    }

    fn want(&mut self, at: usize) {
        let id = self.model.accounts[at].id;
        let ticket = self.next_ticket;
        let mut woken = Vec::new();
        let has = self.state.want(id, || ticket, self.now, &mut woken);
        // Tenants whose throttling has ended are ahead of it.
        if let Some(loser) = self.model.try_take(at, self.now, false) {
            assert_eq!((has, woken.len()), (None, 0));
            self.polling.push(at);
            self.displace(loser);
            return;
        }
        self.next_ticket += 1;
        self.model.accounts[at].waiting.push((ticket, self.now));
        self.waiting.push((at, ticket));
        let given = self.model.dispatch(self.now);
        self.move_granted(&woken, &given);
        match has {
            Some(has) => assert!(has == ticket && !given.contains(&ticket)),
            None => {
                assert_eq!(
                    self.granted.pop_if(|(_, granted)| *granted == ticket),
                    Some((at, ticket))
                );
                self.model.take(ticket, self.now);
                self.polling.push(at);
            }
        }
    }

    fn displace(&mut self, loser: Option<(usize, Ticket)>) {
        let Some(loser) = loser else { return };
        self.granted.retain(|granted| *granted != loser);
        self.waiting.push(loser);
        self.displaced += 1;
        self.preempted += u64::from(self.in_background.contains(&loser));
    }

    fn want_in_background(&mut self, at: usize) {
        let id = self.model.accounts[at].id;
        let ticket = self.next_ticket;
        let mut woken = Vec::new();
        let (named, has) = self
            .state
            .want_in_background(id, ticket, self.now, &mut woken);
        assert_eq!(named, ticket);
        self.next_ticket += 1;
        if let Some(loser) = self.model.try_take(at, self.now, true) {
            assert_eq!((has, woken.len()), (true, 0));
            self.displace(loser);
            self.model.granted.push(Grant {
                account: at,
                ticket,
                since: self.now,
                polled: true,
            });
            self.granted.push((at, ticket));
            self.in_background.push((at, ticket));
            return;
        }
        self.model.accounts[at].waiting.push((ticket, self.now));
        self.waiting.push((at, ticket));
        let given = self.model.dispatch(self.now);
        self.move_granted(&woken, &given);
        assert_eq!(has, given.contains(&ticket));
        if has {
            self.model.begin_in_background(ticket, self.now);
            self.in_background.push((at, ticket));
        }
    }

    /// Ends a foreground poll, or the background poll of this ticket.
    fn done(&mut self, at: usize, in_background: Option<Ticket>, again: bool) {
        let polled = self.random.random_range(0..3_000_000);
        let id = self.model.accounts[at].id;
        let ticket = self.next_ticket;
        let mut woken = Vec::new();
        let waits = again.then_some(ticket);
        let had = match in_background {
            None => self.state.done(id, polled, waits, self.now, &mut woken),
            Some(ended) => {
                self.state
                    .done_in_background(id, (ended, polled), waits, self.now, &mut woken)
            }
        };
        assert_eq!(had, waits);
        let model = &mut self.model;
        match in_background {
            None => model.free += 1,
            Some(ended) => {
                model.remove(at, ended);
                self.waiting.retain(|(_, other)| *other != ended);
                self.granted.retain(|(_, other)| *other != ended);
            }
        }
        model.accounts[at].tenant.charge(polled, self.now);
        let group = model.accounts[at].group;
        model.groups[group].tenant.charge(polled, self.now);
        if again {
            self.next_ticket += 1;
            model.accounts[at].waiting.push((ticket, self.now));
            self.waiting.push((at, ticket));
        }
        let given = self.model.dispatch(self.now);
        self.move_granted(&woken, &given);
    }

    fn cancel(&mut self, at: usize, ticket: Ticket) {
        let mut woken = Vec::new();
        let dropped = self
            .state
            .cancel(self.model.accounts[at].id, ticket, self.now, &mut woken);
        assert_eq!(dropped, Some(ticket));
        self.model.remove(at, ticket);
        let given = self.model.dispatch(self.now);
        self.move_granted(&woken, &given);
    }

    fn set_share(&mut self) {
        let share = self.share();
        let mut woken = Vec::new();
        if self.random.random_bool(0.7) {
            let account = self
                .model
                .accounts
                .choose_mut(&mut self.random)
                .expect("some");
            account.tenant.set_share(&share, self.now);
            self.state
                .set_share(account.id, &share, self.now, &mut woken);
        } else {
            let group = self
                .model
                .groups
                .choose_mut(&mut self.random)
                .expect("some");
            group.tenant.set_share(&share, self.now);
            self.state
                .set_group_share(group.id, &share, self.now, &mut woken);
        }
        let given = self.model.dispatch(self.now);
        self.move_granted(&woken, &given);
    }

    fn pass(&mut self, time: u64) {
        let mut woken = Vec::new();
        self.now += time;
        self.state.dispatch(self.now, &mut woken);
        let given = self.model.dispatch(self.now);
        self.move_granted(&woken, &given);
    }

    fn compare(&mut self) {
        let (free, waiting, ..) = self.state.counts();
        assert_eq!((free, waiting), (self.model.free, self.waiting.len()));
        assert_eq!(self.state.untaken(), self.granted.len());
        assert_eq!(free + self.granted.len() + self.polling.len(), self.slots);
        assert!(
            free == 0 || self.model.first().is_none(),
            "a slot is free while an account is ready"
        );
        assert_eq!(self.state.next_due(), self.model.next_due(self.now));
    }

    fn compare_usage(&self) {
        let time = Duration::from_nanos;
        for account in &self.model.accounts {
            let usage = self.state.usage(account.id, self.now);
            let tenant = &account.tenant;
            assert_eq!(
                (usage.polled, usage.polls, usage.wait),
                (time(tenant.polled), tenant.polls, time(tenant.wait))
            );
        }
        for group in &self.model.groups {
            let usage = self.state.group_usage(group.id, self.now);
            let tenant = &group.tenant;
            assert_eq!(
                (usage.polled, usage.polls, usage.wait),
                (time(tenant.polled), tenant.polls, time(tenant.wait))
            );
        }
    }

    fn step(&mut self) {
        let account = self.random.random_range(0..self.model.accounts.len());
        match self.random.random_range(0..100) {
            0..25 => self.want(account),
            25..35 => self.want_in_background(account),
            35..60 if !self.polling.is_empty() => {
                let at = self.random.random_range(0..self.polling.len());
                let at = self.polling.swap_remove(at);
                let again = self.random.random_bool(0.6);
                self.done(at, None, again);
            }
            60..70 if !self.in_background.is_empty() => {
                let at = self.random.random_range(0..self.in_background.len());
                let (at, ticket) = self.in_background.swap_remove(at);
                let again = self.random.random_bool(0.6);
                self.done(at, Some(ticket), again);
            }
            70..80 => drop(self.take()),
            80..84 => {
                if let Some((at, ticket)) = self.one_not_polled(false) {
                    self.waiting.retain(|(_, other)| *other != ticket);
                    self.cancel(at, ticket);
                }
            }
            84..86 => {
                if let Some((at, ticket)) = self.one_not_polled(true) {
                    self.granted.retain(|(_, other)| *other != ticket);
                    self.cancel(at, ticket);
                }
            }
            86..88 => self.set_share(),
            _ => {
                let time = self.random.random_range(0..5_000_000);
                self.pass(time);
            }
        }
        while self.random.random_bool(0.8) && self.take() {}
    }

    /// Picks a ticket that has a slot or waits for one, and is not being polled.
    fn one_not_polled(&mut self, has_slot: bool) -> Option<(usize, Ticket)> {
        let all = if has_slot {
            &self.granted
        } else {
            &self.waiting
        };
        let idle: Vec<_> = all
            .iter()
            .filter(|entry| !self.in_background.contains(entry))
            .copied()
            .collect();
        idle.choose(&mut self.random).copied()
    }

    /// Begins a poll with a granted slot, if there is one, in the foreground or background.
    fn take(&mut self) -> bool {
        let Some((at, ticket)) = self.one_not_polled(true) else {
            return false;
        };
        let id = self.model.accounts[at].id;
        if self.random.random_bool(0.1) {
            assert!(self.state.begin_in_background(id, ticket, self.now));
            self.model.begin_in_background(ticket, self.now);
            self.in_background.push((at, ticket));
            return true;
        }
        assert!(self.state.take(id, ticket, self.now));
        self.granted.retain(|(_, other)| *other != ticket);
        self.model.take(ticket, self.now);
        if let Some((at, ticket)) = self.waiting.last() {
            let id = self.model.accounts[*at].id;
            assert!(!self.state.take(id, *ticket, self.now), "it still waits");
            assert!(
                !self.state.begin_in_background(id, *ticket, self.now),
                "it still waits"
            );
        }
        self.polling.push(at);
        true
    }
}

fn run(seed: u64) -> (u64, u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let slots = random.random_range(1..6);
    let state = State::new(slots);
    let credit = 5_000_000 * 100 * slots as u128;
    let model = Model {
        free: slots,
        granted: Vec::new(),
        credit,
        floor: 0,
        groups: Vec::new(),
        accounts: Vec::new(),
    };
    let mut run = Run {
        random,
        state,
        model,
        now: 0,
        waiting: Vec::new(),
        granted: Vec::new(),
        polling: Vec::new(),
        in_background: Vec::new(),
        next_ticket: 0,
        slots,
        displaced: 0,
        preempted: 0,
    };
    for group in 0..run.random.random_range(1..5) {
        let share = run.share();
        let id = run.state.add_group(&share, 0);
        run.model.groups.push(Group {
            id,
            tenant: Tenant::new(&share, 0, 0),
            floor: 0,
        });
        for _ in 0..run.random.random_range(1..5) {
            let share = run.share();
            let id = run.state.add_account(id, &share, 0);
            let tenant = Tenant::new(&share, 0, 0);
            run.model.accounts.push(Account {
                id,
                group,
                tenant,
                waiting: Vec::new(),
            });
        }
    }
    for _ in 0..2000 {
        run.step();
        run.compare();
    }
    run.compare_usage();
    while !(run.waiting.is_empty() && run.granted.is_empty() && run.polling.is_empty()) {
        while run.take() {}
        while let Some(at) = run.polling.pop() {
            run.done(at, None, false);
        }
        while let Some((at, ticket)) = run.in_background.pop() {
            run.done(at, Some(ticket), false);
        }
        if run.granted.is_empty() && !run.waiting.is_empty() {
            let due = run
                .state
                .next_due()
                .expect("waiters without a slot are throttled");
            run.pass(due.saturating_sub(run.now));
        }
        run.compare();
    }
    run.compare_usage();
    assert_eq!((run.state.counts().0, run.state.next_due()), (slots, None));
    run.model
        .accounts
        .iter()
        .for_each(|account| run.state.remove_account(account.id));
    run.model
        .groups
        .iter()
        .for_each(|group| run.state.remove_group(group.id));
    assert_eq!(run.state.counts(), (slots, 0, 0, 0));
    (run.displaced, run.preempted)
}

#[test]
fn random_operations_match_a_naive_model() {
    let seed = std::env::var("OPERETTA_SEED")
        .ok()
        .map(|text| text.parse().expect("OPERETTA_SEED is a number"));
    let runs = if seed.is_some() { 1 } else { 100 };
    let first = seed.unwrap_or_else(rand::random);
    let mut displaced = 0;
    let mut preempted = 0;
    for at in 0..runs {
        let seed = u64::wrapping_add(first, at);
        println!("OPERETTA_SEED={seed}");
        let counts = run(seed);
        displaced += counts.0;
        preempted += counts.1;
    }
    let enough = displaced - preempted > 30 && preempted > 30;
    assert!(
        runs == 1 || enough,
        "too few slots taken back to test that: {displaced}, {preempted} during a poll"
    );
}
