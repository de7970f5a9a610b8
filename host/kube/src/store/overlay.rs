//! Reads that see the host's own writes: what the API server answered to a write covers the store until the watch has
//! caught up, so that no reconciler acts on a cache that misses what it just did.
//!
//! A watch brings the events of one resource in the order of their resourceVersions. So an answer with resourceVersion
//! R is covered by the watch as soon as the watch has brought any event of R or later; then the entry goes. An answer
//! that the watch has overtaken already is not kept at all. Readers look here first and at the store second: an entry
//! goes only after the store has what it covered.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use operetta_core::object::{Object, ObjectKey};
use parking_lot::Mutex;

use crate::store::Store;

/// A deletion that the watch never confirms (it was seen before the answer came) is forgotten after this time.
const TOMBSTONE_AGE: Duration = Duration::from_secs(300);

/// The result of a write.
#[derive(Clone, Debug)]
pub enum Written {
    /// The object as stored by the API server.
    Present(Arc<Object>),
    /// The object with this uid is deleted.
    Gone {
        /// Its uid: an object of the same name made later is another one.
        uid: String,
    },
}

struct Entry {
    written: Written,
    at: Instant,
}

/// The writes that a store's watch has not brought yet.
#[derive(Default)]
pub struct Overlay {
    /// Every entry is newer than the store's revision, or a tombstone.
    entries: Mutex<BTreeMap<ObjectKey, Entry>>,
    /// `entries.len()`: most reads find 0 and go on without the lock.
    len: AtomicUsize,
}

impl Overlay {
    /// Keeps the answer to a create, update or patch, unless the watch is already past it.
    pub fn wrote(&self, object: Arc<Object>, store: &Store) {
        let Some(revision) = object.revision() else { return };
        self.change(|entries| {
            let newer = match entries.get(object.key()).map(|entry| &entry.written) {
                Some(Written::Present(kept)) => kept.revision() < Some(revision),
                Some(Written::Gone { uid }) => *uid != object.uid(),
                None => true,
            };
            if newer && store.revision() < revision {
                let key = object.key().clone();
                entries.insert(key, Entry { written: Written::Present(object), at: Instant::now() });
            }
        });
    }

    /// Keeps that an object was deleted for good. `uid` is empty when the API server named none.
    pub fn deleted(&self, key: &ObjectKey, uid: &str, store: &Store) {
        self.change(|entries| {
            let covered = match entries.get(key).map(|entry| &entry.written) {
                Some(Written::Present(object)) => Some(object.uid().to_owned()),
                _ => store.get(key).map(|object| object.uid().to_owned()),
            };
            let Some(covered) = covered else { return };
            if uid.is_empty() || uid == covered {
                entries.insert(key.clone(), Entry { written: Written::Gone { uid: covered }, at: Instant::now() });
            }
        });
    }

    /// The watch has brought an event; the store has it already.
    pub fn watched(&self, key: &ObjectKey, uid: &str, revision: u64, deleted: bool) {
        if self.len.load(Ordering::Acquire) == 0 {
            return;
        }
        self.change(|entries| {
            entries.retain(|at, entry| match &entry.written {
                Written::Present(object) => object.revision() > Some(revision),
                Written::Gone { uid: gone } => {
                    let confirmed = at == key && (deleted || uid != gone);
                    !confirmed && entry.at.elapsed() < TOMBSTONE_AGE
                }
            });
        });
    }

    /// The watch has brought everything up to this resourceVersion.
    pub fn passed(&self, revision: u64) {
        if self.len.load(Ordering::Acquire) == 0 {
            return;
        }
        self.change(|entries| {
            entries.retain(|_, entry| match &entry.written {
                Written::Present(object) => object.revision() > Some(revision),
                Written::Gone { .. } => entry.at.elapsed() < TOMBSTONE_AGE,
            });
        });
    }

    /// A relist that began at `began` is in the store: it has every write that was answered before.
    pub fn relisted(&self, began: Instant) {
        self.change(|entries| entries.retain(|_, entry| entry.at >= began));
    }

    /// Returns the result of the last write at a key.
    pub fn get(&self, key: &ObjectKey) -> Option<Written> {
        if self.len.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.entries.lock().get(key).map(|entry| entry.written.clone())
    }

    /// Everything kept now, in the order of keys.
    pub fn snapshot(&self) -> Vec<(ObjectKey, Written)> {
        if self.len.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let entries = self.entries.lock();
        entries.iter().map(|(key, entry)| (key.clone(), entry.written.clone())).collect()
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<ObjectKey, Entry>)) {
        let mut entries = self.entries.lock();
        change(&mut entries);
        self.len.store(entries.len(), Ordering::Release);
    }
}
