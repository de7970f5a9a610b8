//! The premises of a test: objects in a given state, and kinds that the project does not define.

use std::{sync::Arc, time::Duration};

use operetta_apiserver::store::{Draft, GroupResource, ListQuery, ObjectKey as StoredKey};
use operetta_core::{
    gate::operation::{Delete, DeleteOptions, Get, Read, Write, WriteAction, WriteOptions},
    object::{ObjectKey, kind::GroupVersionKind},
    status::ErrorKind,
};
use operetta_kube::discovery::ApiResource;
use serde_json::{Map, Value, json};
use tokio::time::{sleep, timeout};

use super::cluster::{CATCHES_UP, Cluster, PATH, definitions, message_of};
use crate::commands::names;

/// Fields that the API server normally sets, which stay as a test gives them.
const KEPT: [&str; 4] = [
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
];
/// Fields that the API server sets and a new object must not have.
const NEVER_GIVEN: [&str; 4] = [
    "resourceVersion",
    "managedFields",
    "selfLink",
    "deletionGracePeriodSeconds",
];

/// A kind that a test defines.
pub struct Definition {
    pub kind: GroupVersionKind,
    pub plural: String,
    pub namespaced: bool,
    pub has_status: bool,
}

impl Definition {
    /// Guesses the plural by kubectl's rules.
    pub fn guess(kind: GroupVersionKind, namespaced: bool) -> Self {
        let plural = names::plural(&kind.kind);
        Self {
            kind,
            plural,
            namespaced,
            has_status: true,
        }
    }

    fn name(&self) -> String {
        format!("{}.{}", self.plural, self.kind.group())
    }

    fn version(&self, stored: bool) -> Value {
        let subresources = if self.has_status {
            json!({"status": {}})
        } else {
            json!({})
        };

        json!({
            "name": self.kind.version(), "served": true, "storage": stored, "subresources": subresources,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        })
    }

    fn object(&self) -> Value {
        let kind = &self.kind.kind;
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {
                "name": self.name(),
                // Without it, the API server refuses groups under *.k8s.io and *.kubernetes.io
                // (https://kep.k8s.io/2337).
                "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
            },
            "spec": {
                "group": self.kind.group(),
                "names": {
                    "kind": kind, "listKind": format!("{kind}List"), "plural": self.plural,
                    "singular": kind.to_lowercase(),
                },
                "scope": if self.namespaced { "Namespaced" } else { "Cluster" },
                "versions": [self.version(true)],
            },
        })
    }
}

impl Cluster {
    /// Defines a kind without a schema. A definition with another plural or scope is replaced as
    /// long as it has no objects.
    ///
    /// # Errors
    /// Returns a message about a definition that the API server refuses.
    pub async fn define(&mut self, definition: &Definition) -> Result<(), String> {
        if self.is_complete(definition.kind.group()) {
            return self.check_defined(definition).await;
        }

        if let Some(other) = self.other_definition(definition) {
            self.replace(&other).await?;
        }

        self.send_definition(definition).await?;
        self.resolve(&definition.kind)
            .await
            .map_err(|error| error.to_string())?;
        Ok(())
    }

    /// Checks that a kind of the project or of Kubernetes is what a test says about it.
    async fn check_defined(&mut self, definition: &Definition) -> Result<(), String> {
        let served = self
            .resolve(&definition.kind)
            .await
            .map_err(|error| error.to_string())?;

        let has_status = served.subresources.iter().any(|name| name == "status");
        if served.plural == definition.plural && (definition.has_status || !has_status) {
            return Ok(());
        }

        let status = if has_status { "with" } else { "without" };
        Err(format!(
            "it is defined as {:?}, {status} a status, by the project's crd.yaml or by Kubernetes",
            served.plural
        ))
    }

    async fn send_definition(&mut self, definition: &Definition) -> Result<(), String> {
        let path = format!("{PATH}/{}", definition.name());

        let found = self.send("GET", &path, None).await?;
        let response = if found.status == 200 {
            let mut object: Value =
                serde_json::from_str(&found.body).map_err(|error| error.to_string())?;

            let versions = object["spec"]["versions"]
                .as_array_mut()
                .ok_or("a definition without versions")?;

            match versions
                .iter_mut()
                .find(|version| version["name"] == definition.kind.version())
            {
                Some(version) => {
                    let is_stored = version["storage"] == true;
                    *version = definition.version(is_stored);
                }
                None => versions.push(definition.version(false)),
            }

            self.send("PUT", &path, Some(object.to_string())).await?
        } else {
            self.send("POST", PATH, Some(definition.object().to_string()))
                .await?
        };

        if (200..300).contains(&response.status) {
            Ok(())
        } else {
            Err(message_of(&response.body))
        }
    }

