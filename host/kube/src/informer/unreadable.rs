//! Unreadable objects, for example because they are nested too deep. They are skipped and the watch
//! continues, so that the author of such an object cannot disturb the watchers of its kind.
//!
//! The store keeps the last readable state; it doesn't have an object that was never readable. A
//! deletion is delivered like any other.

use std::collections::{BTreeMap, BTreeSet};

use operetta_core::object::ObjectKey;

/// How many objects are named. Others are only counted.
const MAX_NAMED: usize = 1_000;

#[derive(Default)]
pub(super) struct UnreadableObjects {
    /// The currently unreadable objects, each with the reason; at most [`MAX_NAMED`].
    now: BTreeMap<ObjectKey, String>,
    /// The objects already named in the log; at most [`MAX_NAMED`]. An object that changes often is
    /// named once.
    logged: BTreeSet<ObjectKey>,
    /// How many states of objects were unreadable.
    total: u64,
}

impl UnreadableObjects {
    /// Adds an object. Reports whether the log should name it.
    pub fn add(&mut self, key: &ObjectKey, why: &str) -> bool {
        self.total += 1;
        if self.now.len() < MAX_NAMED || self.now.contains_key(key) {
            self.now.insert(key.clone(), why.to_owned());
        }
        self.logged.len() < MAX_NAMED && self.logged.insert(key.clone())
    }

    /// Removes an object: it is readable again, or deleted.
    pub fn remove(&mut self, key: &ObjectKey) {
        // Nearly always there are none.
        if !self.now.is_empty() {
            self.now.remove(key);
        }
    }

    /// Removes all objects, before a list adds those it could not read.
    pub fn clear(&mut self) {
        self.now.clear();
    }

    /// Whether all objects are readable.
    pub fn is_empty(&self) -> bool {
        self.now.is_empty()
    }

    /// How many states of objects were unreadable.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Describes the currently unreadable objects of this kind: the first one, and the number of
    /// others.
    pub fn describe(&self, kind: &str) -> Option<String> {
        let (key, why) = self.now.first_key_value()?;
        let first = format!("failed to decode {kind} {key}: {why}");
        Some(match self.now.len() - 1 {
            0 => first,
            more => format!("{first}; and {more} more"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_each_object_once_up_to_limit() {
        let mut unreadable = UnreadableObjects::default();
        let key = |at: usize| ObjectKey::namespaced("n", at.to_string());
        assert!(unreadable.add(&key(0), "deep"));
        assert!(!unreadable.add(&key(0), "deep"), "it changed");
        unreadable.now.clear();
        assert!(
            !unreadable.add(&key(0), "deep"),
            "it was readable meanwhile"
        );
        let named = (0..10 * MAX_NAMED)
            .filter(|at| unreadable.add(&key(*at), "deep"))
            .count();
        assert_eq!((named, unreadable.now.len()), (MAX_NAMED - 1, MAX_NAMED));
        assert_eq!(unreadable.total, 3 + 10 * MAX_NAMED as u64);
    }
}
