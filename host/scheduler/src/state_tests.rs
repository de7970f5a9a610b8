//! Tests of the scheduler's rules on simulated slots, guests and time.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use crate::{Share, Usage, state::State};

pub(super) const US: u64 = 1_000;
pub(super) const MS: u64 = 1_000_000;
pub(super) const SECOND: u64 = 1_000 * MS;

/// The behaviour of a guest.
#[derive(Clone, Copy)]
pub(super) struct Guest {
    pub account: usize,
    /// The duration of each poll.
    pub poll: u64,
    /// The wait between two polls; zero for a guest that spins.
    pub rest: u64,
}

/// An event. Simultaneous events are handled in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Polled(usize),
    Wants(usize),
    /// A task that was granted a slot is on a thread.
    OnThread(usize),
}

pub(super) struct Host {
    pub state: State<usize>,
    now: u64,
    guests: Vec<Guest>,
    /// The ticket of each guest that waits.
    tickets: Vec<Option<u64>>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    /// The time from a wake-up until the task is on a thread.
    pub late: u64,
}

impl Host {
    pub fn new(slots: usize) -> Self {
        let state = State::new(slots);
        Self {
            state,
            now: 0,
            guests: Vec::new(),
            tickets: Vec::new(),
            events: BinaryHeap::new(),
            late: 0,
        }
    }

    /// Adds an account in its own group.
    pub fn account(&mut self, share: Share) -> usize {
        let group = self.state.add_group(&Share::default(), self.now);
        self.state.add_account(group, &share, self.now)
    }

    /// Adds an account in its own group, which has this weight.
    fn tenant(&mut self, weight: u32) -> usize {
        let group = self.state.add_group(&weighing(weight), self.now);
        self.state.add_account(group, &Share::default(), self.now)
    }

    /// Starts guests now.
    pub fn start(&mut self, count: usize, guest: Guest) {
        for _ in 0..count {
            self.events
                .push(Reverse((self.now, Event::Wants(self.guests.len()))));
            self.guests.push(guest);
            self.tickets.push(None);
        }
    }

    pub fn spin(&mut self, count: usize, account: usize) {
        self.start(
            count,
            Guest {
                account,
                poll: MS,
                rest: 0,
            },
        );
    }

    pub fn run(&mut self, time: u64) {
        let end = self.now + time;
        loop {
            let next = self.events.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
            let due = self.state.next_due().unwrap_or(u64::MAX);
            if next.min(due) > end {
                break;
            }
            self.now = next.min(due);
            let mut woken = Vec::new();
            if due < next {
                self.state.dispatch(self.now, &mut woken);
            } else if let Some(Reverse((_, event))) = self.events.pop() {
                self.handle(event, &mut woken);
            }
            for at in woken {
                if self.late > 0 {
                    self.events
                        .push(Reverse((self.now + self.late, Event::OnThread(at))));
                } else {
                    self.on_thread(at);
                }
            }
        }
        self.now = end;
    }

    /// Runs for this time, and returns for how long the account's guests were polled in it.
    fn polled_in_next(&mut self, time: u64, account: usize) -> Duration {
        let before = self.usage(account).polled;
        self.run(time);
        self.usage(account).polled - before
    }

    /// Takes the only slot as guest 0, and returns the tickets of guests 1 to 3, which wait for it.
    fn three_waiters(&mut self, account: usize) -> Vec<u64> {
        let mut woken = Vec::new();
        assert_eq!(self.state.want(account, || 0, 0, &mut woken), None);
        let tickets = (1..4)
            .filter_map(|at| self.state.want(account, || at, 0, &mut woken))
            .collect();
        assert!(woken.is_empty(), "{woken:?}");
        tickets
    }

    /// Takes the granted slot, unless it was taken back meanwhile.
    fn on_thread(&mut self, at: usize) {
        let Some(ticket) = self.tickets[at] else {
            return;
        };
        if self.state.take(self.guests[at].account, ticket, self.now) {
            self.tickets[at] = None;
            self.polls(at);
        }
    }