    /// The definition of the same kind with another plural or scope.
    fn other_definition(&self, definition: &Definition) -> Option<Value> {
        let listing = self
            .server
            .store()
            .list(&definitions(), &ListQuery::default())
            .ok()?;

        let stored = listing
            .items
            .iter()
            .filter_map(|stored| stored.to_value().ok());

        let is_other = |stored: &Value| {
            let spec = &stored["spec"];
            let is_namespaced = spec["scope"] == "Namespaced";
            spec["group"] == definition.kind.group()
                && spec["names"]["kind"] == *definition.kind.kind
                && (spec["names"]["plural"] != *definition.plural
                    || is_namespaced != definition.namespaced)
        };

        stored.into_iter().find(is_other)
    }

    /// Deletes a definition without objects, and waits until it is gone.
    async fn replace(&mut self, definition: &Value) -> Result<(), String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let plural = text(&definition["spec"]["names"]["plural"]);
        let resource = GroupResource::new(&text(&definition["spec"]["group"]), &plural);

        if self.server.store().count(&resource) > 0 {
            let scope = text(&definition["spec"]["scope"]);
            return Err(format!(
                "it has objects as {plural:?}, {scope}: define it before its first object is added"
            ));
        }

        let name = text(&definition["metadata"]["name"]);
        let deleted = self.send("DELETE", &format!("{PATH}/{name}"), None).await?;
        let key = StoredKey::cluster(&name);

        let gone = async {
            while self.server.store().get(&definitions(), &key).is_some() {
                sleep(Duration::from_millis(1)).await;
            }
        };

        let gone = timeout(CATCHES_UP, gone).await;
        gone.map_err(|_| format!("{name} is not deleted: {}", message_of(&deleted.body)))?;

