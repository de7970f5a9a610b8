//! Demotion: a plugin whose polls hold a thread for long runs in the background.

use std::sync::atomic::{AtomicU64, Ordering};

/// The allowed time of a poll, in nanoseconds: three quarters of a turn of a guest that spins, and several times the
/// duration of a reconcile that reads an object and writes it.
const POLL: u64 = 750_000;

/// The most that one poll counts, however long it was: the machine may have stopped the thread.
const MOST_AT_ONCE: u64 = 1_000_000;

/// The amount that each reconcile forgives.
const FORGIVEN: u64 = 50_000;

/// Above this an account is demoted: it takes three of the longest polls, or some ten turns of a guest that spins.
const SUSPECT: u64 = 2 * MOST_AT_ONCE;

/// One that spins is demoted for a hundred reconciles more.
const MOST: u64 = SUSPECT + 100 * FORGIVEN;

/// By how many nanoseconds an account's polls took longer than they may, less what is forgiven since.
#[derive(Debug, Default)]
pub struct Demotion(AtomicU64);

impl Demotion {
    /// A poll has taken so many nanoseconds.
    pub fn polled(&self, nanos: u64) {
        let longer = nanos.saturating_sub(POLL).min(MOST_AT_ONCE);
        if longer > 0 {
            self.change(|of| of.saturating_add(longer).min(MOST));
        }
    }

    /// A reconcile begins; returns whether it is a demoted's.
    pub fn begin(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0 && self.change(|of| of.saturating_sub(FORGIVEN)) > SUSPECT
    }

    /// Reports whether the account is demoted now.
    pub fn is_demoted(&self) -> bool {
        self.0.load(Ordering::Relaxed) > SUSPECT
    }

    /// Returns what it was before.
    fn change(&self, to: impl Fn(u64) -> u64) -> u64 {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |of| Some(to(of))).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN: u64 = 1_000_000;

    /// How many of so many reconciles are a demoted's, each of which polls for so long, so many times.
    fn demoted_after(of: &Demotion, reconciles: u32, polls: u32, nanos: u64) -> u32 {
        let reconcile = || {
            let is_demoted = of.begin();
            (0..polls).for_each(|_| of.polled(nanos));
            is_demoted
        };
        (0..reconciles).map(|_| u32::from(reconcile())).sum()
    }

    #[test]
    fn one_whose_polls_are_short_is_never_suspect() {
        assert_eq!(demoted_after(&Demotion::default(), 1000, 20, POLL), 0);
    }

    #[test]
    fn one_whose_polls_are_a_little_longer_is_forgiven() {
        assert_eq!(demoted_after(&Demotion::default(), 1000, 1, POLL + FORGIVEN), 0);
    }

    #[test]
    fn third_long_poll_demotes() {
        let new = Demotion::default();
        assert_eq!(demoted_after(&new, 2, 1, 500 * TURN), 0);
        assert_eq!(demoted_after(&new, 20, 1, 0), 0);
        assert_eq!(demoted_after(&new, 2, 1, 500 * TURN), 0);
        assert_eq!(demoted_after(&new, 1, 1, 0), 1, "by now there are three");
    }

    #[test]
    fn spinning_demotes_for_a_hundred_reconciles() {
        let spins = Demotion::default();
        assert_eq!(demoted_after(&spins, 1, 1000, TURN), 0);
        assert_eq!(demoted_after(&spins, 10, 1000, TURN), 10);
        assert_eq!(demoted_after(&spins, 1000, 1, 0), 100);
        assert_eq!(demoted_after(&spins, 1000, 1, 0), 0);
    }

    #[test]
    fn a_poll_of_any_length_counts() {
        let of = Demotion::default();
        (0..10).for_each(|_| of.polled(u64::MAX));
        assert_eq!(demoted_after(&of, 1000, 1, 0), 100);
    }
}
