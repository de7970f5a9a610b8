//! The triggers of keys that wait to be reconciled.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::{
    MAX_TRIGGERS,
    record::{Cause, ObjectRef, Trigger},
};
use crate::{handler::event::Event, object::ObjectKey};

/// The maximum number of triggers that wait for their reconcile in one controller. Further ones are unknown.
const MAX_WAITING: usize = 8_192;
/// The number of keys for which an empty map keeps its memory.
const KEPT: usize = 256;

/// The triggers of one key since its last reconcile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Triggers {
    /// The triggers, the first one first; at most [`MAX_TRIGGERS`].
    pub first: Vec<Trigger>,
    /// The number of further ones.
    pub more: u32,
}

impl Triggers {
    /// Adds a trigger if there is room, and reports whether it has. One that repeats the last one counts once.
    fn add(&mut self, trigger: Trigger, is_room: bool) -> bool {
        if self.first.last() == Some(&trigger) {
            return false;
        }
        let is_kept = is_room && self.first.len() < MAX_TRIGGERS;
        match is_kept {
            true => self.first.push(trigger),
            false => self.more = self.more.saturating_add(1),
        }
        is_kept
    }
}

/// The triggers of the keys of one controller.
#[derive(Default)]
pub(crate) struct Waiting(Mutex<ByKey>);

#[derive(Default)]
struct ByKey {
    triggers: HashMap<ObjectKey, Triggers>,
    /// The number of all triggers that are kept.
    kept: usize,
}

impl Waiting {
    /// Adds a trigger of a key.
    pub(crate) fn add(&self, key: &ObjectKey, trigger: Trigger) {
        let mut waiting = self.0.lock();
        let ByKey { triggers, kept } = &mut *waiting;
        let is_room = *kept < MAX_WAITING;
        let of_key = match triggers.get_mut(key) {
            Some(of_key) => of_key,
            None if is_room => triggers.entry(key.clone()).or_default(),
            None => return,
        };
        *kept += usize::from(of_key.add(trigger, is_room));
    }

    /// Returns the triggers of a failed reconcile before those that came meanwhile.
    pub(crate) fn restore(&self, key: &ObjectKey, failed: Triggers) {
        let mut waiting = self.0.lock();
        let ByKey { triggers, kept } = &mut *waiting;
        if *kept >= MAX_WAITING || failed.first.is_empty() {
            return;
        }
        let of_key = triggers.entry(key.clone()).or_default();
        let later = std::mem::replace(of_key, failed);
        *kept -= later.first.len();
        of_key.more = of_key.more.saturating_add(later.more);
        for trigger in later.first {
            of_key.add(trigger, true);
        }
        *kept += of_key.first.len();
    }

    /// Takes the triggers of a key that is reconciled now.
    pub(crate) fn take(&self, key: &ObjectKey) -> Triggers {
        let mut waiting = self.0.lock();
        let taken = waiting.triggers.remove(key).unwrap_or_default();
        waiting.kept -= taken.first.len();
        if waiting.triggers.is_empty() && waiting.triggers.capacity() > KEPT {
            waiting.triggers = HashMap::new();
        }
        taken
    }
}

impl Trigger {
    /// Describes an event.
    pub fn of_event(event: &Event) -> Self {
        let object = event.object();
        let cause = match event {
            Event::Added { initial: true, .. } => Cause::Initial,
            Event::Added { .. } => Cause::Added,
            Event::Modified { old, object } if std::sync::Arc::ptr_eq(old, object) => Cause::Resync,
            Event::Modified { .. } => Cause::Modified,
            Event::Deleted { .. } => Cause::Deleted,
        };
        let resource_version = object.resource_version().to_owned();
        Self { cause, object: Some(ObjectRef::of(object)), resource_version }
    }

    /// Describes a trigger without an event.
    pub fn without_event(cause: Cause) -> Self {
        Self { cause, object: None, resource_version: String::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_of_key_are_merged_up_to_a_bound() {
        let waiting = Waiting::default();
        let key = ObjectKey::namespaced("n", "a");
        let trigger = |version: usize| Trigger {
            resource_version: version.to_string(),
            ..Trigger::without_event(Cause::Modified)
        };
        (0..MAX_TRIGGERS + 3).for_each(|version| waiting.add(&key, trigger(version)));
        waiting.add(&ObjectKey::namespaced("n", "b"), trigger(1));
        let taken = waiting.take(&key);
        assert_eq!((taken.first.len(), taken.more), (MAX_TRIGGERS, 3));
        assert_eq!(taken.first[0], trigger(0), "the first one, which began it");
        assert_eq!(waiting.take(&key), Triggers::default(), "they are taken once");
    }

    #[test]
    fn triggers_of_a_failed_reconcile_come_first() {
        let waiting = Waiting::default();
        let key = ObjectKey::namespaced("n", "a");
        let trigger = |version: usize| Trigger {
            resource_version: version.to_string(),
            ..Trigger::without_event(Cause::Modified)
        };
        waiting.add(&key, trigger(1));
        let failed = waiting.take(&key);
        (2..12).for_each(|version| waiting.add(&key, trigger(version)));
        waiting.restore(&key, failed);
        assert_eq!(waiting.0.lock().kept, MAX_TRIGGERS);
        let taken = waiting.take(&key);
        assert_eq!((taken.first.len(), taken.more), (MAX_TRIGGERS, 3));
        assert_eq!([&taken.first[0], &taken.first[1]], [&trigger(1), &trigger(2)]);
        assert_eq!(waiting.0.lock().kept, 0);
    }

    #[test]
    fn waiting_triggers_are_bounded_and_room_returns() {
        let waiting = Waiting::default();
        let key = |number: usize| ObjectKey::namespaced("n", number.to_string());
        let retry = || Trigger::without_event(Cause::Retry);
        (0..2 * MAX_WAITING).for_each(|number| waiting.add(&key(number), retry()));
        assert_eq!(waiting.take(&key(MAX_WAITING)), Triggers::default(), "there was no room");
        (0..MAX_WAITING).for_each(|number| assert_eq!(waiting.take(&key(number)).first.len(), 1));
        assert_eq!(waiting.0.lock().triggers.capacity(), 0, "an empty map returns its memory");
        waiting.add(&key(0), retry());
        assert_eq!(waiting.take(&key(0)).first, [retry()]);
    }

    #[test]
    fn repeated_trigger_counts_once() {
        let waiting = Waiting::default();
        let key = ObjectKey::namespaced("n", "a");
        (0..3).for_each(|_| waiting.add(&key, Trigger::without_event(Cause::Retry)));
        assert_eq!(waiting.take(&key), Triggers { first: vec![Trigger::without_event(Cause::Retry)], more: 0 });
    }
}
