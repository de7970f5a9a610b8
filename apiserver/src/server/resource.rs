//! Resources: what the server knows of a kind.

use std::{collections::BTreeMap, fmt, sync::Arc};

use jiff::Timestamp;
use serde_json::Value;

use super::{
    columns::Column,
    decode::{Admitted, Decoded},
    handler::Handler,
    read_object::RequestBody,
};
use crate::{
    apimachinery::{json, status::Status},
    store::GroupResource,
};

/// The machinery that serves a resource in the API server. Some answers differ between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flavor {
    /// A kind that is compiled into the API server.
    #[default]
    BuiltIn,
    /// A kind that a CustomResourceDefinition defines.
    Custom,
}

/// The paths of a resource's scale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The path of the wanted number of replicas, such as `.spec.replicas`.
    pub spec_replicas: String,
    /// The path of the observed number of replicas.
    pub status_replicas: String,
    /// The path of the selector as a text.
    pub label_selector: Option<String>,
}

/// The part of an object that a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The object without its status.
    Main,
    /// The status.
    Status,
    /// The finalizers in the spec of a namespace.
    Finalize,
}

/// How tables show the objects of a kind.
pub trait TableConvertor: Send + Sync {
    /// Returns the columns of the kind's table.
    fn columns(&self) -> Vec<Column>;

    /// Returns the cells of an object in these columns.
    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value>;

    /// Returns the conditions of an object's row, such as `Completed`.
    fn row_conditions(&self, _object: &Value) -> Vec<Value> {
        Vec::new()
    }
}

/// The behaviour of a kind: how its objects are read, completed, validated, stored and deleted.
pub trait Strategy: TableConvertor {
    /// Reads the object in the body of a create or update. The problems of the result are warnings.
    ///
    /// # Errors
    ///
    /// The refusal that the client gets.
    fn read(&self, body: &RequestBody<'_>) -> Result<Decoded, Status>;

    /// Reads an object from JSON: checks types, and removes unknown fields.
    ///
    /// # Errors
    ///
    /// The message of the API server's decoder, such as `json: cannot unmarshal number into Go
    /// struct field …`.
    fn decode(&self, text: &[u8]) -> Result<Decoded, String>;

    /// Completes an object that server-side apply made. Its fields were checked against the schema
    /// of the kind.
    ///
    /// # Errors
    ///
    /// As [`Strategy::decode`].
    fn complete_applied(&self, object: &Value) -> Result<Value, String> {
        self.decode(&json::to_vec(object))
            .map(|decoded| decoded.object)
    }

    /// Reserves what a new object needs besides its place in the store, before it is completed. Dry
    /// runs reserve nothing.
    ///
    /// # Errors
    ///
    /// The refusal that the client gets.
    fn reserve(&self, _object: &Value) -> Result<(), Status> {
        Ok(())
    }

    /// Completes and validates a new object. It has its type, its name, its namespace, its UID and
    /// its creation time.
    ///
    /// # Errors
    ///
    /// The refusal that the client gets.
    fn admit_create(&self, object: &Value, now: Timestamp) -> Result<Admitted, Status>;

    /// Completes and validates an object that replaces `old`. Both have their type. Fields that no
    /// client may change are taken from `old` first.
    ///
    /// # Errors
    ///
    /// The refusal that the client gets.
    fn admit_update(
        &self,
        old: &Value,
        object: &Value,
        part: Part,
        now: Timestamp,
    ) -> Result<Admitted, Status>;

    /// Returns the fields by which an object can be selected, besides its name and namespace.
    fn fields(&self, _object: &Value) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Returns the names of these fields.
    fn field_names(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Returns the error for a field that isn't selectable, although others of the kind are.
    fn unsupported_field(&self, field: &str) -> String {
        format!("field label not supported: {field}")
    }

    /// Changes an object from the version in which it is stored to the one of the request.
    ///
    /// # Errors
    ///
    /// The refusal of a conversion that this server does not know.
    fn convert_from_stored(&self, _object: &mut Value) -> Result<(), Status> {
        Ok(())
    }

    /// Changes an object from the version of the request to the one in which it is stored.
    ///
    /// # Errors
    ///
    /// As [`Strategy::convert_from_stored`].
    fn convert_to_stored(&self, _object: &mut Value) -> Result<(), Status> {
        Ok(())
    }

    /// Reports whether objects are stored in the version of the request.
    fn is_stored_version(&self) -> bool {
        true
    }

    /// Reports whether an object that was stored at `revision` serves the version of the request as
    /// it is.
    fn reads_as_stored(&self, _revision: u64) -> bool {
        self.is_stored_version()
    }

    /// Returns the warning that every request for the resource gets, because it is deprecated.
    fn deprecation(&self) -> Option<String> {
        None
    }

    /// Changes an object that is about to be marked as deleted, e.g. by adding a finalizer.
    fn prepare_for_delete(&self, _object: &mut Value, _now: Timestamp) {}

    /// Returns how many seconds a graceful deletion waits. `requested` comes from the client.
    fn grace_period(&self, _object: &Value, _requested: Option<i64>) -> Option<i64> {
        None
    }
}

/// The names of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The kind.
    pub kind: String,
    /// The kind of its lists.
    pub list_kind: String,
    /// The name in paths.
    pub plural: String,
    /// The name of one object.
    pub singular: String,
    /// The short names.
    pub short_names: Vec<String>,
    /// The categories, such as `all`.
    pub categories: Vec<String>,
}

/// The rules for writes, which differ between kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Verbs that are served and not in discovery.
    pub unlisted_verbs: Vec<&'static str>,
    /// Reports whether an update without `resourceVersion` replaces whatever is stored.
    pub unconditional_update: bool,
    /// Reports whether an update creates what does not exist.
    pub create_on_update: bool,
    /// Reports whether the answer to a deletion is the object.
    pub returns_deleted: bool,
    /// The version in which objects are stored, when it is another than the resource's.
    pub storage_version: Option<String>,
    /// Reports whether a deletion leaves dependents unless the client says otherwise.
    pub orphans_by_default: bool,
    /// The resource under which objects are stored, when it is another one, as Events of
    /// `events.k8s.io`.
    pub stored_as: Option<GroupResource>,
}

