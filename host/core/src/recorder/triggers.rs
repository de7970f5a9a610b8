//! Triggers of queued keys.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::{
    MAX_TRIGGERS,
    record::{Cause, ObjectRef, Trigger},
};
use crate::{handler::event::Event, object::ObjectKey};

/// How many triggers to keep for one controller's queued keys. Further ones are dropped.
const MAX_PENDING: usize = 8_192;
/// An empty map keeps its memory up to this many keys.
const KEPT: usize = 256;

/// One key's triggers since its last reconcile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Triggers {
    /// The triggers in order; at most [`MAX_TRIGGERS`].
    pub first: Vec<Trigger>,
    /// How many more there were.
    pub more: u32,
}

impl Triggers {
    /// Adds a trigger if there is room, and reports whether it did. A repetition of the last one is
    /// ignored.
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

/// Triggers of one controller's queued keys.
#[derive(Default)]
pub(crate) struct PendingTriggers(Mutex<ByKey>);

#[derive(Default)]
struct ByKey {
    triggers: HashMap<ObjectKey, Triggers>,
    /// Number of triggers in the map.
    kept: usize,
}

impl PendingTriggers {
    pub(crate) fn add(&self, key: &ObjectKey, trigger: Trigger) {
        let mut pending = self.0.lock();
        let ByKey { triggers, kept } = &mut *pending;
        let is_room = *kept < MAX_PENDING;
        let of_key = match triggers.get_mut(key) {
            Some(of_key) => of_key,
            None if is_room => triggers.entry(key.clone()).or_default(),
            None => return,
        };
        *kept += usize::from(of_key.add(trigger, is_room));
    }

    /// Puts back the triggers of a failed reconcile, before those that came meanwhile.
    pub(crate) fn restore(&self, key: &ObjectKey, failed: Triggers) {
        let mut pending = self.0.lock();
        let ByKey { triggers, kept } = &mut *pending;
        if *kept >= MAX_PENDING || failed.first.is_empty() {
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

    /// Takes the triggers of a key about to be reconciled.
    pub(crate) fn take(&self, key: &ObjectKey) -> Triggers {
        let mut pending = self.0.lock();
        let taken = pending.triggers.remove(key).unwrap_or_default();
        pending.kept -= taken.first.len();
        if pending.triggers.is_empty() && pending.triggers.capacity() > KEPT {
            pending.triggers = HashMap::new();
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
            Event::Modified { .. } if event.is_resync() => Cause::Resync,
            Event::Modified { .. } => Cause::Modified,
            Event::Deleted { .. } => Cause::Deleted,
        };

        let resource_version = object.resource_version().to_owned();
        Self {
            cause,
            object: Some(ObjectRef::of(object)),
            resource_version,
        }
    }

    /// Describes a trigger without an event.
    pub fn without_event(cause: Cause) -> Self {
        Self {
            cause,
            object: None,
            resource_version: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_of_key_are_merged_up_to_a_bound() {
        let pending = PendingTriggers::default();
        let key = ObjectKey::namespaced("n", "a");
        let trigger = |version: usize| Trigger {
            resource_version: version.to_string(),
            ..Trigger::without_event(Cause::Modified)
        };
        (0..MAX_TRIGGERS + 3).for_each(|version| pending.add(&key, trigger(version)));
        pending.add(&ObjectKey::namespaced("n", "b"), trigger(1));
        let taken = pending.take(&key);
        assert_eq!((taken.first.len(), taken.more), (MAX_TRIGGERS, 3));
        assert_eq!(taken.first[0], trigger(0), "the first one, which began it");
        assert_eq!(
            pending.take(&key),
            Triggers::default(),
            "they are taken once"
        );
    }

    #[test]
    fn triggers_of_a_failed_reconcile_come_first() {
        let pending = PendingTriggers::default();
        let key = ObjectKey::namespaced("n", "a");
        let trigger = |version: usize| Trigger {
            resource_version: version.to_string(),
            ..Trigger::without_event(Cause::Modified)
        };
        pending.add(&key, trigger(1));
        let failed = pending.take(&key);
        (2..12).for_each(|version| pending.add(&key, trigger(version)));
        pending.restore(&key, failed);
        assert_eq!(pending.0.lock().kept, MAX_TRIGGERS);
        let taken = pending.take(&key);
        assert_eq!((taken.first.len(), taken.more), (MAX_TRIGGERS, 3));
        assert_eq!(
            [&taken.first[0], &taken.first[1]],
            [&trigger(1), &trigger(2)]
        );
        assert_eq!(pending.0.lock().kept, 0);
    }

    #[test]
    fn waiting_triggers_are_bounded_and_room_returns() {
        let pending = PendingTriggers::default();
        let key = |number: usize| ObjectKey::namespaced("n", number.to_string());
        let retry = || Trigger::without_event(Cause::Retry);
        (0..2 * MAX_PENDING).for_each(|number| pending.add(&key(number), retry()));
        assert_eq!(
            pending.take(&key(MAX_PENDING)),
            Triggers::default(),
            "there was no room"
        );
        (0..MAX_PENDING).for_each(|number| assert_eq!(pending.take(&key(number)).first.len(), 1));
        assert_eq!(
            pending.0.lock().triggers.capacity(),
            0,
            "an empty map returns its memory"
        );
        pending.add(&key(0), retry());
        assert_eq!(pending.take(&key(0)).first, [retry()]);
    }

    #[test]
    fn repeated_trigger_counts_once() {
        let pending = PendingTriggers::default();
        let key = ObjectKey::namespaced("n", "a");
        (0..3).for_each(|_| pending.add(&key, Trigger::without_event(Cause::Retry)));
        assert_eq!(
            pending.take(&key),
            Triggers {
                first: vec![Trigger::without_event(Cause::Retry)],
                more: 0
            }
        );
    }
}
