//! Resources: what the server knows of a kind.

use std::{collections::BTreeMap, fmt, sync::Arc};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    columns::{Column, age, age_column, name_column},
    decode::{self, Admitted, Decoded},
    field_error::FieldError,
    handler::Handler,
    names,
    query::FieldValidation,
    status::ApiError,
};
use crate::store::GroupResource;

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

/// The behaviour of a kind. The defaults suit a kind without a schema.
///
/// There are two ways to give a kind its rules. [`Strategy::read`], [`Strategy::admit_create`] and
/// [`Strategy::admit_update`] replace the generic rules as a whole. When they return `None`, the generic rules apply, with
/// the finer methods in their places.
pub trait Strategy: Send + Sync {
    /// Reads the object in a request, in place of the generic checks of its type, of [`Strategy::decode`] and of
    /// [`Strategy::default`]. The problems of the result are warnings. Unknown fields were treated as `validation` says.
    ///
    /// # Errors
    ///
    /// The refusal that the client gets.
    fn read(
        &self,
        _resource: &Resource,
        _text: &[u8],
        _validation: FieldValidation,
    ) -> Option<Result<Decoded, ApiError>> {
        None
    }

    /// Reserves what a new object needs besides its place in the store, before it is completed. Dry runs reserve nothing.
    ///
    /// # Errors
    ///
    /// The refusal that the client gets.
    fn reserve(&self, _object: &Value) -> Result<(), ApiError> {
        Ok(())
    }

    /// Completes and validates a new object, in place of all generic rules. It has its type, its name, its namespace, its
    /// UID and its creation time.
    ///
    /// # Errors
    ///
    /// The refusal that the client gets.
    fn admit_create(
        &self,
        _resource: &Resource,
        _object: &Value,
        _now: Timestamp,
    ) -> Option<Result<Admitted, ApiError>> {
        None
    }

    /// Completes and validates an object that replaces `old`, in place of all generic rules. Both have their type; what no
    /// client may change is as in `old`.
    ///
    /// # Errors
    ///
    /// The refusal that the client gets.
    fn admit_update(
        &self,
        _resource: &Resource,
        _old: &Value,
        _object: &Value,
        _part: Part,
        _now: Timestamp,
    ) -> Option<Result<Admitted, ApiError>> {
        None
    }

    /// Reads an object from JSON: checks types, and removes unknown fields.
    ///
    /// # Errors
    ///
    /// The message of the API server's decoder, such as `json: cannot unmarshal number into Go struct field …`.
    fn decode(&self, resource: &Resource, text: &[u8]) -> Result<Decoded, String> {
        decode::decode_object(&resource.names.kind, text)
    }

    /// Completes an object that server-side apply made. Its fields were checked against the schema of the kind.
    ///
    /// # Errors
    ///
    /// As [`Strategy::decode`].
    fn complete_applied(&self, resource: &Resource, object: &Value) -> Result<Value, String> {
        self.decode(resource, object.to_string().as_bytes()).map(|decoded| decoded.object)
    }

    /// Sets the fields that a request left out.
    fn default(&self, _object: &mut Value) {}

    /// Changes a new object before it is validated.
    fn prepare_for_create(&self, _object: &mut Value) {}

    /// Changes an object before it replaces `old` and is validated.
    fn prepare_for_update(&self, _old: &Value, _object: &mut Value, _part: Part) {}

