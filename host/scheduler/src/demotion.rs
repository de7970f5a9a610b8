//! Demotion: moves plugins with long polls to the background.

use std::sync::atomic::{AtomicU64, Ordering};

/// Allowed duration of a poll, in nanoseconds. A spinning guest's poll takes a third longer; a
/// reconcile that reads and writes one object needs a fraction of it.
const POLL: u64 = 750_000;

/// The most a single poll can add, however long it took: the kernel may have stopped the thread.
const MOST_AT_ONCE: u64 = 1_000_000;

/// How much each reconcile subtracts.
const FORGIVEN: u64 = 50_000;

/// Accounts above this are demoted. It takes three very long polls, or some ten polls of a spinning
/// guest.
const THRESHOLD: u64 = 2 * MOST_AT_ONCE;

/// Upper bound of the excess. Once a guest stops spinning, its account stays demoted for a hundred
/// reconciles.
const MOST: u64 = THRESHOLD + 100 * FORGIVEN;

/// By how many nanoseconds an account's polls exceeded `POLL`, less what was forgiven since.
#[derive(Debug, Default)]
pub struct Demotion(AtomicU64);

impl Demotion {
    /// Records a poll of `nanos` nanoseconds.
    pub fn polled(&self, nanos: u64) {
        let longer = nanos.saturating_sub(POLL).min(MOST_AT_ONCE);
        if longer > 0 {
            self.change(|excess| excess.saturating_add(longer).min(MOST));
        }
    }

    /// Records the start of a reconcile, and reports whether the account is demoted.
    pub fn begin(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
            && self.change(|excess| excess.saturating_sub(FORGIVEN)) > THRESHOLD
    }

    /// Whether the account is demoted now.
    pub fn is_demoted(&self) -> bool {
        self.0.load(Ordering::Relaxed) > THRESHOLD
    }

    /// Updates the excess and returns the previous one.
    fn change(&self, to: impl Fn(u64) -> u64) -> u64 {
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |excess| {
                Some(to(excess))
            })
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN: u64 = 1_000_000;

    /// Returns how many of these reconciles run demoted. Each has `polls` polls of `nanos`
    /// nanoseconds.
    fn count_demoted(demotion: &Demotion, reconciles: u32, polls: u32, nanos: u64) -> u32 {
        let reconcile = || {
            let is_demoted = demotion.begin();
            (0..polls).for_each(|_| demotion.polled(nanos));
            is_demoted
        };
        (0..reconciles).map(|_| u32::from(reconcile())).sum()
    }

    #[test]
    fn short_polls_never_demote() {
        assert_eq!(count_demoted(&Demotion::default(), 1000, 20, POLL), 0);
    }

    #[test]
    fn slightly_long_polls_are_forgiven() {
        assert_eq!(
            count_demoted(&Demotion::default(), 1000, 1, POLL + FORGIVEN),
            0
        );
    }

    #[test]
    fn third_long_poll_demotes() {
        let new = Demotion::default();
        assert_eq!(count_demoted(&new, 2, 1, 500 * TURN), 0);
        assert_eq!(count_demoted(&new, 20, 1, 0), 0);
        assert_eq!(count_demoted(&new, 2, 1, 500 * TURN), 0);
        assert_eq!(
            count_demoted(&new, 1, 1, 0),
            1,
            "there are three long polls"
        );
    }

    #[test]
    fn spinning_demotes_for_a_hundred_reconciles() {
        let spins = Demotion::default();
        assert_eq!(count_demoted(&spins, 1, 1000, TURN), 0);
        assert_eq!(count_demoted(&spins, 10, 1000, TURN), 10);
        assert_eq!(count_demoted(&spins, 1000, 1, 0), 100);
        assert_eq!(count_demoted(&spins, 1000, 1, 0), 0);
    }

    #[test]
    fn demotion_is_capped_for_polls_of_any_length() {
        let demotion = Demotion::default();
        (0..10).for_each(|_| demotion.polled(u64::MAX));
        assert_eq!(count_demoted(&demotion, 1000, 1, 0), 100);
    }
}
