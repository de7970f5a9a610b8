//! A plugin's writes and the events caused by them: a pure state machine. Object versions are
//! hashes.

use std::collections::{BTreeMap, HashMap, VecDeque, hash_map};

use crate::object::ObjectKey;

/// How many of a plugin's writes are remembered. Events of older ones count as from outside, but a
/// watch is only a few writes behind.
pub const WRITES: usize = 4_096;
/// How many events may wait for responses. Further ones count as from outside.
const UNSETTLED: usize = 1_024;

/// The controller and key enqueued by an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub controller: String,
    pub key: ObjectKey,
}

/// Who made a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Another writer.
    Outside,
    /// This plugin.
    Own {
        /// Depth of the writing reconcile.
        depth: u32,
        /// Whether that reconcile had another key than the event's target.
        other: bool,
    },
}

#[derive(Debug, Default)]
pub(super) struct Writes {
    /// The versions written by the plugin, and their writers.
    own: HashMap<u64, Author>,
    /// Exactly the keys of `own`, oldest first; at most [`WRITES`].
    order: VecDeque<u64>,
    /// In-flight writes by number.
    under_way: BTreeMap<u64, Author>,
    next: u64,
    /// Events possibly caused by an in-flight write, in the order of `before`.
    unsettled: VecDeque<Unsettled>,
}

/// The writing reconcile.
#[derive(Clone, Copy, Debug)]
struct Author {
    writer: u64,
    depth: u32,
}

/// An event that arrived during in-flight writes.
#[derive(Debug)]
struct Unsettled {
    version: u64,
    /// Hash of the target, like `Author::writer`.
    asked: u64,
    target: Target,
    /// Only writes with smaller numbers can have caused the event.
    before: u64,
}

impl Writes {
    /// Begins a write and returns its number.
    pub fn begin(&mut self, writer: u64, depth: u32) -> u64 {
        let id = self.next;
        self.next += 1;
        self.under_way.insert(id, Author { writer, depth });
        id
    }

    /// Ends a write, with the version it created, if any. Returns the events that can be judged
    /// now.
    pub fn end(&mut self, id: u64, made: Option<u64>) -> Vec<(Target, Origin)> {
        let Some(write) = self.under_way.remove(&id) else {
            return Vec::new();
        };

        if let Some(made) = made {
            self.remember(made, write);
        }
        if self.unsettled.is_empty() {
            return Vec::new();
        }

        let oldest = self
            .under_way
            .first_key_value()
            .map_or(u64::MAX, |(id, _)| *id);
        let mut settled = Vec::new();

        for event in std::mem::take(&mut self.unsettled) {
            if made == Some(event.version) {
                settled.push((event.target, own(write, event.asked)));
            } else if event.before <= oldest {
                settled.push((event.target, Origin::Outside));
            } else {
                self.unsettled.push_back(event);
            }
        }

        settled
    }

    /// Who made an event's version. During in-flight writes, an unknown version counts as theirs
    /// until [`Self::end`] judges it again.
    pub fn origin(&mut self, version: u64, asked: u64, target: Target) -> Origin {
        if let Some(write) = self.own.get(&version) {
            return own(*write, asked);
        }

        let deepest = self
            .under_way
            .values()
            .max_by_key(|write| write.depth)
            .copied();

        match deepest.filter(|_| self.unsettled.len() < UNSETTLED) {
            Some(write) => {
                self.unsettled.push_back(Unsettled {
                    version,
                    asked,
                    target,
                    before: self.next,
                });
                // We can't tell whether another key's reconcile wrote it. Assuming so could release
                // a held key.
                Origin::Own {
                    depth: write.depth,
                    other: false,
                }
            }
            None => Origin::Outside,
        }
    }

    fn remember(&mut self, version: u64, write: Author) {
        match self.own.entry(version) {
            // The write changed nothing, so the version belongs to its first writer.
            hash_map::Entry::Occupied(_) => return,
            hash_map::Entry::Vacant(entry) => entry.insert(write),
        };

        self.order.push_back(version);
        if self.order.len() > WRITES
            && let Some(oldest) = self.order.pop_front()
        {
            self.own.remove(&oldest);
        }
    }
}

fn own(write: Author, asked: u64) -> Origin {
    Origin::Own {
        depth: write.depth,
        other: write.writer != asked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(name: &str) -> Target {
        Target {
            controller: "c".to_owned(),
            key: ObjectKey::cluster_scoped(name),
        }
    }

    const MINE: Origin = Origin::Own {
        depth: 3,
        other: false,
    };

    #[test]
    fn event_of_an_answered_write_is_own() {
        let mut writes = Writes::default();
        let id = writes.begin(7, 3);
        assert_eq!(writes.end(id, Some(100)), []);
        assert_eq!(writes.origin(100, 7, target("a")), MINE);
        assert_eq!(
            writes.origin(100, 8, target("b")),
            Origin::Own {
                depth: 3,
                other: true
            }
        );
        assert_eq!(writes.origin(101, 7, target("a")), Origin::Outside);
    }

    #[test]
    fn early_event_is_judged_by_the_answer() {
        let mut writes = Writes::default();
        let first = writes.begin(7, 3);
        let second = writes.begin(8, 0);
        assert_eq!(writes.origin(100, 7, target("a")), MINE);
        assert_eq!(
            writes.origin(200, 9, target("c")),
            MINE,
            "it may be, for now"
        );
        let third = writes.begin(9, 9);
        assert_eq!(writes.end(first, Some(100)), [(target("a"), MINE)]);
        assert_eq!(
            writes.end(second, None),
            [(target("c"), Origin::Outside)],
            "the third began after it"
        );
        assert_eq!(writes.end(third, Some(300)), []);
    }

    #[test]
    fn ignores_write_that_ended_twice_or_never_began() {
        let mut writes = Writes::default();
        let id = writes.begin(1, 0);
        writes.end(id, Some(1));
        assert_eq!(writes.end(id, Some(2)), []);
        assert_eq!(writes.end(99, Some(3)), []);
        assert_eq!(writes.origin(2, 1, target("a")), Origin::Outside);
    }

    #[test]
    fn bounds_memory_of_endless_writes() {
        let mut writes = Writes::default();
        for version in 0..3 * WRITES as u64 {
            let id = writes.begin(1, 0);
            writes.end(id, Some(version));
        }
        assert_eq!((writes.own.len(), writes.order.len()), (WRITES, WRITES));
        assert_eq!(
            writes.origin(0, 1, target("a")),
            Origin::Outside,
            "long ago"
        );
        let id = writes.begin(1, 0);
        let waiting = (0..3 * UNSETTLED as u64)
            .filter(|at| writes.origin(u64::MAX - at, 1, target("a")) != Origin::Outside);
        assert_eq!(waiting.count(), UNSETTLED);
        assert_eq!(writes.end(id, None).len(), UNSETTLED);
        assert!(writes.unsettled.is_empty() && writes.under_way.is_empty());
    }
}
