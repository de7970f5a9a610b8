//! A relist: compares a list with the store while it arrives.
//!
//! If the store has an object in the same version (uid and resourceVersion), it is dropped right
//! away, so a relist of unchanged objects needs one bit per object. The store stays unchanged until
//! [`Writer::finish`], and then changes under one lock. The writer must not change the store in
//! between: an object added meanwhile would count as not listed.

use std::{collections::BTreeMap, sync::Arc};

use operetta_core::object::{Object, ObjectKey};

use super::{Store, Writer, taken};

/// A relist in progress.
pub struct Relist {
    store: Arc<Store>,
    /// A bit for each slot whose object was found, in any version.
    seen: Vec<u64>,
    /// The objects that differ in version from the store's.
    changed: BTreeMap<ObjectKey, Arc<Object>>,
    revision: u64,
}

/// The changes made by a relist.
#[derive(Debug, Default)]
pub struct Relisted {
    /// The new or changed objects in the order of keys, each after its old version.
    pub changed: Vec<(Option<Arc<Object>>, Arc<Object>)>,
    /// The deleted objects in their last state, in the order of keys.
    pub gone: Vec<Arc<Object>>,
}

impl Relist {
    pub(super) fn begin(store: Arc<Store>) -> Self {
        Self {
            store,
            seen: Vec::new(),
            changed: BTreeMap::new(),
            revision: 0,
        }
    }

    /// Adds an object of the list, already without the pruned fields.
    pub fn add(&mut self, object: Arc<Object>) {
        self.revision = self.revision.max(object.revision().unwrap_or_default());
        let stored = self.store.read(|inner| {
            let slot = inner.find(object.key())?;
            let metadata = inner.slots[slot as usize].as_ref()?.metadata();
            let same = metadata.uid() == object.uid()
                && metadata.resource_version() == object.resource_version();
            Some((slot as usize, same && !object.resource_version().is_empty()))
        });

        if let Some((slot, same)) = stored {
            self.mark(slot);
            if same {
                self.changed.remove(object.key());
                return;
            }
        }

        self.changed.insert(object.key().clone(), object);
    }

    /// Marks an object as deleted after the list returned it.
    pub fn remove(&mut self, key: &ObjectKey) {
        self.changed.remove(key);
        if let Some(slot) = self.store.read(|inner| inner.find(key))
            && let Some(bits) = self.seen.get_mut(slot as usize / 64)
        {
            *bits &= !(1 << (slot % 64));
        }
    }

    /// Marks an object as listed but unreadable, keeping its stored state.
    pub fn keep(&mut self, key: &ObjectKey) {
        if let Some(slot) = self.store.read(|inner| inner.find(key)) {
            self.mark(slot as usize);
        }
    }

    fn mark(&mut self, slot: usize) {
        if self.seen.len() <= slot / 64 {
            self.seen.resize(slot / 64 + 1, 0);
        }
        self.seen[slot / 64] |= 1 << (slot % 64);
    }

    /// The number of objects that differ in version from the store's.
    pub fn changed(&self) -> usize {
        self.changed.len()
    }

    fn is_marked(&self, slot: u32) -> bool {
        self.seen
            .get(slot as usize / 64)
            .is_some_and(|bits| (bits >> (slot % 64)) & 1 == 1)
    }
}

impl Writer {
    /// Begins a relist; see [`Relist`].
    pub fn begin_relist(&self) -> Relist {
        Relist::begin(self.store.clone())
    }

    /// Replaces the store's content with that of a relist, atomically.
    pub fn finish(&mut self, relist: Relist) -> Relisted {
        let store = &self.store;
        let revision = relist.revision;
        // Reading, decompressing and packing need no lock, because nothing else changes the store.
        let gone: Vec<_> = store.read(|inner| {
            let slots = taken(&inner.slots).filter(|slot| !relist.is_marked(*slot));
            slots
                .filter_map(|slot| inner.slots[slot as usize].clone())
                .collect()
        });

        let mut gone: Vec<_> = gone.iter().map(|entry| store.open(entry)).collect();
        gone.sort_by(|one, other| one.key().cmp(other.key()));
        let changed = relist.changed.into_values().map(|object| {
            let (position, old) = store.position(object.key());
            let entry = store.packed(&object);
            (position, old, object, entry)
        });
        let changed: Vec<_> = changed.collect();
        let mut inner = store.inner.write();

        for object in &gone {
            let position = inner.position(object.key());
            inner.take(position, object);
        }

        for (position, old, object, entry) in &changed {
            inner.put(*position, entry.clone(), object, old.as_deref());
        }

        inner.revision = revision;
        drop(inner);
        store.consider();
        Relisted {
            changed: changed
                .into_iter()
                .map(|(_, old, object, _)| (old, object))
                .collect(),
            gone,
        }
    }
}
