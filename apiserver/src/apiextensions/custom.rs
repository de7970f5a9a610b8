//! The resources that CustomResourceDefinitions define.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use serde_json::Value;

use crate::{
    apiextensions::{admission::Crd, request::Target, version::CrdVersion},
    apimachinery::status::Status,
    apply::manager::CustomTypes,
    server::{
        Admitted, Column, Decoded, Names, Part, RequestBody, Resource, Resources, Rules, Scale,
        Strategy, Subresources, TableConvertor, decode_object,
    },
    store::GroupResource,
};

/// The verbs of a custom resource whose definition is being deleted.
const TERMINATING_VERBS: [&str; 5] = ["delete", "deletecollection", "get", "list", "watch"];
/// The verbs that a definition that is being deleted still serves, besides those in discovery:
/// finalizers have to go.
const UNLISTED_VERBS: [&str; 2] = ["patch", "update"];

/// A definition that is served.
pub(crate) struct Custom {
    pub crd: Crd,
    /// The types of its versions, for managed fields.
    pub types: CustomTypes,
    /// The revision of the definition.
    pub revision: u64,
    /// The revision of the last change of what it says: objects of before may lack its defaults.
    since: u64,
}

impl Custom {
    /// Prepares a stored definition for serving.
    ///
    /// # Errors
    ///
    /// A message about a definition that this server cannot serve.
    fn new(definition: &Value, revision: u64, since: u64) -> Result<Self, String> {
        let crd = Crd::from_value(definition).map_err(|error| error.to_string())?;
        let versions = definition["spec"]["versions"]
            .as_array()
            .into_iter()
            .flatten();
        let group = crd.definition().spec.group.as_str();
        let schemas = versions.map(|version| {
            let name = version["name"].as_str().unwrap_or_default();
            (
                format!("{group}/{name}"),
                version.pointer("/schema/openAPIV3Schema"),
            )
        });

        let kind = crd.definition().spec.names.kind.as_str();
        let preserves = crd.definition().spec.preserve_unknown_fields;
        let types =
            CustomTypes::new(kind, schemas, preserves).map_err(|error| error.to_string())?;

        Ok(Self {
            crd,
            types,
            revision,
            since,
        })
    }

    fn is_terminating(&self) -> bool {
        self.crd.definition().status.is_true("Terminating")
    }
}

/// The definitions that are served, by the resource that they define.
#[derive(Default)]
pub(crate) struct CustomResources {
    served: RwLock<HashMap<GroupResource, Arc<Custom>>>,
    /// Held while what is served changes: a definition may be brought to its end by several at
    /// once.
    changing: Mutex<()>,
}

impl CustomResources {
    /// Returns the definition of a resource.
    pub fn get(&self, resource: &GroupResource) -> Option<Arc<Custom>> {
        self.served.read().get(resource).cloned()
    }

    /// Returns the definitions that serve a group and version.
    pub fn in_version(&self, group: &str, version: &str) -> Vec<Arc<Custom>> {
        let serves = |custom: &Custom| {
            custom.crd.definition().spec.group == group
                && custom
                    .crd
                    .version(version)
                    .is_some_and(|version| version.is_served())
        };

        let mut found: Vec<_> = self
            .served
            .read()
            .values()
            .filter(|custom| serves(custom))
            .cloned()
            .collect();

        found.sort_by(|left, right| {
            left.crd
                .definition()
                .spec
                .names
                .plural
                .cmp(&right.crd.definition().spec.names.plural)
        });

        found
    }

    /// Returns all definitions, the oldest first.
    pub fn all(&self) -> Vec<Arc<Custom>> {
        let mut all: Vec<_> = self.served.read().values().cloned().collect();
        all.sort_by_key(|custom| custom.revision);
        all
    }