    fn handle(&mut self, event: Event, woken: &mut Vec<usize>) {
        match event {
            Event::OnThread(at) => self.on_thread(at),
            Event::Wants(at) => {
                self.tickets[at] = self
                    .state
                    .want(self.guests[at].account, || at, self.now, woken);
                if self.tickets[at].is_none() {
                    self.polls(at);
                }
            }
            Event::Polled(at) => {
                let Guest {
                    account,
                    poll,
                    rest,
                } = self.guests[at];
                let again = (rest == 0).then_some(at);
                self.tickets[at] = self.state.done(account, poll, again, self.now, woken);
                if rest > 0 {
                    self.events
                        .push(Reverse((self.now + rest, Event::Wants(at))));
                }
            }
        }
    }

    fn polls(&mut self, at: usize) {
        self.events.push(Reverse((
            self.now + self.guests[at].poll,
            Event::Polled(at),
        )));
    }

    pub fn usage(&self, account: usize) -> Usage {
        self.state.usage(account, self.now)
    }
}

fn weighing(weight: u32) -> Share {
    Share {
        weight,
        ..Share::default()
    }
}

pub(super) fn limited(limit: f64) -> Share {
    Share {
        cpu_limit: Some(limit),
        ..Share::default()
    }
}

/// Asserts that a duration is as expected within 5 %.
#[track_caller]
pub(super) fn assert_about(is: Duration, expected: f64) {
    let is = is.as_secs_f64();
    assert!(
        (is - expected).abs() <= expected * 0.05,
        "{is} is not about {expected}"
    );
}

#[test]
fn weights_hold_for_any_slots_accounts_and_workers() {
    let cases: [(&[u32], usize, usize); 8] = [
        (&[100, 100], 1, 1),
        (&[100, 300], 1, 1),
        (&[1, 100], 1, 3),
        (&[100, 200, 700], 1, 1),
        (&[100, 200, 300], 2, 1),
        (&[100, 200, 700], 4, 20),
        (&[10, 20, 30, 40, 50, 60, 70, 80, 90, 100], 1, 2),
        (&[10, 20, 30, 40, 50, 60, 70, 80, 90, 100], 8, 16),
    ];
    for (weights, slots, workers) in cases {
        // Among the accounts of a group, and among groups.
        for groups in [false, true] {
            let mut host = Host::new(slots);
            let group = host.state.add_group(&Share::default(), 0);
            let mut account = |weight| match groups {
                true => host.tenant(weight),
                false => host.state.add_account(group, &weighing(weight), 0),
            };
            let accounts: Vec<_> = weights.iter().map(|weight| account(*weight)).collect();
            // Later accounts have more workers, which must not help them.
            for (at, account) in accounts.iter().enumerate() {
                host.spin(workers * (1 + at), *account);
            }
            host.run(20 * SECOND);
            let sum: u32 = weights.iter().sum();
            for (account, weight) in accounts.iter().zip(weights) {
                let share = f64::from(*weight) / f64::from(sum);
                assert_about(host.usage(*account).polled, 20.0 * slots as f64 * share);
            }
        }
    }
}

#[test]
fn accounts_with_long_polls_are_polled_less_often() {
    let mut host = Host::new(1);
    let [long, short] = [(); 2].map(|()| host.account(Share::default()));
    host.start(
        1,
        Guest {
            account: long,
            poll: 20 * MS,
            rest: 0,
        },
    );
    host.start(
        1,
        Guest {
            account: short,
            poll: 100 * US,
            rest: 0,
        },
    );
    host.run(10 * SECOND);
    assert_about(host.usage(long).polled, 5.0);
    assert_about(host.usage(short).polled, 5.0);
}

#[test]
fn tenant_with_fifty_plugins_gets_one_share() {
    for slots in [1, 2] {
        let mut host = Host::new(slots);
        let alone = host.account(Share::default());
        let crowd = host.state.add_group(&Share::default(), 0);
        let accounts: Vec<_> = (0..50)
            .map(|_| host.state.add_account(crowd, &Share::default(), 0))
            .collect();
        host.spin(10, alone);
        accounts.iter().for_each(|account| host.spin(4, *account));
        host.run(20 * SECOND);
        assert_about(host.usage(alone).polled, 10.0 * slots as f64);
        assert_about(
            host.state.group_usage(crowd, host.now).polled,
            10.0 * slots as f64,
        );
        for account in accounts {
            assert_about(host.usage(account).polled, 0.2 * slots as f64);
        }
    }
}

