//! Changes to a store's slots, table, order and indexes, under its lock.

use operetta_core::object::{Object, ObjectKey};

use super::*;

impl Inner {
    pub(super) fn raise_revision(&mut self, object: &Object) {
        self.revision = self.revision.max(object.revision().unwrap_or_default());
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let indexes: usize = self
            .indexes
            .iter()
            .map(|declared| declared.index.heap_bytes())
            .sum();
        let order = self
            .order
            .as_ref()
            .map_or(0, |_| self.by_key.len() * POSITION);
        self.bytes + order + self.by_owner.heap_bytes() + indexes
    }

    /// Counts one more user of an index. False if nobody has declared it.
    pub(super) fn joins(&mut self, index: &IndexKey) -> bool {
        let declared = self
            .indexes
            .iter_mut()
            .find(|declared| declared.key == *index);
        declared.map(|declared| declared.users += 1).is_some()
    }

    pub(super) fn position(&self, key: &ObjectKey) -> SlotPosition {
        // Half of a good hash is a good hash.
        let hash = self
            .hasher
            .hash_one((key.namespace.as_deref(), key.name.as_str())) as u32;
        let is_key = |entry: &Entry| entry.metadata().is(key.namespace.as_deref(), &key.name);
        let found = |(other, slot): &(u32, u32)| {
            *other == hash && self.slots[*slot as usize].as_ref().is_some_and(is_key)
        };
        let slot = self.by_key.find(spread(hash), found).map(|(_, slot)| *slot);
        SlotPosition { hash, slot }
    }

    pub(super) fn find(&self, key: &ObjectKey) -> Option<u32> {
        self.position(key).slot
    }

    /// Inserts an object; `old` is the current object of its key.
    pub(super) fn put(
        &mut self,
        position: SlotPosition,
        entry: Entry,
        object: &Object,
        old: Option<&Object>,
    ) {
        self.bytes += entry.heap_bytes();
        let slot = match position.slot {
            Some(slot) => {
                let before = self.slots[slot as usize].replace(entry);
                self.bytes -= before.map_or(0, |before| before.heap_bytes());
                slot
            }
            None => self.enter(entry, position.hash),
        };
        self.index(slot, old, Some(object));
    }

    pub(super) fn enter(&mut self, entry: Entry, hash: u32) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            // A store never has four billion objects.
            u32::try_from(self.slots.len() - 1).unwrap_or_default()
        });
        self.slots[slot as usize] = Some(entry);
        self.bytes += SLOT;
        self.by_key
            .insert_unique(spread(hash), (hash, slot), |(hash, _)| spread(*hash));

        if let Some(order) = &mut self.order {
            let slots = &self.slots;
            order.insert(slot, before(slots, key_of(slots, slot)));
        }

        slot
    }

    /// Removes an object from the store.
    pub(super) fn take(&mut self, position: SlotPosition, old: &Object) {
        let Some(slot) = position.slot else { return };
        self.index(slot, Some(old), None);
        if let Some(order) = &mut self.order {
            let slots = &self.slots;
            order.remove(slot, before(slots, key_of(slots, slot)));
        }

        if let Ok(found) = self
            .by_key
            .find_entry(spread(position.hash), |(_, other)| *other == slot)
        {
            found.remove();
        }

        let entry = self.slots[slot as usize].take();
        self.bytes -= SLOT + entry.map_or(0, |entry| entry.heap_bytes());
        self.free.push(slot);
    }

    pub(super) fn index(&mut self, slot: u32, old: Option<&Object>, new: Option<&Object>) {
        fn owner(of: Option<&Object>) -> Option<&str> {
            of?.controller().map(|owner| owner.uid.as_str())
        }

        self.by_owner
            .change(&self.slots, slot, owner(old), owner(new));
        for Declared { key, index, .. } in &mut self.indexes {
            let value = |of: Option<&Object>| key.value(of?);
            index.change(
                &self.slots,
                slot,
                value(old).as_deref(),
                value(new).as_deref(),
            );
        }
    }
}
