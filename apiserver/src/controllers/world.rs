//! The store's objects as controllers see them: at one revision, with the references between them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use serde_json::{Value, json};

use super::object::{controller_of, namespace, owner_references, text, uid};
use crate::{
    server::{Resource, Resources},
    store::{EventKind, Follower, GroupResource, ObjectKey, Store, StoredObject},
};

/// The resources that controllers read. Of all others, the world only keeps the metadata that garbage
/// collection needs.
const READ: [(&str, &str); 19] = [
    ("", "configmaps"),
    ("", "endpoints"),
    ("", "namespaces"),
    ("", "nodes"),
    ("", "persistentvolumeclaims"),
    ("", "persistentvolumes"),
    ("", "pods"),
    ("", "replicationcontrollers"),
    ("", "resourcequotas"),
    ("", "serviceaccounts"),
    ("", "services"),
    ("apps", "controllerrevisions"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("batch", "jobs"),
    ("discovery.k8s.io", "endpointslices"),
    ("policy", "poddisruptionbudgets"),
];

/// The metadata that garbage collection needs.
const SLIM: [&str; 7] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "ownerReferences",
    "finalizers",
    "deletionTimestamp",
];

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub resource: GroupResource,
    pub object: ObjectKey,
}

impl Key {
    pub fn new(group: &str, resource: &str, namespace: Option<&str>, name: &str) -> Self {
        Self {
            resource: GroupResource::new(group, resource),
            object: ObjectKey::new(namespace, name),
        }
    }

    /// The key of the object that controls another, if it is of a kind.
    pub fn of_controller(
        object: &Value,
        (group, resource, kind): (&str, &str, &str),
    ) -> Option<Self> {
        let owner = controller_of(object).filter(|owner| owner["kind"] == kind)?;
        Some(Self::new(
            group,
            resource,
            Some(namespace(object)),
            text(owner, &["name"]),
        ))
    }

    pub fn is_of(&self, group: &str, resource: &str) -> bool {
        self.resource.resource() == resource && self.resource.group() == group
    }

    /// The namespace; empty for a cluster-scoped object.
    pub fn namespace(&self) -> &str {
        self.object.namespace().unwrap_or_default()
    }
}

/// A change of an object.
pub(super) struct Change {
    pub key: Key,
    pub old: Option<Arc<Value>>,
    pub new: Option<Arc<Value>>,
}

impl Change {
    /// The object after the change, or before its deletion.
    pub fn object(&self) -> &Value {
        self.new
            .as_ref()
            .or(self.old.as_ref())
            .map_or(&Value::Null, |object| object)
    }

    /// The object before and after the change, as far as it existed.
    pub fn both(&self) -> impl Iterator<Item = &Value> {
        self.old.iter().chain(&self.new).map(|object| &**object)
    }
}

/// The objects of the store at one revision.
pub(super) struct World {
    store: Store,
    resources: Resources,
    follower: Option<Follower>,
    objects: HashMap<GroupResource, BTreeMap<ObjectKey, Arc<Value>>>,
    /// The object of each UID.
    by_uid: HashMap<String, Key>,
    /// The objects that have an owner with a UID.
    dependents: HashMap<String, BTreeSet<Key>>,
}

impl World {
    pub fn new(store: Store, resources: Resources) -> Self {
        Self {
            store,
            resources,
            follower: None,
            objects: HashMap::new(),
            by_uid: HashMap::new(),
            dependents: HashMap::new(),
        }
    }

    pub async fn wait(&mut self) {
        if let Some(follower) = &mut self.follower {
            follower.wait().await;
        }
    }

    /// Takes in all changes since the last call. The first call returns everything.
    pub fn sync(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        loop {
            let Some(Ok(events)) = self.follower.as_mut().map(Follower::poll) else {
                changes.extend(self.reload());
                return changes;
            };
            if events.is_empty() {
                return changes;
            }

            for (resource, event) in events {
                let object = (event.kind != EventKind::Deleted)
                    .then(|| self.parse(&resource, &event.object))
                    .flatten();

                let key = Key {
                    resource,
                    object: event.object.key().clone(),
                };
                changes.extend(self.set(key, object));
            }
        }
    }

    /// Reads everything again, and returns how it differs from what was known.
    fn reload(&mut self) -> Vec<Change> {
        let (objects, follower) = self.store.follow();
        self.follower = Some(follower);

        let mut found = BTreeMap::new();
        for (resource, stored) in objects {
            let object = self.parse(&resource, &stored);
            found.insert(
                Key {
                    resource,
                    object: stored.key().clone(),
                },
                object,
            );
        }

        let known = self.objects.iter().flat_map(|(resource, objects)| {
            objects.keys().map(|object| Key {
                resource: resource.clone(),
                object: object.clone(),
            })
        });
        let mut gone: Vec<Key> = known.filter(|key| !found.contains_key(key)).collect();
        gone.sort();

        let mut changes: Vec<Change> = gone
            .into_iter()
            .filter_map(|key| self.set(key, None))
            .collect();
        changes.extend(
            found
                .into_iter()
                .filter_map(|(key, object)| self.set(key, object)),
        );

        changes
    }