    /// Serves what a definition defines from now on, unless this revision or a later one is served.
    ///
    /// # Errors
    ///
    /// A message about a definition that this server cannot serve.
    pub fn serve(
        &self,
        definition: &Value,
        revision: u64,
        resources: &Resources,
    ) -> Result<(), String> {
        let _changing = self.changing.lock();
        let key = resource_of(definition);
        let served = self.get(&key);
        if served
            .as_ref()
            .is_some_and(|served| served.revision >= revision)
        {
            return Ok(());
        }

        // A change of the status alone does not change what is served.
        let is_same = |served: &Arc<Custom>| {
            let generation = |object: &Value| object["metadata"]["generation"].as_i64();
            let before = &served.crd.definition().metadata;
            before["uid"] == definition["metadata"]["uid"]
                && before["generation"].as_i64() == generation(definition)
        };

        let since = served
            .filter(is_same)
            .map_or(revision, |served| served.since);
        let custom = Arc::new(Custom::new(definition, revision, since)?);
        self.served.write().insert(key, Arc::clone(&custom));
        self.register_one(&custom, resources);

        Ok(())
    }

    /// Returns what is served, for another server. The prepared definitions are shared.
    pub fn copy(&self) -> Self {
        Self {
            served: RwLock::new(self.served.read().clone()),
            changing: Mutex::default(),
        }
    }

    /// Registers what is served.
    pub fn register(&self, resources: &Resources) {
        for custom in self.served.read().values() {
            self.register_one(custom, resources);
        }
    }

    fn register_one(&self, custom: &Arc<Custom>, resources: &Resources) {
        let mut versions: Vec<_> = custom
            .crd
            .versions()
            .iter()
            .filter(|version| version.is_served())
            .collect();

        versions
            .sort_by(|left, right| crate::apiextensions::version_order(right.name(), left.name()));

        let spec = &custom.crd.definition().spec;
        let described = versions
            .iter()
            .map(|version| describe(custom, version))
            .collect();
        resources.replace(&spec.group, &spec.names.plural, described);
        self.order_versions(&spec.group, resources);
    }

    /// Puts the newest stable version of a group first, over all of its resources.
    fn order_versions(&self, group: &str, resources: &Resources) {
        let mut versions = resources.versions(group);
        versions.sort_by(|left, right| crate::apiextensions::version_order(right, left));
        let order: Vec<&str> = versions.iter().map(String::as_str).collect();
        resources.set_version_order(group, &order);
    }

    /// Ceases to serve a resource as a definition of this revision or an earlier one defines it.
    pub fn remove(&self, resource: &GroupResource, revision: u64, resources: &Resources) {
        let _changing = self.changing.lock();
        if self
            .get(resource)
            .is_some_and(|served| served.revision <= revision)
        {
            self.served.write().remove(resource);
            resources.remove(resource.group(), resource.resource());
        }
    }
}

/// Returns the resource that a definition defines.
pub(crate) fn resource_of(definition: &Value) -> GroupResource {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let spec = &definition["spec"];
    GroupResource::new(&text(&spec["group"]), &text(&spec["names"]["plural"]))
}

fn describe(custom: &Arc<Custom>, version: &Arc<CrdVersion>) -> Resource {
    let definition = custom.crd.definition();
    let names = &definition.status.accepted_names;
    let scale = version.scale().map(|scale| Scale {
        spec_replicas: scale.spec_replicas_path.clone(),
        status_replicas: scale.status_replicas_path.clone(),
        label_selector: scale.label_selector_path.clone(),
    });

    let storage_version = custom
        .crd
        .storage_version()
        .map(|version| version.name().to_owned());
    let usual = Resource::custom(
        &definition.spec.group,
        version.name(),
        &names.kind,
        &names.plural,
        Arc::new(CustomKind {
            custom: Arc::clone(custom),
            version: Arc::clone(version),
        }),
    );

    let (verbs, unlisted_verbs) = if custom.is_terminating() {
        (TERMINATING_VERBS.to_vec(), UNLISTED_VERBS.to_vec())
    } else {
        (usual.verbs.clone(), Vec::new())
    };

    Resource {
        names: Names {
            kind: names.kind.clone(),
            list_kind: names.list_kind.clone(),
            plural: names.plural.clone(),
            singular: names.singular.clone(),
            short_names: names.short_names.clone(),
            categories: names.categories.clone(),
        },
        namespaced: version.is_namespaced(),
        verbs,
        rules: Rules {
            unlisted_verbs,
            storage_version,
            ..usual.rules.clone()
        },
        subresources: Subresources {
            status: version.has_status(),
            scale,
            others: BTreeMap::new(),
        },
        ..usual
    }
}

