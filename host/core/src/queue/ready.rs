//! Keys ready for a worker: first in, first out within a priority, and neither priority starves.
//!
//! A normal key goes before a low one, except that after [`NORMAL_PER_LOW`] normal keys in a row
//! one low key is handed out. So with a constant stream of normal keys the low ones still get a
//! fifth of the turns, and a normal key is delayed by at most one low key per [`NORMAL_PER_LOW`]
//! normal ones. The rule counts turns and not seconds, because with slow workers the waiting time
//! does not show which key was passed over.
//!
//! The normal keys may belong to flows, such as the namespaces of tenants: then the flows take
//! turns, and keys are first in, first out within a flow only.

use std::collections::{BTreeMap, HashMap, VecDeque};

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

/// Returns the flow of a key.
pub type FlowOf<K> = fn(&K) -> u64;

/// The normal keys.
#[derive(Debug)]
enum Normal<K> {
    /// Oldest first.
    Fifo(VecDeque<K>),
    /// One key of each flow in turn.
    InTurns(Turns<K>),
}

#[derive(Debug)]
struct Turns<K> {
    flow_of: FlowOf<K>,
    /// The keys of each flow, oldest first. None is empty.
    keys: HashMap<u64, VecDeque<K>>,
    /// The flows in the order of their turns, each once.
    order: VecDeque<u64>,
    len: usize,
}

impl<K> Normal<K> {
    fn push(&mut self, key: K) {
        match self {
            Self::Fifo(keys) => keys.push_back(key),
            Self::InTurns(turns) => turns.push(key),
        }
    }

    fn pop(&mut self) -> Option<K> {
        match self {
            Self::Fifo(keys) => keys.pop_front(),
            Self::InTurns(turns) => turns.pop(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Fifo(keys) => keys.len(),
            Self::InTurns(turns) => turns.len,
        }
    }
}

impl<K> Turns<K> {
    fn push(&mut self, key: K) {
        let flow = (self.flow_of)(&key);
        let keys = self.keys.entry(flow).or_default();
        if keys.is_empty() {
            self.order.push_back(flow);
        }
        keys.push_back(key);
        self.len += 1;
    }

    fn pop(&mut self) -> Option<K> {
        let flow = self.order.pop_front()?;
        let keys = self.keys.get_mut(&flow)?;
        let key = keys.pop_front()?;
        if keys.is_empty() {
            self.keys.remove(&flow);
        } else {
            self.order.push_back(flow);
        }
        self.len -= 1;
        Some(key)
    }
}

/// The two queues of ready keys. The caller ensures that a key is in at most one of them.
#[derive(Debug)]
pub struct Ready<K> {
    normal: Normal<K>,
    /// The low keys by ticket, hence oldest first. A map, because raised keys leave from the
    /// middle.
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
            normal: Normal::Fifo(VecDeque::new()),
            low: BTreeMap::new(),
            ticket: 0,
            passed_over: 0,
        }
    }
}

impl<K> Ready<K> {
    /// Lets flows take turns from now on.
    pub fn in_turns(&mut self, flow_of: FlowOf<K>) {
        let mut turns = Turns {
            flow_of,
            keys: HashMap::new(),
            order: VecDeque::new(),
            len: 0,
        };
        while let Some(key) = self.normal.pop() {
            turns.push(key);
        }
        self.normal = Normal::InTurns(turns);
    }

    /// Adds a key at the end of the queue of its priority.
    pub fn push(&mut self, key: K, priority: Priority) -> QueuePosition {
        match priority {
            Priority::Normal => {
                self.normal.push(key);
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
        if let Some(key) = self.low.remove(&ticket) {
            self.normal.push(key);
        }
        QueuePosition::Normal
    }

    /// Removes the next key, and returns it with its queue's priority.
    pub fn pop(&mut self) -> Option<(K, Priority)> {
        if self.low.is_empty() {
            self.passed_over = 0;
            return self.normal.pop().map(|key| (key, Priority::Normal));
        }

        if self.passed_over < NORMAL_PER_LOW
            && let Some(key) = self.normal.pop()
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
        self.len() == 0
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
    fn flows_take_turns() {
        let mut ready = Ready::default();
        for key in ["a1", "a2"] {
            ready.push(key, Priority::Normal);
        }
        ready.in_turns(|key| u64::from(key.as_bytes()[0]));
        ready.push("l1", Priority::Low);
        for key in ["a3", "a4", "b1", "c1", "b2"] {
            ready.push(key, Priority::Normal);
        }
        assert_eq!(ready.len(), 8);
        assert_eq!(
            rest(&mut ready),
            ["a1", "b1", "c1", "a2", "l1", "b2", "a3", "a4"]
        );
        assert!(ready.is_empty());
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