    fn parse(&self, resource: &GroupResource, stored: &StoredObject) -> Option<Arc<Value>> {
        if resource.resource() == "events" {
            return None;
        }
        let mut value = stored.to_value().ok()?;

        if READ.contains(&(resource.group(), resource.resource())) {
            if let Some(resource) = self.resource(resource) {
                value["kind"] = resource.names.kind.as_str().into();
                value["apiVersion"] = resource.api_version().into();
            }
            return Some(Arc::new(value));
        }

        let mut metadata = value["metadata"].take();
        if let Value::Object(members) = &mut metadata {
            members.retain(|name, _| SLIM.contains(&name.as_str()));
        }

        Some(Arc::new(json!({"metadata": metadata})))
    }

    fn set(&mut self, key: Key, new: Option<Arc<Value>>) -> Option<Change> {
        let old = match &new {
            Some(object) => self
                .objects
                .entry(key.resource.clone())
                .or_default()
                .insert(key.object.clone(), Arc::clone(object)),
            None => self
                .objects
                .get_mut(&key.resource)
                .and_then(|objects| objects.remove(&key.object)),
        };

        if let Some(old) = &old {
            self.forget(&key, old);
        }

        if let Some(new) = &new {
            self.by_uid.insert(uid(new).to_owned(), key.clone());
            for owner in owner_references(new) {
                let owner = owner["uid"].as_str().unwrap_or_default().to_owned();
                self.dependents
                    .entry(owner)
                    .or_default()
                    .insert(key.clone());
            }
        }

        (old.is_some() || new.is_some()).then_some(Change { key, old, new })
    }

    fn forget(&mut self, key: &Key, object: &Value) {
        self.by_uid.remove(uid(object));

        for owner in owner_references(object) {
            let owner = owner["uid"].as_str().unwrap_or_default();
            if let Some(dependents) = self.dependents.get_mut(owner) {
                dependents.remove(key);
                if dependents.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
    }

    /// How a resource is served, in its preferred version.
    pub fn resource(&self, resource: &GroupResource) -> Option<Arc<Resource>> {
        self.resources
            .preferred(resource.group(), resource.resource())
    }

    /// The resource of a kind.
    pub fn resource_of_kind(&self, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let resources = self.resources.in_version(group, version)?;
        resources
            .into_iter()
            .find(|resource| resource.names.kind == kind)
    }

    /// All namespaced resources that support deletion, in their preferred versions.
    pub fn namespaced_resources(&self) -> Vec<Arc<Resource>> {
        let groups = self.resources.groups();
        let plurals = groups.iter().flat_map(|group| {
            let versions = self.resources.versions(group);
            let all = versions
                .iter()
                .filter_map(|version| self.resources.in_version(group, version))
                .flatten();
            all.map(|resource| resource.group_resource())
                .collect::<BTreeSet<_>>()
        });

        let resources = plurals.filter_map(|resource| self.resource(&resource));
        resources
            .filter(|resource| resource.namespaced && resource.verbs.contains(&"delete"))
            .collect()
    }

    pub fn get(&self, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(&key.resource)?.get(&key.object)
    }

    /// The objects of a resource in a namespace, ordered by name.
    pub fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<&Arc<Value>> {
        let start = ObjectKey::from(format!("{namespace}/").as_str());
        let objects = self.objects.get(&GroupResource::new(group, resource));
        let range = objects
            .into_iter()
            .flat_map(|objects| objects.range(start.clone()..));
        range
            .take_while(|(key, _)| key.namespace() == Some(namespace))
            .map(|(_, object)| object)
            .collect()
    }

    pub fn all(&self, group: &str, resource: &str) -> impl Iterator<Item = &Arc<Value>> {
        self.objects
            .get(&GroupResource::new(group, resource))
            .into_iter()
            .flat_map(BTreeMap::values)
    }

    /// The object with a UID.
    pub fn by_uid(&self, uid: &str) -> Option<&Key> {
        self.by_uid.get(uid)
    }

    /// The objects that have an owner with a UID.
    pub fn dependents(&self, uid: &str) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        let keys = self.dependents.get(uid).into_iter().flatten();
        keys.filter_map(|key| Some((key, self.get(key)?)))
    }

    /// The objects of a resource that are left in a namespace, even if controllers do not read them.
    pub fn remaining(&self, resource: &GroupResource, namespace: &str) -> Vec<Arc<StoredObject>> {
        let query = crate::store::ListQuery {
            namespace: Some(namespace),
            ..Default::default()
        };
        self.store
            .list(resource, &query)
            .map(|listing| listing.items)
            .unwrap_or_default()
    }
}
