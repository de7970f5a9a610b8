//! The state behind the store's lock.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use tokio::sync::watch;

use super::{
    error::{LogError, StoreError},
    key::ObjectKey,
    log::{Log, Record, Replayer, Snapshot},
    object::{Draft, StoredObject},
    window::{Event, EventKind, Events, Window},
};
use crate::apimachinery::group_resource::GroupResource;

/// The objects of one resource, by key.
pub(super) type Objects = BTreeMap<ObjectKey, Arc<StoredObject>>;

/// The revision of an empty store, like etcd's after its first write. It is not 0, which means "any"
/// in requests.
const FIRST_REVISION: u64 = 1;

/// The objects, the window and the log.
pub(super) struct Inner {
    /// The revision of the last change.
    revision: u64,
    objects: HashMap<GroupResource, Objects>,
    events: Events,
    /// The revision of the last change of each resource.
    changed: HashMap<GroupResource, u64>,
    /// A sender for each resource that is watched, or was since the last compaction, with the
    /// revision of the resource's last change.
    signals: HashMap<GroupResource, watch::Sender<u64>>,
    /// Carries the revision of the last change of any resource.
    any: watch::Sender<u64>,
    log: Option<Log>,
}

impl Inner {
    pub fn new(window: Window) -> Self {
        Self {
            revision: FIRST_REVISION,
            objects: HashMap::new(),
            events: Events::new(window, FIRST_REVISION),
            changed: HashMap::new(),
            signals: HashMap::new(),
            any: watch::Sender::new(0),
            log: None,
        }
    }

    /// Copies the objects at their revision, without past changes, watches and log.
    pub fn copy(&self, window: Window) -> Self {
        Self {
            revision: self.revision,
            objects: self.objects.clone(),
            events: Events::new(window, self.revision),
            changed: self.changed.clone(),
            signals: HashMap::new(),
            any: watch::Sender::new(0),
            log: None,
        }
    }

    pub fn attach(&mut self, log: Log) {
        self.log = Some(log);
    }

    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The revision of a resource's last change; 0 if it has not changed since the start.
    pub fn changed(&self, resource: &GroupResource) -> u64 {
        self.changed.get(resource).copied().unwrap_or_default()
    }

    pub fn compacted(&self, resource: &GroupResource) -> u64 {
        self.events.compacted(resource)
    }

    pub fn events(&self) -> &Events {
        &self.events
    }

    pub fn objects(&self, resource: &GroupResource) -> Option<&Objects> {
        self.objects.get(resource)
    }

    pub fn count(&self, resource: &GroupResource) -> usize {
        self.objects.get(resource).map_or(0, BTreeMap::len)
    }

    pub fn get(&self, resource: &GroupResource, key: &ObjectKey) -> Option<Arc<StoredObject>> {
        self.objects.get(resource)?.get(key).cloned()
    }

    pub fn create(
        &mut self,
        resource: &GroupResource,
        key: &ObjectKey,
        draft: Draft,
    ) -> Result<Arc<StoredObject>, StoreError> {
        if self
            .objects
            .get(resource)
            .is_some_and(|objects| objects.contains_key(key))
        {
            return Err(StoreError::AlreadyExists);
        }

        self.store(
            resource,
            StoredObject::new(key.clone(), self.revision + 1, draft),
            None,
        )
    }

    pub fn update(
        &mut self,
        resource: &GroupResource,
        key: &ObjectKey,
        draft: Draft,
        expected: u64,
    ) -> Result<Arc<StoredObject>, StoreError> {
        let previous = self.expect(resource, key, expected)?;
        self.store(
            resource,
            StoredObject::new(key.clone(), self.revision + 1, draft),
            Some(previous),
        )
    }

    pub fn delete(
        &mut self,
        resource: &GroupResource,
        key: &ObjectKey,
        expected: u64,
    ) -> Result<Arc<StoredObject>, StoreError> {
        let previous = self.expect(resource, key, expected)?;

        let revision = self.revision + 1;
        self.append(&Record::delete(revision, resource, key))?;
        Replayer::remove(self, resource, key);

        let object = Arc::new(previous.at_revision(revision));
        let event = Event {
            kind: EventKind::Deleted,
            object: Arc::clone(&object),
            previous: Some(previous),
        };

        self.publish(resource, event);
        Ok(object)
    }

    fn expect(
        &self,
        resource: &GroupResource,
        key: &ObjectKey,
        expected: u64,
    ) -> Result<Arc<StoredObject>, StoreError> {
        let object = self.get(resource, key).ok_or(StoreError::NotFound)?;

        if object.revision() == expected {
            Ok(object)
        } else {
            Err(StoreError::Conflict {
                current: object.revision(),
            })
        }
    }

