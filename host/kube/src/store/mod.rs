//! An informer's store: objects by key, in order, with indexes. The informer is its only writer.
//!
//! [`Writer`] is not `Clone` and there is one per store; any number of readers share the [`Store`].
//! Keys are ordered by namespace, then by name, so a namespace is a range and needs no index of its
//! own. The order of all keys is maintained only once a list needs it ([`Store::keep_order`]),
//! because it is nearly half the cost of a change.
//!
//! An object is stored as its bytes, plain or compressed ([`Packing`]), in a slot. The table of
//! keys, the order of keys and the indexes refer to slots. Readers get an [`Object`] created from
//! the bytes, a copy if they are compressed. [`Store::snapshot`] reads several things consistently,
//! including metadata without decompression; selected entries are opened after releasing the lock.

pub mod cache;
pub mod overlay;

mod entry;
mod index;
mod inner;
mod order;
mod packing;
mod relist;
mod snapshot;
#[cfg(test)]
pub(crate) mod tests;

use std::{
    collections::BTreeSet,
    hash::{BuildHasher, RandomState},
    sync::{Arc, OnceLock},
};

use hashbrown::HashTable;
use operetta_core::{
    manifest::IndexKey,
    object::{Metadata, Object, ObjectKey},
};
use parking_lot::RwLock;

pub use self::{
    entry::{Codec, Entry},
    index::IndexUse,
    packing::Packing,
    relist::{Relist, Relisted},
    snapshot::Snapshot,
};
use self::{
    index::{Declared, Index, POSITION, before, key_of},
    order::Order,
    packing::Trial,
};

/// Bytes of an object besides its own and its indexes': its slot, and its part of the table of
/// keys.
const SLOT: usize = size_of::<Option<Entry>>() + 14;

/// The objects of one informer.
#[derive(Default)]
pub struct Store {
    inner: RwLock<Inner>,
    /// The codec of compressed entries; set at most once.
    codec: OnceLock<Codec>,
    trial: Trial,
}

/// A store's only writer.
pub struct Writer {
    store: Arc<Store>,
}

#[derive(Default)]
struct Inner {
    /// The objects. An object keeps its slot while it exists; free slots are reused.
    slots: Vec<Option<Entry>>,
    free: Vec<u32>,
    /// Each object's slot, with the hash of its key.
    by_key: HashTable<(u32, u32)>,
    hasher: RandomState,
    /// All slots in the order of keys, once a list needs it.
    order: Option<Order>,
    /// The slots by the uid of the controlling owner.
    by_owner: Index,
    /// The declared indexes. Each contains every object with a value for it.
    indexes: Vec<Declared>,
    /// The highest resourceVersion from the watch; only a relist may lower it.
    revision: u64,
    /// Bytes of the entries and their slots. Indexes count their own.
    bytes: usize,
}

/// An object's slot, or the position for a new one.
#[derive(Clone, Copy)]
struct SlotPosition {
    hash: u32,
    /// None if no object has the key.
    slot: Option<u32>,
}

/// A selection of a store's objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// All objects.
    All,
    /// The objects whose controlling owner has this uid.
    Owner(String),
    /// The objects with this value in this index, previously declared by [`Store::declare_index`].
    Index {
        /// The index.
        key: IndexKey,
        /// The value.
        value: String,
    },
}

impl Store {
    /// Creates an empty store and its writer.
    pub fn new() -> (Arc<Self>, Writer) {
        Self::with(Packing::Off)
    }

    /// Creates an empty store that may compress its objects.
    pub fn with(packing: Packing) -> (Arc<Self>, Writer) {
        let store = Arc::new(Self {
            trial: Trial::new(packing),
            ..Self::default()
        });
        (store.clone(), Writer { store })
    }

