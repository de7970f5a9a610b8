//! The objects of a test cluster, and the API server's rules for writing them.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value, json};

use super::apply::{Manager, Owners};
use super::document::{bump_generation, finalizers, is_built_in, members_mut, metadata_mut, read, with_member};
use super::errors::{already_exists, conflict, invalid, not_found, unsupported};
use crate::backend::{Part, PatchRequest};
use crate::options::{DeleteOptions, Propagation};
use crate::{ApiError, ErrorKind, GroupVersionKind, ObjectKey, Status};

/// Built-in kinds without a status subresource and without a generation.
const PLAIN: [&str; 14] = [
    "ConfigMap",
    "Secret",
    "ServiceAccount",
    "Endpoints",
    "EndpointSlice",
    "Event",
    "LimitRange",
    "PodTemplate",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
    "StorageClass",
    "Lease",
];

type Id = (GroupVersionKind, ObjectKey);

/// The objects. Each has a name, a uid, a resourceVersion and a creationTimestamp.
#[derive(Clone, Debug, Default)]
pub(super) struct Store {
    objects: BTreeMap<Id, Value>,
    /// The managers of fields, of objects that were written through the API.
    owners: BTreeMap<Id, Owners>,
    /// The last resourceVersion; also the clock, in seconds, and the last uid.
    version: u64,
    no_status: HashSet<GroupVersionKind>,
}

impl Store {
    pub(super) fn set_no_status(&mut self, kind: GroupVersionKind) {
        self.no_status.insert(kind);
    }

    fn is_plain(kind: &GroupVersionKind) -> bool {
        is_built_in(kind) && PLAIN.contains(&&*kind.kind)
    }

    fn has_status(&self, kind: &GroupVersionKind) -> bool {
        !Self::is_plain(kind) && !self.no_status.contains(kind)
    }

    /// Adds an object as it is.
    ///
    /// # Errors
    /// Returns bad-request if the object has no name, and already-exists.
    pub(super) fn seed(&mut self, kind: &GroupVersionKind, key: &ObjectKey, text: &str) -> Result<(), ApiError> {
        let object = read(kind, key, text)?;
        let id = (kind.clone(), key.clone());
        if key.name.is_empty() {
            return Err(ApiError::new(ErrorKind::BadRequest, "it has no name"));
        }
        if self.objects.contains_key(&id) {
            return Err(already_exists(kind, key));
        }
        let object = self.stamp(kind, object, true);
        self.objects.insert(id, object);
        Ok(())
    }

    /// Sets the fields that the API server sets on a new object; with `keep` only those that are missing.
    fn stamp(&mut self, kind: &GroupVersionKind, mut object: Value, keep: bool) -> Value {
        self.version += 1;
        let metadata = metadata_mut(&mut object);
        let mut set = |name: &str, value: Value| {
            if !keep || !metadata.contains_key(name) {
                metadata.insert(name.to_owned(), value);
            }
        };
        set("uid", Value::from(format!("00000000-0000-4000-8000-{:012}", self.version)));
        set("resourceVersion", Value::from(self.version.to_string()));
        set("creationTimestamp", Value::from(self.now()));
        if !Self::is_plain(kind) {
            set("generation", Value::from(1));
        }
        object
    }

    /// Returns the time of a clock that advances with each write, and is the same in each run.
    fn now(&self) -> String {
        let seconds = self.version % 86_400;
        format!("2030-01-01T{:02}:{:02}:{:02}Z", seconds / 3_600, seconds / 60 % 60, seconds % 60)
    }

    pub(super) fn get(&self, kind: &GroupVersionKind, key: &ObjectKey) -> Result<&Value, ApiError> {
        self.objects.get(&(kind.clone(), key.clone())).ok_or_else(|| not_found(kind, key))
    }

    /// Returns the kinds of all objects.
    pub(super) fn kinds(&self) -> impl Iterator<Item = &GroupVersionKind> {
        self.objects.keys().map(|(kind, _)| kind)
    }

