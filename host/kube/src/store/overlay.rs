//! An overlay of the host's own writes: the API server's response to a write replaces the stored object until the watch
//! has caught up, so that no reconciler acts on a cache without its own writes.
//!
//! A watch sends the events of one resource in the order of their resourceVersions. So a response with resourceVersion R
//! is in the store once the watch has received any event of R or later, and its entry is removed then. A response that
//! the watch has already overtaken is not added. Readers read the overlay first and the store second: an entry is
//! removed only after the store has its object.
//!
//! A list shows no object that was created and deleted before it. If the host created such an object while the watch was
//! interrupted, nobody but the overlay knows of it; the informer then reports its deletion.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use operetta_core::object::{Object, ObjectKey};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::store::Store;

/// The lifetime of a deletion that the watch never confirms, because it was received before the response.
const TOMBSTONE_AGE: Duration = Duration::from_secs(300);

/// The result of a write.
#[derive(Clone, Debug)]
pub enum Written {
    /// The object as stored by the API server.
    Present(Arc<Object>),
    /// The object with this uid is deleted.
    Gone {
        /// The object's uid. An object of the same name that is created later has another one.
        uid: String,
        /// The object, if the host's write was in the overlay: the watch may not have seen it.
        unseen: Option<Arc<Object>>,
    },
}

struct Entry {
    written: Written,
    at: Instant,
}

/// The writes that a store's watch has not received yet.
#[derive(Default)]
pub struct Overlay {
    /// The entries. Each is newer than the store's revision, or a tombstone.
    entries: Mutex<BTreeMap<ObjectKey, Entry>>,
    /// The number of entries. Most reads find 0 and continue without the lock.
    len: AtomicUsize,
}

impl Overlay {
    /// Adds the response to a create, update or patch, unless the watch or a list has overtaken it.
    pub fn wrote(&self, object: Arc<Object>, store: &Store) {
        let Some(revision) = object.revision() else { return };
        self.change(|entries| {
            let newer = match entries.get(object.key()).map(|entry| &entry.written) {
                Some(Written::Present(kept)) => kept.revision() < Some(revision),
                Some(Written::Gone { uid, .. }) => *uid != object.uid(),
                None => true,
            };
            if newer && store.revision() < revision {
                let key = object.key().clone();
                entries.insert(key, Entry { written: Written::Present(object), at: Instant::now() });
            }
        });
    }

    /// Adds the deletion of an object. `uid` is empty when the API server named none.
    pub fn deleted(&self, key: &ObjectKey, uid: &str, store: &Store) {
        self.change(|entries| {
            let unseen = match entries.get(key).map(|entry| &entry.written) {
                Some(Written::Present(object)) => Some(object.clone()),
                _ => None,
            };
            let Some(covered) = unseen.clone().or_else(|| store.get(key)) else { return };
            if uid.is_empty() || uid == covered.uid() {
                let written = Written::Gone { uid: covered.uid().to_owned(), unseen };
                entries.insert(key.clone(), Entry { written, at: Instant::now() });
            }
        });
    }

    /// Removes an entry after the watch has received an event, which is already in the store.
    pub fn watched(&self, key: &ObjectKey, uid: &str, revision: u64, deleted: bool) {
        if self.len.load(Ordering::Acquire) == 0 {
            return;
        }
        self.change(|entries| {
            entries.retain(|at, entry| match &entry.written {
                Written::Present(object) => object.revision() > Some(revision),
                Written::Gone { uid: gone, .. } => {
                    let confirmed = at == key && (deleted || uid != gone);
                    !confirmed && entry.at.elapsed() < TOMBSTONE_AGE
                }
            });
        });
    }

    /// Removes entries after the watch has received everything up to this resourceVersion.
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

    /// Removes entries after a list of this resourceVersion that began at `began`, when its objects are in the store: it
    /// contains every write that was answered before. Returns the objects of the removed entries that the list does not
    /// have, in the order of keys.
    pub fn relisted(&self, began: Instant, revision: u64, store: &Store) -> Vec<Arc<Object>> {
        let mut gone = Vec::new();
        self.change(|entries| {
            entries.retain(|_, entry| {
                let (object, newer) = match &entry.written {
                    Written::Present(object) => (Some(object), object.revision() > Some(revision)),
                    Written::Gone { unseen, .. } => (unseen.as_ref(), true),
                };
                let keeps = newer && entry.at >= began;
                gone.extend(object.filter(|object| !keeps && !store.has(object)).cloned());
                keeps
            });
        });
        gone
    }

    /// Returns the result of the last write at a key.
    pub fn get(&self, key: &ObjectKey) -> Option<Written> {
        if self.len.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.entries.lock().get(key).map(|entry| entry.written.clone())
    }

    /// Returns all entries in the order of keys.
    pub fn snapshot(&self) -> Vec<(ObjectKey, Written)> {
        if self.len.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let entries = self.entries.lock();
        entries.iter().map(|(key, entry)| (key.clone(), entry.written.clone())).collect()
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<ObjectKey, Entry>)) {
        let mut entries = self.entries.lock();
        // An event that the store receives while `change` looks at it must wait for the lock, and then remove what it
        // has overtaken.
        self.len.store(entries.len() + 1, Ordering::Release);
        change(&mut entries);
        self.len.store(entries.len(), Ordering::Release);
    }
}
