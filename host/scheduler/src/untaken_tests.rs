//! Tests of slots that are taken back from a woken task that is not on a thread yet.

use std::time::Duration;

use crate::{
    Share,
    state::State,
    state_tests::{Guest, Host, MS, SECOND, US, assert_about, limited},
};

/// A host whose only slot is granted, but not taken, to a guest of an account that has had much
/// time.
struct Late {
    state: State<usize>,
    noisy: usize,
    /// The tickets of the guest that has the slot, and of one that waits behind it.
    tickets: [u64; 2],
    now: u64,
}

impl Late {
    /// Creates a host with idle accounts of these shares, each in its own group.
    fn new<const N: usize>(idle: [Share; N]) -> (Self, [usize; N]) {
        let mut state = State::new(1);
        let woken = &mut Vec::new();
        let now = SECOND;
        let idle = idle.map(|share| {
            let group = state.add_group(&Share::default(), 0);
            state.add_account(group, &share, 0)
        });
        let group = state.add_group(&Share::default(), 0);
        let noisy = state.add_account(group, &Share::default(), 0);
        assert_eq!(state.want(noisy, || 0, 0, woken), None);
        let first = state
            .want(noisy, || 1, 0, woken)
            .expect("the only slot is taken");
        let second = state
            .done(noisy, SECOND, Some(2), now, woken)
            .expect("it asks again");
        assert_eq!(*woken, [1], "the slot is granted");
        (
            Self {
                state,
                noisy,
                tickets: [first, second],
                now,
            },
            idle,
        )
    }

    fn take(&mut self, at: usize) -> bool {
        self.state.take(self.noisy, self.tickets[at], self.now)
    }

    /// Asks for a slot, and reports whether the account has one at once.
    fn gets_slot(&mut self, account: usize) -> bool {
        let mut woken = Vec::new();
        let ticket = self.state.want(account, || 9, self.now, &mut woken);
        assert!(woken.is_empty(), "the caller needs no wake-up");
        ticket.is_none()
    }
}

#[test]
fn underserved_account_polls_at_once() {
    let (mut late, [quiet]) = Late::new([Share::default()]);
    assert!(late.gets_slot(quiet));
    assert!(!late.take(0) && !late.take(1), "the slot was taken back");
    let mut woken = Vec::new();
    late.now += MS;
    assert_eq!(
        late.state.done(quiet, 50 * US, None, late.now, &mut woken),
        None
    );
    assert_eq!(woken, [1], "the first waiter is woken again");
    late.now += MS;
    assert!(!late.take(1) && late.take(0));
    assert_eq!(
        late.state.usage(late.noisy, late.now).wait,
        Duration::from_millis(1002),
        "since it first asked"
    );
    assert_eq!(late.state.usage(quiet, late.now).wait, Duration::ZERO);
}

#[test]
fn new_and_limited_accounts_wait_their_turn() {
    let (mut late, [used_up]) = Late::new([limited(0.001)]);
    let new_group = late.state.add_group(&Share::default(), late.now);
    let new_account = late
        .state
        .add_account(new_group, &Share::default(), late.now);
    let noisy = late.noisy;
    assert!(!late.gets_slot(new_account) && !late.gets_slot(noisy));
    // It exceeds its limit with the slot that it gets, and is then idle.
    assert!(late.gets_slot(used_up));
    late.state
        .done(used_up, 200 * MS, None, late.now, &mut Vec::new());
    late.now += SECOND;
    assert!(!late.gets_slot(used_up));
    assert!(late.state.next_due().is_some(), "it is throttled");
}

#[test]
fn keeps_slot_that_a_thread_has_taken() {
    let (mut late, [quiet]) = Late::new([Share::default()]);
    assert!(late.take(0));
    assert!(!late.gets_slot(quiet));
}

#[test]
fn overtaking_respects_own_account_and_waiters() {
    for own in [true, false] {
        let (mut late, [poor, other]) = Late::new([limited(0.001), Share::default()]);
        let heavy = Share {
            weight: 10_000,
            ..Share::default()
        };
        let mut woken = Vec::new();
        late.state.set_group_share(0, &heavy, late.now, &mut woken);
        for (account, polled) in [(poor, 101 * MS), (other, 2 * MS)] {
            assert!(late.gets_slot(account));
            late.state
                .done(account, polled, None, late.now, &mut Vec::new());
        }
        assert!(!late.gets_slot(poor), "it is over its limit");
        late.state
            .set_share(poor, &Share::default(), late.now, &mut woken);
        assert!(woken.is_empty(), "it waits for the slot");
        assert!(!late.gets_slot(if own { poor } else { other }));
    }
}

#[test]
fn dropped_yielder_leaves_the_next_its_turn() {
    let (mut late, [quiet]) = Late::new([Share::default()]);
    assert!(late.gets_slot(quiet));
    let mut woken = Vec::new();
    assert_eq!(
        late.state
            .cancel(late.noisy, late.tickets[0], late.now, &mut woken),
        Some(1)
    );
    assert!(woken.is_empty());
    late.state.done(quiet, US, None, late.now, &mut woken);
    assert_eq!(woken, [2]);
    assert!(late.take(1));
    late.state.done(late.noisy, MS, None, late.now, &mut woken);
    assert_eq!(late.state.counts(), (1, 0, 2, 2));
}

#[test]
fn yielders_keep_their_order() {
    let slots = 3;
    let mut woken = Vec::new();
    let mut state = State::new(slots);
    let [quiet, noisy] = [(); 2].map(|()| {
        let group = state.add_group(&Share::default(), 0);
        state.add_account(group, &Share::default(), 0)
    });
    (0..slots).for_each(|at| assert_eq!(state.want(noisy, || at, 0, &mut woken), None));
    let _tickets: Vec<_> = (1..6)
        .map(|at| state.want(noisy, || at, 0, &mut woken))
        .collect();
    (0..slots).for_each(|_| assert_eq!(state.done(noisy, SECOND, None, SECOND, &mut woken), None));
    assert_eq!(woken, [1, 2, 3]);
    (0..slots).for_each(|_| assert_eq!(state.want(quiet, || 9, SECOND, &mut woken), None));
    assert_eq!((state.untaken(), state.counts().1), (0, 5));
    (0..slots).for_each(|_| assert_eq!(state.done(quiet, US, None, SECOND, &mut woken), None));
    assert_eq!(woken, [1, 2, 3, 1, 2, 3]);
}

#[test]
fn eager_account_gets_only_its_share() {
    for (guests, poll, rest) in [(50, 100 * US, 100 * US), (500, 10 * US, MS), (4, MS, US)] {
        let mut host = Host::new(2);
        host.late = 300 * US;
        let [asking, woken] = [(); 2].map(|()| host.account(Share::default()));
        host.spin(20, woken);
        host.start(
            guests,
            Guest {
                account: asking,
                poll,
                rest,
            },
        );
        host.run(10 * SECOND);
        let asking = host.usage(asking).polled;
        let woken = host.usage(woken).polled;
        assert_about(woken, asking.as_secs_f64());
        assert!(woken > Duration::from_millis(500), "{woken:?}");
    }
}