    /// Returns the objects of a kind, ordered by namespace, then name.
    pub(super) fn objects<'a>(
        &'a self,
        kind: &'a GroupVersionKind,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a Value)> {
        self.objects.iter().filter(move |((found, _), _)| found == kind).map(|((_, key), object)| (key, object))
    }

    pub(super) fn version(&self) -> String {
        self.version.to_string()
    }

    pub(super) fn create(
        &mut self,
        kind: &GroupVersionKind,
        namespace: Option<&str>,
        text: &str,
    ) -> Result<Value, ApiError> {
        let mut key = ObjectKey { namespace: namespace.map(str::to_owned), name: String::new() };
        let mut object = read(kind, &key, text)?;
        let has_status = self.has_status(kind);
        let metadata = metadata_mut(&mut object);
        let Some(name) = metadata.get("name").and_then(Value::as_str).filter(|name| !name.is_empty()) else {
            return Err(unsupported("generateName"));
        };
        name.clone_into(&mut key.name);
        if metadata.get("resourceVersion").is_some_and(|version| version != "") {
            let message = "resourceVersion should not be set on objects to be created".to_owned();
            let status = Status { code: 500, message, ..Status::default() };
            return Err(ApiError::with_status(ErrorKind::Unavailable, status));
        }
        for system in ["deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink"] {
            metadata.remove(system);
        }
        let id = (kind.clone(), key);
        if self.objects.contains_key(&id) {
            return Err(already_exists(kind, &id.1));
        }
        if has_status {
            members_mut(&mut object).remove("status");
        }
        let object = self.stamp(kind, object, false);
        self.objects.insert(id, object.clone());
        Ok(object)
    }

    pub(super) fn update(
        &mut self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        text: &str,
        part: Part,
    ) -> Result<Value, ApiError> {
        let old = self.get(kind, key)?.clone();
        let given = read(kind, key, text)?;
        if part == Part::Status && !self.has_status(kind) {
            let message = format!("{kind} has no status subresource");
            return Err(ApiError::new(ErrorKind::NotFound, message));
        }
        self.check_current(kind, key, &old, &given)?;
        let mut new = match part {
            Part::Status => with_member(&old, "status", given.get("status")),
            Part::Main if self.has_status(kind) => with_member(&given, "status", old.get("status")),
            Part::Main => given,
        };
        for system in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "generation",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        ] {
            let value = old["metadata"].get(system).cloned();
            let metadata = metadata_mut(&mut new);
            match value {
                Some(value) => metadata.insert(system.to_owned(), value),
                None => metadata.remove(system),
            };
        }
        check_finalizers(kind, key, &old, &new)?;
        if new == old {
            return Ok(old);
        }
        if !Self::is_plain(kind) && self.desired(kind, &old) != self.desired(kind, &new) {
            bump_generation(&mut new);
        }
        Ok(self.put(kind, key, new))
    }

    /// Stores a new version of an object. One that is being deleted is removed with its last finalizer.
    fn put(&mut self, kind: &GroupVersionKind, key: &ObjectKey, mut object: Value) -> Value {
        self.version += 1;
        metadata_mut(&mut object).insert("resourceVersion".to_owned(), Value::from(self.version.to_string()));
        let id = (kind.clone(), key.clone());
        if object["metadata"].get("deletionTimestamp").is_some() && finalizers(&object).is_empty() {
            self.objects.remove(&id);
        } else {
            self.objects.insert(id, object.clone());
        }
        object
    }

    /// Returns the part of an object whose changes make a new generation.
    fn desired(&self, kind: &GroupVersionKind, object: &Value) -> Map<String, Value> {
        let mut members = object.as_object().cloned().unwrap_or_default();
        members.remove("metadata");
        if self.has_status(kind) {
            members.remove("status");
        }
        members
    }

    /// Checks optimistic concurrency: the object that is sent must have the stored version.
    ///
    /// # Errors
    /// Returns a conflict, or invalid if a custom resource is sent without a version.
    fn check_current(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        old: &Value,
        given: &Value,
    ) -> Result<(), ApiError> {
        let field = |object: &Value, name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
        let uid = field(given, "uid");
        let version = field(given, "resourceVersion");
        if !uid.is_empty() && uid != field(old, "uid") {
            return Err(conflict(kind, key, &format!("Precondition failed: UID in precondition: {uid}")));
        }
        if version.is_empty() && !is_built_in(kind) {
            return Err(invalid(kind, key, "metadata.resourceVersion", "must be specified for an update"));
        }
        if !version.is_empty() && version != field(old, "resourceVersion") {
            return Err(conflict(
                kind,
                key,
                "the object has been modified; please apply your changes to the latest version and try again",
            ));
        }
        Ok(())
    }

    /// Applies (server-side apply): creates the object, or changes it to this manager's fields.
    ///
    /// # Errors
    /// Returns bad-request for a body that is not an object to apply, and a conflict with other managers.
    pub(super) fn apply(
        &mut self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        patch: &PatchRequest<'_>,
        part: Part,
        manager: &Manager,
    ) -> Result<Value, ApiError> {
        let bad = |message: &str| ApiError::new(ErrorKind::BadRequest, message);
        let mut applied: Value = serde_json::from_str(patch.body).map_err(|error| bad(&error.to_string()))?;
        let metadata = metadata_mut(&mut applied);
        if metadata.get("managedFields").is_some_and(|fields| !fields.is_null()) {
            return Err(bad("metadata.managedFields must be nil"));
        }
        metadata.entry("name").or_insert_with(|| Value::from(key.name.clone()));
        let mut applied = read(kind, key, &applied.to_string())?;
        let id = (kind.clone(), key.clone());
        let mut owners = self.owners.get(&id).cloned().unwrap_or_default();
        let Some(old) = self.objects.get(&id).cloned() else {
            if part == Part::Status {
                return Err(not_found(kind, key));
            }
            let made = self.create(kind, key.namespace.as_deref(), &applied.to_string())?;
            owners.apply(manager, &json!({}), &made, false, false)?;
            self.owners.insert(id, owners);
            return Ok(made);
        };
        let version = applied["metadata"].get("resourceVersion").cloned();
        let members = members_mut(&mut applied);
        match part {
            Part::Main if self.has_status(kind) => drop(members.remove("status")),
            Part::Main => {}
            Part::Status => members.retain(|name, _| ["apiVersion", "kind", "metadata", "status"].contains(&&**name)),
        }
        if part == Part::Status {
            metadata_mut(&mut applied).retain(|name, _| name == "name" || name == "namespace");
        }
        let mut new = owners.apply(manager, &old, &applied, patch.force, is_built_in(kind))?;
        if let Some(version) = version {
            metadata_mut(&mut new).insert("resourceVersion".to_owned(), version);
        }
        let new = self.update(kind, key, &new.to_string(), part)?;
        self.owners.insert(id, owners);
        Ok(new)
    }

    /// Records the manager of the fields that a write other than an apply has changed.
    pub(super) fn record_manager(
        &mut self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        manager: Manager,
        old: Option<&Value>,
    ) {
        let id = (kind.clone(), key.clone());
        match self.objects.get(&id) {
            Some(new) => self.owners.entry(id).or_default().record(manager, old, new),
            None => drop(self.owners.remove(&id)),
        }
    }

    pub(super) fn delete(
        &mut self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        if matches!(options.propagation, Some(Propagation::Foreground | Propagation::Orphan)) {
            return Err(unsupported("foreground and orphan deletion"));
        }
        let mut object = self.get(kind, key)?.clone();
        for (name, wanted) in [("uid", &options.uid), ("resourceVersion", &options.resource_version)] {
            let actual = object["metadata"][name].as_str().unwrap_or_default();
            if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != actual) {
                let message =
                    format!("Precondition failed: {name} in precondition: {wanted}, in object meta: {actual}");
                return Err(conflict(kind, key, &message));
            }
        }
        if finalizers(&object).is_empty() {
            self.version += 1;
            self.objects.remove(&(kind.clone(), key.clone()));
        } else if object["metadata"].get("deletionTimestamp").is_none() {
            let now = Value::from(self.now());
            let metadata = metadata_mut(&mut object);
            metadata.insert("deletionTimestamp".to_owned(), now);
            metadata.insert("deletionGracePeriodSeconds".to_owned(), Value::from(0));
            if !Self::is_plain(kind) {
                bump_generation(&mut object);
            }
            self.put(kind, key, object);
        }
        Ok(())
    }
}

fn check_finalizers(kind: &GroupVersionKind, key: &ObjectKey, old: &Value, new: &Value) -> Result<(), ApiError> {
    let deleting = old["metadata"].get("deletionTimestamp").is_some();
    if deleting && finalizers(new).iter().any(|finalizer| !finalizers(old).contains(finalizer)) {
        let message = "no new finalizers can be added if the object is being deleted";
        return Err(invalid(kind, key, "metadata.finalizers", message));
    }
    Ok(())
}