#[test]
fn quiet_account_waits_one_noisy_poll_at_most() {
    let mut host = Host::new(2);
    let quiet = host.account(Share::default());
    for _ in 0..3 {
        let noisy = host.account(Share::default());
        host.spin(100, noisy);
    }
    host.run(SECOND);
    host.start(
        1,
        Guest {
            account: quiet,
            poll: 50 * US,
            rest: 10 * MS,
        },
    );
    host.run(10 * SECOND);
    let usage = host.usage(quiet);
    assert!(usage.wait_max <= Duration::from_millis(1), "{usage:?}");
    assert!(usage.polls >= 10 * 1000 / 12, "{usage:?}");
}

#[test]
fn returning_account_is_served_next() {
    let mut host = Host::new(1);
    let [idle, busy] = [(); 2].map(|()| host.account(Share::default()));
    host.spin(5, busy);
    host.run(10 * SECOND);
    host.spin(5, idle);
    host.run(7 * MS);
    assert!(
        host.usage(idle).polled >= Duration::from_millis(5),
        "its credit comes first"
    );
    assert_about(host.polled_in_next(10 * SECOND, idle), 5.0);
}

#[test]
fn unused_share_expires() {
    let mut host = Host::new(2);
    let [single, busy] = [10_000, 1].map(|weight| host.tenant(weight));
    host.spin(1, single);
    host.spin(10, busy);
    host.run(10 * SECOND);
    assert_about(host.usage(single).polled, 10.0);
    // From now on it can use both slots, with equal weights. Its unused share of the past does not
    // count.
    host.state
        .set_group_share(0, &Share::default(), host.now, &mut Vec::new());
    host.state
        .set_group_share(1, &Share::default(), host.now, &mut Vec::new());
    host.spin(9, single);
    assert_about(host.polled_in_next(10 * SECOND, single), 10.0);
}

#[test]
fn new_account_starts_without_credit_or_debt() {
    let mut host = Host::new(1);
    let old = host.account(Share::default());
    host.spin(1, old);
    host.run(10 * SECOND);
    let new = host.account(Share::default());
    host.spin(1, new);
    host.run(10 * SECOND);
    assert_about(host.usage(new).polled, 5.0);
}

#[test]
fn limit_holds_and_throttling_is_counted() {
    for (slots, workers, limit) in [(1, 1, 0.25), (2, 8, 0.25), (2, 8, 1.5), (4, 1, 0.001)] {
        let mut host = Host::new(slots);
        let account = host.account(limited(limit));
        host.spin(workers, account);
        host.run(100 * SECOND);
        let usage = host.usage(account);
        assert_about(usage.polled, 100.0 * limit + 0.1);
        assert!(usage.throttled > 50, "{usage:?}");
        assert!(
            usage.throttled_time <= usage.wait + Duration::from_secs(2),
            "{usage:?}"
        );
        if workers == 1 {
            assert_about(usage.throttled_time, 100.0 - usage.polled.as_secs_f64());
        }
    }
}

#[test]
fn group_limit_covers_all_its_accounts() {
    let mut host = Host::new(2);
    let group = host.state.add_group(&limited(0.5), 0);
    let accounts = [100, 300].map(|weight| host.state.add_account(group, &weighing(weight), 0));
    let other = host.account(Share::default());
    accounts.iter().for_each(|account| host.spin(4, *account));
    host.spin(4, other);
    host.run(20 * SECOND);
    assert_about(host.usage(accounts[0]).polled, 2.5);
    assert_about(host.usage(accounts[1]).polled, 7.5);
    assert_about(host.usage(other).polled, 30.0);
    let usage = host.state.group_usage(group, host.now);
    assert!(
        usage.throttled > 0 && usage.throttled_time > Duration::from_secs(5),
        "{usage:?}"
    );
    assert_eq!(
        host.usage(accounts[0]).throttled,
        0,
        "it was the group's limit"
    );
}