    /// Returns an object.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        let entry = self.snapshot(|stored| stored.get(key).cloned())?;
        Some(self.open(&entry))
    }

    /// Whether the store has this version of the object or a later one.
    pub fn is_past(&self, object: &Object) -> bool {
        let Some(revision) = object.revision() else {
            return false;
        };

        self.snapshot(|stored| {
            let metadata = stored.get(object.key()).map(Entry::metadata);
            metadata.is_some_and(|metadata| {
                metadata.uid() == object.uid()
                    && metadata
                        .resource_version()
                        .parse::<u64>()
                        .is_ok_and(|stored| stored >= revision)
            })
        })
    }

    /// Whether the store has the object, in any version.
    pub fn has(&self, object: &Object) -> bool {
        self.snapshot(|stored| {
            stored
                .get(object.key())
                .is_some_and(|entry| entry.metadata().uid() == object.uid())
        })
    }

    /// Whether the store has another object of this name, created earlier or later.
    pub fn is_of_another(&self, object: &Object) -> bool {
        self.snapshot(|stored| {
            stored
                .get(object.key())
                .is_some_and(|entry| entry.metadata().uid() != object.uid())
        })
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.read(|inner| inner.by_key.len())
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the objects in memory, including keys, indexes and dictionary, without the
    /// allocator's rounding.
    pub fn bytes(&self) -> usize {
        self.read(Inner::heap_bytes) + self.codec.get().map_or(0, Codec::heap_bytes)
    }

    /// Recomputes [`Self::bytes`] by reading every entry. For tests.
    pub fn count_bytes(&self) -> usize {
        let counted = self.read(|inner| {
            let entries: usize = inner
                .slots
                .iter()
                .flatten()
                .map(|entry| entry.heap_bytes() + SLOT)
                .sum();
            let order = inner
                .order
                .as_ref()
                .map_or(0, |order| order.from(|_| false).count() * POSITION);
            let indexes: usize = inner
                .indexes
                .iter()
                .map(|declared| declared.index.count_bytes())
                .sum();
            entries + order + inner.by_owner.count_bytes() + indexes
        });

        counted + self.codec.get().map_or(0, Codec::heap_bytes)
    }

    /// The number of compressed objects.
    pub fn packed_objects(&self) -> usize {
        self.read(|inner| {
            inner
                .slots
                .iter()
                .flatten()
                .filter(|entry| matches!(entry, Entry::Packed(_)))
                .count()
        })
    }

    /// The highest resourceVersion received by the watch; 0 before the first.
    pub fn revision(&self) -> u64 {
        self.read(|inner| inner.revision)
    }

    /// The current objects of one namespace, or of all, in the order of keys after `after`. Each is
    /// created only when taken.
    pub fn list(
        &self,
        lookup: &Lookup,
        namespace: Option<&str>,
        after: Option<&ObjectKey>,
    ) -> impl ExactSizeIterator<Item = Arc<Object>> + '_ + use<'_> {
        let entries: Vec<Entry> =
            self.snapshot(|stored| stored.walk(lookup, namespace, after).cloned().collect());
        entries.into_iter().map(|entry| self.open(&entry))
    }

    /// Reads several things consistently.
    pub fn snapshot<T>(&self, read: impl FnOnce(&Snapshot<'_>) -> T) -> T {
        self.read(|inner| read(&Snapshot { inner }))
    }

    /// The object of an entry of this store.
    pub fn open(&self, entry: &Entry) -> Arc<Object> {
        entry.open(self.codec.get())
    }

    /// The namespaces of the objects.
    pub fn namespaces(&self) -> BTreeSet<String> {
        self.read(|inner| {
            let mut found = BTreeSet::new();
            let Some(order) = &inner.order else {
                let all: BTreeSet<&str> = inner
                    .slots
                    .iter()
                    .flatten()
                    .filter_map(|entry| entry.key().0)
                    .collect();
                return all.into_iter().map(Into::into).collect();
            };
            let mut next = order
                .from(|slot| key_of(&inner.slots, slot).0.is_none())
                .next();
            while let Some(namespace) = next.and_then(|slot| key_of(&inner.slots, slot).0) {
                found.insert(namespace.to_owned());
                // Keys are sorted, so a namespace's objects are adjacent.
                next = order
                    .from(|slot| key_of(&inner.slots, slot).0 <= Some(namespace))
                    .next();
            }
            found
        })
    }

    /// All keys, in order.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.snapshot(|stored| {
            stored
                .walk(&Lookup::All, None, None)
                .map(|entry| key(&entry.metadata()))
                .collect()
        })
    }

    /// Starts maintaining the order of all keys, for lists of all objects or of a namespace, page
    /// by page.
    pub fn keep_order(&self) {
        if self.read(|inner| inner.order.is_some()) {
            return;
        }

        // Sorting many objects takes time, so don't make readers wait for the lock meanwhile.
        let slots = self.read(|inner| inner.slots.clone());
        let sorted = sorted(&slots);
        let mut inner = self.inner.write();
        if inner.order.is_some() {
            return;
        }

        let mut order = Order::default();
        let now = &inner.slots;
        let same = |slot: u32| {
            let both = slots
                .get(slot as usize)
                .and_then(Option::as_ref)
                .zip(now[slot as usize].as_ref());
            // Nearly all entries are unchanged, which saves comparing their keys.
            both.is_some_and(|(then, now)| then.is(now) || then.key() == now.key())
        };

        sorted
            .into_iter()
            .filter(|slot| same(*slot))
            .for_each(|slot| order.insert(slot, |_| true));

        for slot in taken(now).filter(|slot| !same(*slot)) {
            order.insert(slot, before(now, key_of(now, slot)));
        }

        inner.order = Some(order);
    }

    /// Declares an index of current and later objects, or adds a user to it. The index is kept
    /// until its last user is dropped.
    pub fn declare_index(self: &Arc<Self>, index: &IndexKey) -> IndexUse {
        if self.inner.write().joins(index) {
            return IndexUse::new(self, index);
        }

        // Entries may have to be decompressed, so don't make readers wait for the lock meanwhile.
        let entries = self.read(|inner| inner.slots.clone());
        let value = |entry: &Entry| index.value(&self.open(entry));
        let values: Vec<Option<String>> =
            entries.iter().map(|entry| value(entry.as_ref()?)).collect();
        let mut inner = self.inner.write();
        if inner.joins(index) {
            return IndexUse::new(self, index);
        }

        let mut built = Index::default();
        for slot in taken(&inner.slots) {
            let now = inner.slots[slot as usize].as_ref();
            let then = entries.get(slot as usize).and_then(Option::as_ref);
            let known = now.zip(then).is_some_and(|(now, then)| now.is(then));
            let changed = if known { None } else { now.and_then(value) };
            let value = if known {
                values[slot as usize].as_deref()
            } else {
                changed.as_deref()
            };
            built.change(&inner.slots, slot, None, value);
        }

        inner.indexes.push(Declared {
            key: index.clone(),
            index: built,
            users: 1,
        });

        IndexUse::new(self, index)
    }

    fn read<T>(&self, read: impl FnOnce(&Inner) -> T) -> T {
        read(&self.inner.read())
    }

    /// Finds a key's slot or the position for it, and the object there. Both stay valid, because
    /// only the writer calls this and nothing else changes the store.
    fn position(&self, key: &ObjectKey) -> (SlotPosition, Option<Arc<Object>>) {
        let (position, entry) = self.read(|inner| {
            let position = inner.position(key);
            (
                position,
                position
                    .slot
                    .and_then(|slot| inner.slots[slot as usize].clone()),
            )
        });
        (position, entry.map(|entry| self.open(&entry)))
    }

    /// The object in this store's form.
    fn packed(&self, object: &Object) -> Entry {
        let entry = Entry::Plain(object.raw().clone());
        self.codec
            .get()
            .and_then(|codec| codec.pack(&entry))
            .unwrap_or(entry)
    }
}

