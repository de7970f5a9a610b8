//! Objects that cannot be read, for example because they are nested too deep. They are skipped and the watch continues, so
//! that the writer of such an object cannot disturb the watchers of its kind.
//!
//! The store keeps the last state that could be read; an object that never could be read is not in it. Its deletion is
//! delivered like any other.

use std::collections::{BTreeMap, BTreeSet};

use operetta_core::{handler::event::Event, object::ObjectKey};

use super::{
    Informer,
    frames::{Identity, Unreadable},
};

/// The maximum number of objects that are named. Others are only counted.
const MAX_NAMED: usize = 1_000;

/// The objects that an informer leaves out.
#[derive(Default)]
pub(super) struct LeftOut {
    /// The objects that cannot be read now, each with the reason; at most [`MAX_NAMED`].
    now: BTreeMap<ObjectKey, String>,
    /// The objects that the log has named, at most [`MAX_NAMED`]. An object that changes often is named once.
    logged: BTreeSet<ObjectKey>,
    /// The number of object states that could not be read.
    total: u64,
}

impl LeftOut {
    /// Adds an object. Reports whether the log should name it.
    fn add(&mut self, key: &ObjectKey, why: &str) -> bool {
        self.total += 1;
        if self.now.len() < MAX_NAMED || self.now.contains_key(key) {
            self.now.insert(key.clone(), why.to_owned());
        }
        self.logged.len() < MAX_NAMED && self.logged.insert(key.clone())
    }
}

impl Informer {
    /// Records that a list is complete except for these objects.
    pub(super) fn listed_without(&self, unreadable: &[Unreadable]) {
        self.left_out.lock().now.clear();
        unreadable.iter().for_each(|what| self.leave_out(what));
    }

    /// Records a watch event of an object that cannot be read, or its deletion.
    pub(super) fn skipped(&self, what: &Unreadable, identity: &Identity) {
        if identity.deleted {
            self.read_again(&identity.key);
            self.deleted_unread(identity);
        } else {
            self.leave_out(what);
        }
        self.bookmarked(&identity.resource_version);
    }

    /// Records that the object of this key can be read again, or is deleted.
    pub(super) fn read_again(&self, key: &ObjectKey) {
        let mut left_out = self.left_out.lock();
        if !left_out.now.is_empty() {
            left_out.now.remove(key);
        }
    }

    /// Returns the number of object states that could not be read.
    pub(super) fn unreadable_total(&self) -> u64 {
        self.left_out.lock().total
    }

    /// Describes the objects that cannot be read now: the first one, and the number of others.
    pub fn left_out(&self) -> Option<String> {
        let left_out = self.left_out.lock();
        let (key, why) = left_out.now.first_key_value()?;
        let kind = &self.resource.kind.kind;
        let first = format!("failed to decode {kind} {key}: {why}");
        let more = left_out.now.len() - 1;
        Some(if more == 0 { first } else { format!("{first}; and {more} more") })
    }

    fn leave_out(&self, what: &Unreadable) {
        let is_new = match &what.key {
            Some(key) => self.left_out.lock().add(key, &what.why),
            None => true,
        };
        if is_new {
            let error = self.unreadable(what);
            tracing::warn!(kind = %self.resource.kind, %error, "skipped unreadable object");
        }
    }

    fn deleted_unread(&self, identity: &Identity) {
        let mut dispatch = self.dispatch.lock();
        let Some(last) = self.cache.store.get(&identity.key).filter(|last| last.uid() == identity.uid) else { return };
        dispatch.writer.remove(&last);
        if let Ok(revision) = identity.resource_version.parse() {
            self.cache.overlay.watched(&identity.key, &identity.uid, revision, true);
        }
        dispatch.tell(&Event::Deleted { object: last });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_each_object_once_up_to_limit() {
        let mut left_out = LeftOut::default();
        let key = |at: usize| ObjectKey::namespaced("n", at.to_string());
        assert!(left_out.add(&key(0), "deep"));
        assert!(!left_out.add(&key(0), "deep"), "it changed");
        left_out.now.clear();
        assert!(!left_out.add(&key(0), "deep"), "it was readable meanwhile");
        let named = (0..10 * MAX_NAMED).filter(|at| left_out.add(&key(*at), "deep")).count();
        assert_eq!((named, left_out.now.len()), (MAX_NAMED - 1, MAX_NAMED));
        assert_eq!(left_out.total, 3 + 10 * MAX_NAMED as u64);
    }
}