    fn store(
        &mut self,
        resource: &GroupResource,
        object: StoredObject,
        previous: Option<Arc<StoredObject>>,
    ) -> Result<Arc<StoredObject>, StoreError> {
        self.append(&Record::put(resource, &object))?;
        let object = self.insert(resource, object);

        let kind = if previous.is_some() {
            EventKind::Updated
        } else {
            EventKind::Created
        };

        self.publish(
            resource,
            Event {
                kind,
                object: Arc::clone(&object),
                previous,
            },
        );

        Ok(object)
    }

    fn append(&mut self, record: &Record) -> Result<(), LogError> {
        let Some(log) = self.log.as_mut() else {
            return Ok(());
        };
        log.append(record)
    }

    fn publish(&mut self, resource: &GroupResource, event: Event) {
        self.revision = event.revision();

        match self.changed.get_mut(resource) {
            Some(changed) => *changed = self.revision,
            None => drop(self.changed.insert(resource.clone(), self.revision)),
        }

        self.events.push(resource, event);

        if let Some(signal) = self.signals.get(resource) {
            signal.send_replace(self.revision);
        }
        self.any.send_replace(self.revision);

        if self.log.as_ref().is_some_and(Log::is_bloated)
            && let Err(error) = self.compact_file()
        {
            tracing::warn!("failed to compact the data file, going on with the old one: {error}");
        }
    }

    /// Inserts an object without an event.
    fn insert(&mut self, resource: &GroupResource, object: StoredObject) -> Arc<StoredObject> {
        let object = Arc::new(object);

        let objects = match self.objects.get_mut(resource) {
            Some(objects) => objects,
            None => self.objects.entry(resource.clone()).or_default(),
        };

        objects.insert(object.key().clone(), Arc::clone(&object));
        object
    }

    pub fn compact(&mut self) {
        self.events.clear(self.revision);
        for signal in self.signals.values() {
            signal.send_replace(self.revision);
        }
        self.any.send_replace(self.revision);
    }

    /// Removes the changes up to a revision from the window, and what ended watches have left.
    pub fn compact_to(&mut self, revision: u64) {
        self.events.compact(revision);
        self.signals.retain(|_, signal| signal.receiver_count() > 0);
        self.signals.shrink_to_fit();
    }

    pub fn compact_file(&mut self) -> Result<(), LogError> {
        let Some(mut log) = self.log.take() else {
            return Ok(());
        };
        let result = log.rewrite(&self.snapshot());
        self.log = Some(log);
        result
    }

    pub fn subscribe(
        &mut self,
        resource: &GroupResource,
        revision: u64,
    ) -> Result<watch::Receiver<u64>, StoreError> {
        self.check_window(resource, revision)?;
        let signal = self
            .signals
            .entry(resource.clone())
            .or_insert_with(|| watch::Sender::new(0));
        Ok(signal.subscribe())
    }

    pub fn subscribe_to_all(&self) -> watch::Receiver<u64> {
        self.any.subscribe()
    }

    /// All changes after a revision, in order.
    pub fn events_after(
        &self,
        revision: u64,
    ) -> Result<impl Iterator<Item = (GroupResource, Arc<Event>)> + '_, StoreError> {
        // Revisions are consecutive, and the window holds the last ones.
        let oldest = self.revision - self.events.len() as u64;
        let skipped = revision.checked_sub(oldest).ok_or(StoreError::Compacted {
            requested: revision,
            oldest,
        })?;

        Ok(self
            .events
            .in_order(usize::try_from(skipped).unwrap_or(usize::MAX), revision))
    }

    pub fn all_objects(&self) -> Vec<(GroupResource, Arc<StoredObject>)> {
        self.snapshot().objects
    }

    /// Checks that all changes of a resource after a revision are in the window.
    pub fn check_window(&self, resource: &GroupResource, revision: u64) -> Result<(), StoreError> {
        let oldest = self.compacted(resource);
        if revision < oldest {
            Err(StoreError::Compacted {
                requested: revision,
                oldest,
            })
        } else {
            Ok(())
        }
    }
}

impl Replayer for Inner {
    fn put(&mut self, resource: &GroupResource, object: StoredObject) {
        self.insert(resource, object);
    }

    fn remove(&mut self, resource: &GroupResource, key: &ObjectKey) {
        let Some(objects) = self.objects.get_mut(resource) else {
            return;
        };

        objects.remove(key);
        if objects.is_empty() {
            self.objects.remove(resource);
        }
    }

    fn resume_at(&mut self, revision: u64) {
        self.revision = self.revision.max(revision);
        self.compact();
    }

    fn snapshot(&self) -> Snapshot {
        let objects = self.objects.iter().flat_map(|(resource, objects)| {
            objects
                .values()
                .map(move |object| (resource.clone(), Arc::clone(object)))
        });

        Snapshot {
            revision: self.revision,
            objects: objects.collect(),
        }
    }
}
