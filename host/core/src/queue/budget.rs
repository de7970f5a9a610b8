//! A budget for several queues: their keys in total, and the bytes of events waiting for them.
//!
//! The queues of a tenant share one. Otherwise many queues, each within its bounds, could together
//! use up the memory. All keys are counted, but only possibly invented keys are refused for lack of
//! room.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Keys and bytes shared by several queues.
#[derive(Debug)]
pub struct QueueBudget {
    max_keys: usize,
    max_bytes: usize,
    keys: AtomicUsize,
    bytes: AtomicUsize,
}

impl QueueBudget {
    /// Creates a budget for queued keys, and for bytes of events not yet mapped to keys.
    pub fn new(max_keys: usize, max_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            max_keys,
            max_bytes,
            keys: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        })
    }

    /// The number of keys in the queues.
    pub fn keys(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    pub(super) fn has_room(&self) -> bool {
        self.keys() < self.max_keys
    }

    /// Records that a queue now holds `now` keys, after `before`.
    pub(super) fn count_keys(&self, before: usize, now: usize) {
        // If the number falls, the difference wraps, and so does the addition: it comes out right.
        self.keys
            .fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Takes bytes, or returns false if there is no room for them.
    pub(crate) fn take_bytes(&self, bytes: usize) -> bool {
        let more = |taken: usize| {
            taken
                .checked_add(bytes)
                .filter(|taken| *taken <= self.max_bytes)
        };
        self.bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    pub(crate) fn return_bytes(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Priority, WorkQueue};

    #[tokio::test]
    async fn queues_share_their_budget_and_return_it() {
        let budget = QueueBudget::new(3, 0);
        let queues = [
            WorkQueue::new().within(budget.clone()),
            WorkQueue::new().within(budget.clone()),
        ];
        let add = |at: usize, key: u32| queues[at].add_if_room(100, key, Priority::Normal);
        assert!(add(0, 1) && add(0, 1) && add(1, 1) && add(1, 2));
        assert_eq!((add(0, 3), add(1, 3), budget.keys()), (false, false, 3));
        assert!(add(0, 1), "a key that the queue has needs no room");
        queues[0].add(4);
        queues[0].add_after(5, std::time::Duration::from_secs(60));
        assert_eq!(
            (add(1, 6), budget.keys()),
            (false, 5),
            "other keys are counted and never refused"
        );
        for _ in 0..2 {
            let key = queues[0].get().await.expect("a key");
            assert_eq!(budget.keys(), 5 - usize::from(key == 4));
            queues[0].done(&key);
        }
        assert_eq!(budget.keys(), 3);
        queues[0].shut_down();
        assert_eq!(
            (add(1, 6), budget.keys()),
            (true, 3),
            "its delays are dropped"
        );
        drop(queues);
        assert_eq!(budget.keys(), 0);
    }

    #[test]
    fn bytes_are_bounded_and_returned() {
        let budget = QueueBudget::new(0, 10);
        assert!(
            budget.take_bytes(6)
                && !budget.take_bytes(5)
                && !budget.take_bytes(usize::MAX)
                && budget.take_bytes(4)
        );
        budget.return_bytes(6);
        assert!(budget.take_bytes(6) && !budget.take_bytes(1));
    }
}