/// The subresources of a resource.
#[derive(Clone, Default)]
pub struct Subresources {
    /// Reports whether there is `status`.
    pub status: bool,
    /// The paths of `scale`.
    pub scale: Option<Scale>,
    /// The others, by their names.
    pub others: BTreeMap<String, Subresource>,
}

/// A resource of one group and version.
#[derive(Clone)]
pub struct Resource {
    /// The API group, `""` for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The names.
    pub names: Names,
    /// Reports whether objects belong to namespaces.
    pub namespaced: bool,
    /// The verbs, in the order in which discovery lists them.
    pub verbs: Vec<&'static str>,
    /// The machinery that serves it.
    pub flavor: Flavor,
    /// The rules for writes.
    pub rules: Rules,
    /// The subresources.
    pub subresources: Subresources,
    /// The handler that answers instead of the store.
    pub handler: Option<Arc<dyn Handler>>,
    /// The behaviour.
    pub strategy: Arc<dyn Strategy>,
}

/// A subresource that something else than the store answers.
#[derive(Clone)]
pub struct Subresource {
    /// The group and version of the objects that it takes, when it is another than the resource's.
    pub group_version: Option<(String, String)>,
    /// The kind of the objects that it takes.
    pub kind: String,
    /// The verbs.
    pub verbs: Vec<&'static str>,
    /// The handler of its requests.
    pub handler: Arc<dyn Handler>,
}

/// The verbs of custom resources.
const CUSTOM_VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];

impl Resource {
    /// Describes a custom resource with all verbs and without subresources.
    #[must_use]
    pub fn custom(
        group: &str,
        version: &str,
        kind: &str,
        plural: &str,
        strategy: Arc<dyn Strategy>,
    ) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            names: Names {
                kind: kind.into(),
                list_kind: format!("{kind}List"),
                plural: plural.into(),
                singular: kind.to_lowercase(),
                ..Names::default()
            },
            namespaced: true,
            verbs: CUSTOM_VERBS.to_vec(),
            flavor: Flavor::Custom,
            rules: Rules::default(),
            subresources: Subresources::default(),
            handler: None,
            strategy,
        }
    }

    /// Returns the resource under which its objects are stored.
    #[must_use]
    pub fn storage(&self) -> GroupResource {
        self.rules
            .stored_as
            .clone()
            .unwrap_or_else(|| self.group_resource())
    }

    /// Returns its name in all versions.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.names.plural)
    }

    /// Returns `apiVersion` of its objects.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns the members with which its objects begin.
    #[must_use]
    pub fn type_meta(&self) -> String {
        format!(
            r#""kind":"{}","apiVersion":"{}","#,
            self.names.kind,
            self.api_version()
        )
    }

    /// Reports whether it has a verb.
    #[must_use]
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.api_version(), self.names.plural)
    }
}