        self.reconnect().map_err(|error| error.to_string())
    }

    /// Defines the kind of an object about to be created, unless it is served or its group is
    /// complete.
    ///
    /// # Errors
    /// Fails as [`Cluster::define`] does.
    pub async fn ensure_kind(
        &mut self,
        kind: &GroupVersionKind,
        namespaced: bool,
    ) -> Result<(), String> {
        if self.is_complete(kind.group()) {
            return Ok(());
        }

        let guess = Definition::guess(kind.clone(), namespaced);
        let definition = match self.resolve(kind).await {
            Err(error) if error.kind == ErrorKind::NotFound => guess,
            Ok(resource) if resource.namespaced != namespaced && self.has_none(&resource) => {
                let has_status = resource.subresources.iter().any(|name| name == "status");
                Definition {
                    plural: resource.plural.clone(),
                    has_status,
                    ..guess
                }
            }
            // The call itself gets the error.
            _ => return Ok(()),
        };

        self.define(&definition)
            .await
            .map_err(|error| format!("defining {kind}: {error}"))
    }

    fn has_none(&self, resource: &ApiResource) -> bool {
        self.server
            .store()
            .count(&GroupResource::new(resource.kind.group(), &resource.plural))
            == 0
    }

    fn is_complete(&self, group: &str) -> bool {
        self.complete_groups
            .iter()
            .any(|complete| complete == group)
    }

    /// Creates an object as a test's premise: the API server validates it and sets defaults. The
    /// object keeps its status, and its uid, creationTimestamp, generation and deletionTimestamp if
    /// given. Missing namespaces and kinds are created.
    ///
    /// # Errors
    /// Returns a message if the API server refuses the object.
    pub async fn add(&mut self, object: Value) -> Result<Value, String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kind = GroupVersionKind::new(text(&object["apiVersion"]), text(&object["kind"]));

        let metadata = &object["metadata"];
        let namespace =
            Some(text(&metadata["namespace"])).filter(|namespace| !namespace.is_empty());
        let key = ObjectKey {
            namespace,
            name: text(&metadata["name"]),
        };

        if key.name.is_empty() {
            return Err("it has no metadata.name".to_owned());
        }

        self.ensure_kind(&kind, key.namespace.is_some()).await?;
        let resource = self
            .resolve(&kind)
            .await
            .map_err(|error| error.to_string())?;

        if let Some(namespace) = key.namespace.as_deref().filter(|_| resource.namespaced) {
            self.ensure_namespace(namespace).await?;
        }

        if kind == GroupVersionKind::new("v1", "Namespace") {
            self.give_up_namespace(&key.name)?;
        }

        self.place(
            &Premise {
                kind,
                key,
                resource,
            },
            object,
        )
        .await
    }

    async fn place(&mut self, premise: &Premise, mut object: Value) -> Result<Value, String> {
        let kept = take_kept(&mut object);

        let status = object
            .get("status")
            .cloned()
            .filter(|status| !status.is_null());

        let is_ending = kept.contains_key("deletionTimestamp");
        if is_ending
            && object["metadata"]["finalizers"]
                .as_array()
                .is_none_or(Vec::is_empty)
        {
            return Err(
                "an object with a deletionTimestamp exists only while it has finalizers".to_owned(),
            );
        }

        let namespace = premise.key.namespace.clone();
        let create = WriteAction::Create {
            namespace,
            object: object.to_string(),
        };
        let mut created = self.write(premise, create).await?;

        let has_status = premise
            .resource
            .subresources
            .iter()
            .any(|name| name == "status");

        if let Some(status) = status.filter(|_| has_status) {
            created["status"] = status;
            let update = WriteAction::Update {
                key: premise.key.clone(),
                status: true,
                object: created.to_string(),
            };
            created = self.write(premise, update).await?;
        }

        if is_ending {
            let options = DeleteOptions::default();
            let delete = Delete {
                kind: premise.kind.clone(),
                key: premise.key.clone(),
                options,
            };
            self.session()
                .await?
                .delete(delete)
                .await
                .map_err(|error| error.to_string())?;
        }

        if kept.is_empty() {
            Ok(created)
        } else {
            self.amend(premise, kept).await
        }
    }

    async fn write(&mut self, premise: &Premise, action: WriteAction) -> Result<Value, String> {
        let write = Write {
            kind: premise.kind.clone(),
            action,
            options: WriteOptions::default(),
        };

        let written = self
            .session()
            .await?
            .write(write)
            .await
            .map_err(|error| error.to_string())?;

        serde_json::from_str(written.json()).map_err(|error| error.to_string())
    }

    /// Sets the server's fields that the test has given.
    async fn amend(
        &mut self,
        premise: &Premise,
        kept: Map<String, Value>,
    ) -> Result<Value, String> {
        let ApiResource { kind, plural, .. } = premise.resource.as_ref();
        let served = self
            .server
            .resources()
            .get(kind.group(), kind.version(), plural)
            .ok_or("it is not served")?;

        let key = StoredKey::new(premise.key.namespace.as_deref(), &premise.key.name);
        let store = self.server.store();
        let stored = store.get(&served.storage(), &key).ok_or("it was deleted")?;
        let mut object = stored.to_value().map_err(|error| error.to_string())?;

        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.extend(kept);
        }

        let draft = Draft::from_object(&object);
        let draft = draft.with_fields(served.strategy.fields(&object));
        store
            .update(&served.storage(), &key, draft, stored.revision())
            .map_err(|error| error.to_string())?;

        let get = Get {
            kind: premise.kind.clone(),
            key: premise.key.clone(),
            read: Read::Live,
        };

        let read = self
            .session()
            .await?
            .get(get)
            .await
            .map_err(|error| error.to_string())?;

        serde_json::from_str(read.json()).map_err(|error| error.to_string())
    }
}

/// An object that is being added.
struct Premise {
    kind: GroupVersionKind,
    key: ObjectKey,
    resource: Arc<ApiResource>,
}

/// Takes the fields to set after the creation, and removes those that may not be given.
fn take_kept(object: &mut Value) -> Map<String, Value> {
    let Some(metadata) = object["metadata"].as_object_mut() else {
        return Map::new();
    };

    for field in NEVER_GIVEN {
        metadata.remove(field);
    }

    let taken = KEPT
        .into_iter()
        .filter_map(|field| Some((field.to_owned(), metadata.remove(field)?)));

    taken.filter(|(_, value)| !value.is_null()).collect()
}