#[test]
fn other_accounts_get_time_left_by_limited_one() {
    let mut host = Host::new(1);
    let [limited, free] = [limited(0.1), Share::default()].map(|share| host.account(share));
    host.spin(10, limited);
    host.spin(1, free);
    host.run(20 * SECOND);
    assert_about(host.usage(limited).polled, 2.1);
    assert_about(host.usage(free).polled, 17.9);
}

#[test]
fn limit_can_be_set_changed_and_removed() {
    let mut host = Host::new(1);
    let account = host.account(Share::default());
    host.spin(3, account);
    let mut before = Duration::ZERO;
    for (share, expected) in [
        (Share::default(), 10.0),
        (limited(0.25), 2.6),
        (limited(0.75), 7.5),
        (limited(0.01), 0.1),
        (Share::default(), 10.0),
    ] {
        let mut woken = Vec::new();
        host.state.set_share(account, &share, host.now, &mut woken);
        for at in woken {
            assert!(
                host.tickets[at]
                    .take()
                    .is_some_and(|ticket| host.state.take(account, ticket, host.now))
            );
            host.polls(at);
        }
        host.run(10 * SECOND);
        let polled = host.usage(account).polled;
        assert_about(polled - before, expected);
        before = polled;
    }
}

#[test]
fn cancelled_ticket_keeps_others_order() {
    let mut host = Host::new(1);
    let account = host.account(Share::default());
    let tickets = host.three_waiters(account);
    let state = &mut host.state;
    let mut woken = Vec::new();
    assert_eq!(state.cancel(account, tickets[1], MS, &mut woken), Some(2));
    assert!(woken.is_empty());
    state.done(account, MS, None, MS, &mut woken);
    state.done(account, MS, None, MS, &mut woken);
    assert_eq!(woken, [1, 3]);
}

#[test]
fn cancelled_grant_goes_to_next_waiter() {
    let mut host = Host::new(1);
    let account = host.account(Share::default());
    let tickets = host.three_waiters(account);
    let state = &mut host.state;
    let mut woken = Vec::new();
    state.done(account, MS, None, MS, &mut woken);
    assert_eq!(woken, [1]);
    assert_eq!(state.cancel(account, tickets[0], MS, &mut woken), Some(1));
    assert_eq!(woken, [1, 2]);
    let mut take = |at: usize| state.take(account, tickets[at], MS);
    assert!(take(1) && !take(0) && !take(2));
    assert!(!take(1), "a slot is taken once");
    state.done(account, MS, None, 2 * MS, &mut woken);
    state.cancel(account, tickets[2], 2 * MS, &mut woken);
    assert_eq!(state.counts(), (1, 0, 1, 1));
}

#[test]
fn throttling_ends_with_the_last_waiter() {
    let mut host = Host::new(1);
    let account = host.account(limited(0.25));
    let state = &mut host.state;
    let mut woken = Vec::new();
    assert_eq!(state.want(account, || 0, 0, &mut woken), None);
    assert_eq!(
        state.done(account, 200 * MS, None, 200 * MS, &mut woken),
        None
    );
    assert_eq!(state.next_due(), None, "there are no waiters");
    let ticket = state
        .want(account, || 1, 200 * MS, &mut woken)
        .expect("over its limit");
    assert_eq!(
        state.next_due(),
        Some(600 * MS + 1),
        "there are 100 ms of debt"
    );
    assert_eq!(state.cancel(account, ticket, 300 * MS, &mut woken), Some(1));
    assert_eq!((state.next_due(), woken.len()), (None, 0));
    let usage = state.usage(account, SECOND);
    assert_eq!(
        (usage.throttled, usage.throttled_time),
        (1, Duration::from_millis(100))
    );
    state.remove_account(account);
    assert_eq!(
        state.group_usage(0, SECOND).throttled,
        1,
        "the group keeps the usage"
    );
    state.remove_group(0);
    assert_eq!(state.counts(), (1, 0, 0, 0));
}
