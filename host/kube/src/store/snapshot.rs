//! A consistent view of a store.

use operetta_core::{manifest::IndexKey, object::ObjectKey};

use super::{Inner, Lookup, entry::Entry, index::key_of, sorted};

/// A store at one moment. Writers wait for it, so be brief.
pub struct Snapshot<'a> {
    pub(super) inner: &'a Inner,
}

impl<'a> Snapshot<'a> {
    /// The highest resourceVersion from the watch; 0 before the first.
    pub fn revision(&self) -> u64 {
        self.inner.revision
    }

    /// Returns one object.
    pub fn get(&self, key: &ObjectKey) -> Option<&'a Entry> {
        self.inner.slots[self.inner.find(key)? as usize].as_ref()
    }

    /// Whether an index was declared.
    pub fn has_index(&self, index: &IndexKey) -> bool {
        self.inner
            .indexes
            .iter()
            .any(|declared| declared.key == *index)
    }

    /// Iterates over the objects of one namespace, or of all, in the order of keys after `after`.
    /// Each costs an access to its slot. [`Lookup::All`] sorts the keys if the store doesn't
    /// maintain their order.
    pub fn walk(
        &self,
        lookup: &Lookup,
        namespace: Option<&'a str>,
        after: Option<&'a ObjectKey>,
    ) -> impl Iterator<Item = &'a Entry> + use<'a> {
        let inner = self.inner;
        let order = match lookup {
            Lookup::All => inner.order.as_ref(),
            Lookup::Owner(uid) => inner.by_owner.of(uid),
            Lookup::Index { key, value } => {
                let declared = inner.indexes.iter().find(|declared| declared.key == *key);
                declared.and_then(|declared| declared.index.of(value))
            }
        };

        let slots = &inner.slots;
        let sorted = (*lookup == Lookup::All && order.is_none()).then(|| sorted(slots));
        // The page may start after a key from before the namespace.
        let is_before = move |slot| {
            let key = key_of(slots, slot);
            after.is_some_and(|after| key <= (after.namespace.as_deref(), after.name.as_str()))
                || (namespace.is_some() && key < (namespace, ""))
        };
        let found = order
            .into_iter()
            .flat_map(move |order| order.from(is_before));
        let sorted = sorted
            .into_iter()
            .flatten()
            .skip_while(move |slot| is_before(*slot));
        let found = found.chain(sorted);
        let entries = found.filter_map(|slot| inner.slots[slot as usize].as_ref());

        entries.take_while(move |entry| {
            namespace.is_none() || entry.metadata().namespace() == namespace
        })
    }
}
