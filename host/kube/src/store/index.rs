//! Indexes of objects by a value: the uid of their controlling owner, or the value of a declared
//! index.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use operetta_core::manifest::IndexKey;

use super::{Store, entry::Entry, order::Order};

/// Bytes of one position in an order, including its chunk's reserve.
pub(super) const POSITION: usize = 6;
/// Bytes of one value besides its text: its part of the table, and its chunk.
const VALUE: usize = 112;

/// The slots of each value, in the order of their keys. Every value has at least one.
#[derive(Default)]
pub(super) struct Index {
    values: HashMap<Box<str>, Order>,
    bytes: usize,
}

pub(super) struct Declared {
    pub(super) key: IndexKey,
    pub(super) index: Index,
    /// The number of its [`IndexUse`]s, at least one.
    pub(super) users: usize,
}

/// The use of a declared index. The store drops the index with its last use.
#[must_use = "the index is dropped with its last use"]
pub struct IndexUse {
    store: Weak<Store>,
    key: IndexKey,
}

impl IndexUse {
    pub(super) fn new(store: &Arc<Store>, key: &IndexKey) -> Self {
        Self {
            store: Arc::downgrade(store),
            key: key.clone(),
        }
    }

    /// Whether this is a use of that store's index.
    pub fn is(&self, store: &Arc<Store>, key: &IndexKey) -> bool {
        self.key == *key && std::ptr::eq(self.store.as_ptr(), Arc::as_ptr(store))
    }
}

impl Drop for IndexUse {
    fn drop(&mut self) {
        let Some(store) = self.store.upgrade() else {
            return;
        };

        let mut inner = store.inner.write();
        let Some(at) = inner
            .indexes
            .iter()
            .position(|declared| declared.key == self.key)
        else {
            return;
        };

        inner.indexes[at].users -= 1;
        let unused = (inner.indexes[at].users == 0).then(|| inner.indexes.remove(at));
        // Dropping a large index takes time, so don't make readers wait for the lock meanwhile.
        drop(inner);
        drop(unused);
    }
}

/// Whether a slot's object comes before a key.
pub(super) fn before<'a>(
    slots: &'a [Option<Entry>],
    key: (Option<&'a str>, &'a str),
) -> impl Fn(u32) -> bool + 'a {
    move |slot| key_of(slots, slot) < key
}

pub(super) fn key_of(slots: &[Option<Entry>], slot: u32) -> (Option<&str>, &str) {
    slots[slot as usize]
        .as_ref()
        .map(Entry::key)
        .unwrap_or_default()
}

impl Index {
    /// Moves the object in a slot from one value to another. The slot may contain the old or the
    /// new object: both have the same key.
    pub(super) fn change(
        &mut self,
        slots: &[Option<Entry>],
        slot: u32,
        old: Option<&str>,
        new: Option<&str>,
    ) {
        if old == new {
            return;
        }

        let key = key_of(slots, slot);
        if let Some((value, order)) =
            old.and_then(|value| Some((value, self.values.get_mut(value)?)))
        {
            order.remove(slot, before(slots, key));
            self.bytes -= POSITION;
            if order.is_empty() {
                self.values.remove(value);
                self.bytes -= VALUE + value.len();
            }
        }

        if let Some(value) = new {
            if !self.values.contains_key(value) {
                self.values.insert(value.into(), Order::default());
                self.bytes += VALUE + value.len();
            }
            if let Some(order) = self.values.get_mut(value) {
                order.insert(slot, before(slots, key));
                self.bytes += POSITION;
            }
        }
    }

    pub(super) fn of(&self, value: &str) -> Option<&Order> {
        self.values.get(value)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes
    }

    /// Recomputes [`Index::heap_bytes`].
    pub(super) fn count_bytes(&self) -> usize {
        self.values
            .iter()
            .map(|(value, order)| VALUE + value.len() + order.from(|_| false).count() * POSITION)
            .sum()
    }
}