    /// Returns what is wrong with a new object, apart from its metadata.
    fn validate(&self, _object: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    /// Returns what is wrong with an object that replaces `old`, apart from its metadata.
    fn validate_update(&self, _old: &Value, object: &Value, _part: Part) -> Vec<FieldError> {
        self.validate(object)
    }

    /// Returns warnings about an object.
    fn warnings(&self, _old: Option<&Value>, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Returns what is wrong with a name, or with the prefix of one.
    fn validate_name(&self, name: &str, is_prefix: bool) -> Vec<String> {
        names::subdomain_errors(name, is_prefix)
    }

    /// Returns the fields of an object by which it can be selected, other than its name and its namespace.
    fn fields(&self, _object: &Value) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Returns the names of these fields.
    fn field_names(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Returns the error for a field by which objects of a kind with fields of its own cannot be selected.
    fn unsupported_field(&self, field: &str) -> String {
        format!("field label not supported: {field}")
    }

    /// Returns the columns of the kind's table.
    fn columns(&self) -> Vec<Column> {
        vec![name_column(), age_column("date")]
    }

    /// Returns the cells of an object in these columns.
    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        vec![object["metadata"]["name"].clone(), json!(age(object, now))]
    }

    /// Returns the conditions of an object's row, such as `Completed`.
    fn row_conditions(&self, _object: &Value) -> Vec<Value> {
        Vec::new()
    }

    /// Changes an object from the version in which it is stored to the one of the request.
    ///
    /// # Errors
    ///
    /// The refusal of a conversion that this server does not know.
    fn convert_from_stored(&self, _resource: &Resource, _object: &mut Value) -> Result<(), ApiError> {
        Ok(())
    }

    /// Changes an object from the version of the request to the one in which it is stored.
    ///
    /// # Errors
    ///
    /// As [`Strategy::convert_from_stored`].
    fn convert_to_stored(&self, _resource: &Resource, _object: &mut Value) -> Result<(), ApiError> {
        Ok(())
    }

    /// Reports whether objects are stored in the version of the request.
    fn is_stored_version(&self, _resource: &Resource) -> bool {
        true
    }

    /// Reports whether an object that was stored at `revision` serves the version of the request as it is.
    fn reads_as_stored(&self, resource: &Resource, _revision: u64) -> bool {
        self.is_stored_version(resource)
    }

    /// Returns the warning that every request for the resource gets, because it is deprecated.
    fn deprecation(&self, _resource: &Resource) -> Option<String> {
        None
    }

    /// Changes an object that is deleted and not yet marked, such as by a finalizer.
    fn prepare_for_delete(&self, _object: &mut Value, _now: Timestamp) {}

    /// Returns the seconds that a deletion waits, when it is graceful: `requested` comes from the client.
    fn grace_period(&self, _object: &Value, _requested: Option<i64>) -> Option<i64> {
        None
    }
}

/// A kind without any rules of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnyObject;

impl Strategy for AnyObject {}

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
    /// Reports whether `metadata.generation` counts changes.
    pub generation: bool,
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
    /// The resource under which objects are stored, when it is another one, as Events of `events.k8s.io`.
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

/// The verbs of built-in resources.
const BUILT_IN_VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// The verbs of custom resources.
const CUSTOM_VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

impl Resource {
    /// Describes a built-in resource with all verbs and without subresources.
    #[must_use]
    pub fn built_in(group: &str, version: &str, kind: &str, plural: &str) -> Self {
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
            verbs: BUILT_IN_VERBS.to_vec(),
            flavor: Flavor::BuiltIn,
            rules: Rules { unconditional_update: true, ..Rules::default() },
            subresources: Subresources::default(),
            handler: None,
            strategy: Arc::new(AnyObject),
        }
    }

    /// Describes a custom resource with all verbs and without subresources.
    #[must_use]
    pub fn custom(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        Self {
            verbs: CUSTOM_VERBS.to_vec(),
            flavor: Flavor::Custom,
            rules: Rules { generation: true, ..Rules::default() },
            ..Self::built_in(group, version, kind, plural)
        }
    }

    /// Returns the resource under which its objects are stored.
    #[must_use]
    pub fn storage(&self) -> GroupResource {
        self.rules.stored_as.clone().unwrap_or_else(|| self.group_resource())
    }

    /// Returns its name in all versions.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.names.plural)
    }

    /// Returns `apiVersion` of its objects.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns the members with which its objects begin.
    #[must_use]
    pub fn type_meta(&self) -> String {
        format!(r#""kind":"{}","apiVersion":"{}","#, self.names.kind, self.api_version())
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
