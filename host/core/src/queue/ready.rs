//! Keys ready for a worker: first in, first out within a priority, and neither priority starves.
//!
//! Normal keys go before low ones, except that one low key is handed out after [`NORMAL_PER_LOW`]
//! normal keys in a row. So even under a constant stream of normal keys, low ones get a fifth of
//! the turns, and normal keys are delayed by at most one low key per [`NORMAL_PER_LOW`] normal
//! ones. We count turns instead of seconds, because with slow workers the waiting time doesn't show
//! which key was passed over.

use std::collections::{BTreeMap, VecDeque};

use super::priority::Priority;

/// How many normal keys are handed out in a row while a low key waits.
pub const NORMAL_PER_LOW: u32 = 4;

/// Where a ready key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuePosition {
    /// In the normal queue.
    Normal,
    /// In the low queue, with this ticket.
    Low(u64),
}

/// The two queues of ready keys. The caller makes sure a key is in at most one of them.
#[derive(Debug)]
pub struct Ready<K> {
    /// Oldest first.
    normal: VecDeque<K>,
    /// By ticket, hence oldest first. A map, because raised keys leave from the middle.
    low: BTreeMap<u64, K>,
    /// Ticket of the next low key, higher than all in `low`.
    ticket: u64,
    /// How many normal keys were handed out in a row while `low` was not empty; at most
    /// [`NORMAL_PER_LOW`].
    passed_over: u32,
}

impl<K> Default for Ready<K> {
    fn default() -> Self {
        Self {
            normal: VecDeque::new(),
            low: BTreeMap::new(),
            ticket: 0,
            passed_over: 0,
        }
    }
}

impl<K> Ready<K> {
    /// Adds a key to the end of its priority's queue.
    pub fn push(&mut self, key: K, priority: Priority) -> QueuePosition {
        match priority {
            Priority::Normal => {
                self.normal.push_back(key);
                QueuePosition::Normal
            }
            Priority::Low => {
                let ticket = self.ticket;
                self.ticket += 1;
                self.low.insert(ticket, key);
                QueuePosition::Low(ticket)
            }
        }
    }

    /// Moves a low key to the end of the normal queue.
    pub fn raise(&mut self, ticket: u64) -> QueuePosition {
        self.normal.extend(self.low.remove(&ticket));
        QueuePosition::Normal
    }

    /// Removes the next key, and returns it with its queue's priority.
    pub fn pop(&mut self) -> Option<(K, Priority)> {
        if self.low.is_empty() {
            self.passed_over = 0;
            return self.normal.pop_front().map(|key| (key, Priority::Normal));
        }

        if self.passed_over < NORMAL_PER_LOW
            && let Some(key) = self.normal.pop_front()
        {
            self.passed_over += 1;
            return Some((key, Priority::Normal));
        }

        self.passed_over = 0;
        self.low.pop_first().map(|(_, key)| (key, Priority::Low))
    }

    /// The number of keys in both queues.
    pub fn len(&self) -> usize {
        self.normal.len() + self.low.len()
    }

    /// Whether both queues are empty.
    pub fn is_empty(&self) -> bool {
        self.normal.is_empty() && self.low.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest<K>(ready: &mut Ready<K>) -> Vec<K> {
        std::iter::from_fn(|| ready.pop().map(|(key, _)| key)).collect()
    }

    #[test]
    fn low_key_is_next_after_four_normal_ones() {
        let mut ready = Ready::default();
        for key in ["l1", "l2", "l3"] {
            ready.push(key, Priority::Low);
        }
        for key in ["n1", "n2", "n3", "n4", "n5", "n6"] {
            ready.push(key, Priority::Normal);
        }
        assert_eq!(
            rest(&mut ready),
            ["n1", "n2", "n3", "n4", "l1", "n5", "n6", "l2", "l3"]
        );
    }

    #[test]
    fn constant_normal_keys_do_not_starve_low_ones() {
        let mut ready = Ready::default();
        for key in 0..100 {
            ready.push(key, Priority::Low);
        }
        let mut low = Vec::new();
        for turn in 0..100 * (NORMAL_PER_LOW + 1) {
            ready.push(1000 + turn, Priority::Normal);
            low.extend(
                ready
                    .pop()
                    .filter(|(_, priority)| *priority == Priority::Low)
                    .map(|(key, _)| key),
            );
        }
        assert!(low.iter().copied().eq(0..100), "{low:?}");
    }

    #[test]
    fn raised_key_joins_end_of_normal_queue() {
        let mut ready = Ready::default();
        ready.push("l1", Priority::Low);
        let position = ready.push("l2", Priority::Low);
        ready.push("n1", Priority::Normal);
        assert_eq!(position, QueuePosition::Low(1));
        assert_eq!(ready.raise(1), QueuePosition::Normal);
        ready.push("n2", Priority::Normal);
        assert_eq!(rest(&mut ready), ["n1", "l2", "n2", "l1"]);
    }
}
