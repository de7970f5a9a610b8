//! The window of past changes.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use super::{GroupResource, object::StoredObject};

/// The bounds of the window of past changes. Older changes are compacted.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// The most changes.
    pub events: usize,
    /// Roughly the most bytes of memory for the changes and for objects that only the window still
    /// holds.
    pub bytes: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            events: 8192,
            bytes: 16 << 20,
        }
    }
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The object was created.
    Created,
    /// The object was replaced.
    Updated,
    /// The object was deleted.
    Deleted,
}

/// A change of an object.
#[derive(Clone, Debug)]
pub struct Event {
    /// The kind of the change.
    pub kind: EventKind,
    /// The object after the change. A deleted one has its last state, at the revision of the
    /// deletion.
    pub object: Arc<StoredObject>,
    /// The object before the change.
    pub previous: Option<Arc<StoredObject>>,
}

impl Event {
    /// Returns the revision of the change.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.object.revision()
    }

    /// The bytes that the event takes in memory, roughly. The object after the change is not part of
    /// it: it is live, or the next event of it has it as the one before. Only a deleted one is a copy.
    fn footprint(&self) -> usize {
        let previous = self.previous.as_ref();
        let deleted = (self.kind == EventKind::Deleted).then(|| self.object.own_footprint());

        size_of::<Self>()
            + size_of::<GroupResource>()
            + previous.map_or(0, |previous| previous.footprint())
            + deleted.unwrap_or_default()
    }
}

/// The past changes: per resource, and the order of all of them.
pub(super) struct Events {
    limits: Window,
    /// The events of each resource that has any in the window, ordered by revision.
    by_resource: HashMap<GroupResource, VecDeque<Arc<Event>>>,
    /// The resource of each event in the window, ordered by revision.
    order: VecDeque<GroupResource>,
    bytes: usize,
    /// The revision at which everything was compacted.
    floor: u64,
    /// The revision of each resource's last event that has left the window.
    compacted: HashMap<GroupResource, u64>,
}

impl Events {
    pub fn new(limits: Window, floor: u64) -> Self {
        let by_resource = HashMap::new();
        Self {
            limits,
            by_resource,
            order: VecDeque::new(),
            bytes: 0,
            floor,
            compacted: HashMap::new(),
        }
    }

    /// The revision after which the window has every change of a resource.
    pub fn compacted(&self, resource: &GroupResource) -> u64 {
        self.compacted
            .get(resource)
            .copied()
            .unwrap_or_default()
            .max(self.floor)
    }

    pub fn push(&mut self, resource: &GroupResource, event: Event) {
        self.bytes += event.footprint();
        self.order.push_back(resource.clone());
        match self.by_resource.get_mut(resource) {
            Some(events) => events.push_back(Arc::new(event)),
            None => drop(
                self.by_resource
                    .insert(resource.clone(), VecDeque::from([Arc::new(event)])),
            ),
        }

        while self.order.len() > self.limits.events || self.bytes > self.limits.bytes {
            if !self.pop() {
                break;
            }
        }
    }

    /// Removes the oldest event.
    fn pop(&mut self) -> bool {
        let Some(resource) = self.order.pop_front() else {
            return false;
        };

        let Some(events) = self.by_resource.get_mut(&resource) else {
            return true;
        };

        let event = events.pop_front();
        if events.is_empty() {
            self.by_resource.remove(&resource);
        }
        if let Some(event) = event {
            self.bytes -= event.footprint();
            self.compacted.insert(resource, event.revision());
        }

        true
    }

    /// Removes the events up to a revision, and gives back the room that they took.
    pub fn compact(&mut self, revision: u64) {
        while self.first().is_some_and(|first| first <= revision) {
            self.pop();
        }

        self.order.shrink_to_fit();
        self.by_resource
            .values_mut()
            .for_each(VecDeque::shrink_to_fit);
    }

    /// The revision of the oldest event.
    fn first(&self) -> Option<u64> {
        let events = self.by_resource.get(self.order.front()?)?;
        events.front().map(|event| event.revision())
    }

    /// Removes all events.
    pub fn clear(&mut self, revision: u64) {
        self.by_resource.clear();
        self.order.clear();
        self.bytes = 0;
        self.floor = revision;
        self.compacted.clear();
    }

    /// The number of events in the window.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// The events of all resources, without the first `skipped`, which are those up to `revision`.
    pub fn in_order(
        &self,
        skipped: usize,
        revision: u64,
    ) -> impl Iterator<Item = (GroupResource, Arc<Event>)> + '_ {
        let mut cursors: HashMap<&GroupResource, usize> = HashMap::new();

        self.order
            .range(skipped.min(self.order.len())..)
            .filter_map(move |resource| {
                let events = self.by_resource.get(resource)?;
                let start = || events.partition_point(|event| event.revision() <= revision);
                let cursor = cursors.entry(resource).or_insert_with(start);

                *cursor += 1;
                Some((resource.clone(), Arc::clone(events.get(*cursor - 1)?)))
            })
    }

    /// A resource's events after a revision.
    pub fn after(
        &self,
        resource: &GroupResource,
        revision: u64,
    ) -> impl DoubleEndedIterator<Item = &Arc<Event>> {
        let events = self.by_resource.get(resource);
        let start = events.map_or(0, |events| {
            events.partition_point(|event| event.revision() <= revision)
        });

        events
            .into_iter()
            .flat_map(move |events| events.range(start..))
    }
}
