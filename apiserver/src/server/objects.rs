//! The objects of the store, as authorization and admission read them.

use std::{collections::HashMap, num::NonZeroUsize, sync::Arc};

use lru::LruCache;
use parking_lot::Mutex;
use serde_json::Value;

use crate::{
    authz::objects::Objects,
    server::WeakResources,
    store::{GroupResource, ListQuery, ObjectKey, Store, StoredObject},
};

/// The parsed objects of a resource at one of its revisions.
struct Cached {
    changed: u64,
    objects: Arc<Vec<(ObjectKey, Arc<Value>)>>,
}

/// The single objects that are kept parsed.
const SINGLE: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// An object with its resource and its revision.
type Single = LruCache<(GroupResource, ObjectKey), (u64, Arc<Value>)>;

/// Reads objects of the store as JSON values.
///
/// The objects of a resource that is listed are parsed once for each of its changes: bindings and
/// roles are read for each request and change seldom. So are single ones, such as the role of a
/// binding or the account of a token.
pub struct StoredObjects {
    store: Store,
    resources: WeakResources,
    cache: Mutex<HashMap<GroupResource, Cached>>,
    single: Mutex<Single>,
}

impl StoredObjects {
    pub(crate) fn new(store: Store, resources: WeakResources) -> Self {
        Self {
            store,
            resources,
            cache: Mutex::new(HashMap::new()),
            single: Mutex::new(LruCache::new(SINGLE)),
        }
    }

    fn parse(&self, resource: &GroupResource, object: &StoredObject) -> Option<Arc<Value>> {
        let mut value = object.to_value().ok()?;
        if let Some(resource) = self
            .resources
            .get()
            .preferred(resource.group(), resource.resource())
        {
            value["kind"] = resource.names.kind.as_str().into();
            value["apiVersion"] = resource.api_version().into();
        }

        Some(Arc::new(value))
    }

    /// Returns the objects of a resource in the order of their keys.
    fn all(&self, resource: &GroupResource) -> Arc<Vec<(ObjectKey, Arc<Value>)>> {
        // Read before the list: a change in between makes the cache outdated, not wrong.
        let changed = self.store.changed(resource);
        if let Some(cached) = self
            .cache
            .lock()
            .get(resource)
            .filter(|cached| cached.changed == changed)
        {
            return Arc::clone(&cached.objects);
        }

        let listing = self.store.list(resource, &ListQuery::default());
        let items = listing.map(|listing| listing.items).unwrap_or_default();
        let parsed = items
            .iter()
            .filter_map(|object| Some((object.key().clone(), self.parse(resource, object)?)))
            .collect();
        let objects = Arc::new(parsed);

        self.cache.lock().insert(
            resource.clone(),
            Cached {
                changed,
                objects: Arc::clone(&objects),
            },
        );

        objects
    }

    /// Forgets the parsed objects that have changed since, or are gone.
    pub(crate) fn forget_outdated(&self) {
        self.cache
            .lock()
            .retain(|resource, cached| cached.changed == self.store.changed(resource));

        let mut single = self.single.lock();
        let is_outdated = |(resource, key): &(GroupResource, ObjectKey), revision| {
            let object = self.store.get(resource, key);
            object.is_none_or(|object| object.revision() != revision)
        };
        let outdated: Vec<_> = single
            .iter()
            .filter(|(at, (revision, _))| is_outdated(at, *revision))
            .map(|(at, _)| at.clone())
            .collect();

        for at in &outdated {
            single.pop(at);
        }
    }
}

impl Objects for StoredObjects {
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let resource = GroupResource::new(group, resource);
        let key = ObjectKey::new(
            Some(namespace).filter(|namespace| !namespace.is_empty()),
            name,
        );
        let changed = self.store.changed(&resource);

        if let Some(cached) = self
            .cache
            .lock()
            .get(&resource)
            .filter(|cached| cached.changed == changed)
        {
            let found = cached
                .objects
                .binary_search_by(|(other, _)| other.cmp(&key))
                .ok();
            return found.map(|index| Arc::clone(&cached.objects[index].1));
        }

        let object = self.store.get(&resource, &key)?;
        let at = (resource, key);
        if let Some((revision, parsed)) = self.single.lock().get(&at)
            && *revision == object.revision()
        {
            return Some(Arc::clone(parsed));
        }

        let parsed = self.parse(&at.0, &object)?;
        self.single
            .lock()
            .put(at, (object.revision(), Arc::clone(&parsed)));

        Some(parsed)
    }

    fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<Arc<Value>> {
        let objects = self.all(&GroupResource::new(group, resource));
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        objects
            .iter()
            .filter(|(key, _)| key.is_in(namespace))
            .map(|(_, object)| Arc::clone(object))
            .collect()
    }
}