impl Writer {
    /// The store.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Inserts an object and returns the replaced one.
    pub fn apply(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        let entry = self.store.packed(&object);
        let (position, old) = self.store.position(object.key());
        let mut inner = self.store.inner.write();
        inner.raise_revision(&object);
        inner.put(position, entry, &object, old.as_deref());
        drop(inner);
        self.store.consider();
        old
    }

    /// Records that the watch has received everything up to this resourceVersion.
    pub fn reached(&mut self, revision: u64) {
        let mut inner = self.store.inner.write();
        inner.revision = inner.revision.max(revision);
    }

    /// Removes an object and returns its stored state. `seen` is its last state in the watch.
    pub fn remove(&mut self, seen: &Object) -> Option<Arc<Object>> {
        let (position, old) = self.store.position(seen.key());
        let mut inner = self.store.inner.write();
        inner.raise_revision(seen);
        if let Some(old) = &old {
            inner.take(position, old);
        }
        drop(inner);
        old
    }
}

/// The occupied slots.
fn taken(slots: &[Option<Entry>]) -> impl Iterator<Item = u32> + '_ {
    (0..)
        .zip(slots)
        .filter_map(|(slot, entry)| entry.as_ref().map(|_| slot))
}

/// Sorts the occupied slots by key. They come from a list nearly sorted, and this sort exploits
/// that.
fn sorted(slots: &[Option<Entry>]) -> Vec<u32> {
    let mut sorted: Vec<u32> = taken(slots).collect();
    sorted.sort_by(|one, other| key_of(slots, *one).cmp(&key_of(slots, *other)));
    sorted
}

fn key(metadata: &Metadata<'_>) -> ObjectKey {
    ObjectKey {
        namespace: metadata.namespace().map(Into::into),
        name: metadata.name().into(),
    }
}

/// Spreads a hash over 64 bits: the table uses both ends.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
