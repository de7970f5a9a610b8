//! Objects that cannot be read, for example because they are nested too deep. They are skipped and
//! the watch continues, so that the writer of such an object cannot disturb the watchers of its
//! kind.
//!
//! The store keeps the last state that could be read; an object that never could be read is not in
//! it. Its deletion is delivered like any other.

use std::collections::{BTreeMap, BTreeSet};

use operetta_core::object::ObjectKey;

/// The maximum number of objects that are named. Others are only counted.
const MAX_NAMED: usize = 1_000;

/// The objects of an informer that cannot be read.
#[derive(Default)]
pub(super) struct UnreadableObjects {
    /// The objects that cannot be read now, each with the reason; at most [`MAX_NAMED`].
    now: BTreeMap<ObjectKey, String>,
    /// The objects that the log has named, at most [`MAX_NAMED`]. An object that changes often is
    /// named once.
    logged: BTreeSet<ObjectKey>,
    /// The number of object states that could not be read.
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

    /// Removes an object, because it can be read again or is deleted.
    pub fn remove(&mut self, key: &ObjectKey) {
        // Nearly always there are none.
        if !self.now.is_empty() {
            self.now.remove(key);
        }
    }

    /// Removes all objects before a list adds those that it could not read.
    pub fn clear(&mut self) {
        self.now.clear();
    }

    /// The number of object states that could not be read.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Describes the objects of this kind that cannot be read now: the first one, and the number of
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