/// The behaviour of a version of a custom resource.
struct CustomKind {
    custom: Arc<Custom>,
    version: Arc<CrdVersion>,
}

/// Converts an object to a version. Stored objects have no type.
fn convert(object: &mut Value, version: &CrdVersion) {
    object["kind"] = version.kind().into();
    *object = version.convert(object.take());
    if let Some(members) = object.as_object_mut() {
        members.remove("kind");
        members.remove("apiVersion");
    }
}

impl TableConvertor for CustomKind {
    fn columns(&self) -> Vec<Column> {
        let columns = self.version.columns().definitions();
        columns
            .as_array()
            .into_iter()
            .flatten()
            .map(Column::from_value)
            .collect()
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match self.version.columns().cells(object, now) {
            Value::Array(cells) => cells,
            _ => Vec::new(),
        }
    }
}

impl Strategy for CustomKind {
    fn read(&self, body: &RequestBody<'_>) -> Result<Decoded, Status> {
        body.decode(|text| self.decode(text))
    }

    fn decode(&self, text: &[u8]) -> Result<Decoded, String> {
        // The API server decodes the metadata of custom resources by itself, so its fields have a
        // shorter path.
        let parsed = decode_object(self.version.kind(), text)
            .map_err(|error| error.replace("field ObjectMeta.metadata.", "field ObjectMeta."))?;
        let decoded = self.version.decode(parsed.object)?;
        let unknown = decoded
            .unknown_fields
            .iter()
            .map(|path| format!("unknown field \"{path}\""));

        // All duplicate fields come before the unknown ones.
        let mut problems: Vec<String> = parsed.problems.into_iter().chain(unknown).collect();
        problems.sort_by_key(|problem| !problem.starts_with("duplicate field"));

        Ok(Decoded {
            object: decoded.object,
            problems,
        })
    }

    fn complete_applied(&self, object: &Value) -> Result<Value, String> {
        Ok(self.version.complete_applied(object.clone()))
    }

    fn admit_create(&self, object: &Value, _now: Timestamp) -> Result<Admitted, Status> {
        self.version.admit_create(object.clone())
    }

    fn admit_update(
        &self,
        old: &Value,
        object: &Value,
        part: Part,
        _now: Timestamp,
    ) -> Result<Admitted, Status> {
        let target = if part == Part::Status {
            Target::Status
        } else {
            Target::Object
        };

        self.version.admit_update(object.clone(), old, target)
    }

    fn fields(&self, object: &Value) -> BTreeMap<String, String> {
        let versions = self.custom.crd.versions().iter();
        versions
            .flat_map(|version| version.selectable_fields(object))
            .collect()
    }

    fn field_names(&self) -> Vec<&str> {
        self.version.selectable_field_names().collect()
    }

    fn convert_from_stored(&self, object: &mut Value) -> Result<(), Status> {
        convert(object, &self.version);
        Ok(())
    }

    fn convert_to_stored(&self, object: &mut Value) -> Result<(), Status> {
        if let Some(version) = self.custom.crd.storage_version() {
            convert(object, version);
        }
        Ok(())
    }

    fn is_stored_version(&self) -> bool {
        self.version.is_storage()
    }

    fn reads_as_stored(&self, revision: u64) -> bool {
        self.version.is_storage() && revision >= self.custom.since
    }

    fn deprecation(&self) -> Option<String> {
        self.version.deprecation_warning()
    }
}
