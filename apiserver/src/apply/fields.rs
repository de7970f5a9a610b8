//! The managers of fields, and the patches that need the schema of a kind.

use std::sync::{Arc, LazyLock};

use serde_json::Value;

use crate::{
    apiextensions::custom::Custom,
    apimachinery::status::Status,
    apply::{
        manager::{
            FieldManager, OpenApiTypes, TypeConverter, built_in_filters, custom_resource_filters,
        },
        merge::ConvertError,
        schema::ObjectType,
    },
    builtin,
    server::{FieldWrite, Flavor, Resource},
    shared::Shared,
};

/// The types of all built-in kinds.
static BUILT_IN: LazyLock<OpenApiTypes> = LazyLock::new(|| {
    let mut types = OpenApiTypes::default();
    if let Err(error) = types.add(builtin::schemas()) {
        tracing::error!("the fields of built-in kinds have no managers: {error}");
    }
    types
});

/// Knows the types of built-in kinds, and how their versions differ.
struct BuiltInTypes;

impl TypeConverter for BuiltInTypes {
    fn object_type(&self, api_version: &str, kind: &str) -> Option<ObjectType> {
        BUILT_IN.object_type(api_version, kind)
    }

    fn empty_object(&self, api_version: &str, kind: &str) -> Value {
        BUILT_IN.empty_object(api_version, kind)
    }

    fn convert(&self, object: Value, api_version: &str) -> Result<Value, ConvertError> {
        let kind = object["kind"].as_str().unwrap_or_default();
        if self.object_type(api_version, kind).is_none() {
            return Err(ConvertError::MissingVersion(format!(
                "no corresponding type for {api_version}, Kind={kind}"
            )));
        }
        builtin::convert(&object, api_version)
            .map_err(|error| ConvertError::Failed(error.to_string()))
    }
}

/// Returns a new object of a built-in kind with its managed fields. It is of a subresource that
/// stores nothing.
pub(crate) fn tracked(
    object: Value,
    subresource: &str,
    manager: &str,
    now: jiff::Timestamp,
) -> Value {
    let text = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let filters = Filters::new();
    let fields = FieldManager {
        types: &BuiltInTypes,
        api_version: &api_version,
        kind: &kind,
        subresource,
        filters: &filters,
    };
    fields.update(None, object, manager, now)
}

/// Keeps the managers of fields, and applies strategic merge patches and applies.
pub(crate) struct Fields(pub Arc<Shared>);

impl Fields {
    /// Runs a function with the field manager of the endpoint of a write.
    fn with_manager<T>(
        &self,
        write: &FieldWrite<'_>,
        run: impl FnOnce(&FieldManager<'_>) -> T,
    ) -> T {
        let resource = write.resource;
        let (api_version, kind) = write_type(write);
        let custom = self.custom(write);
        let group = if write.is_scale {
            "autoscaling"
        } else {
            resource.group.as_str()
        };
        let filters = match &custom {
            Some(custom) => custom_filters(custom, resource, write.subresource),
            None => {
                let versions = self.0.resources().versions(group);
                let versions: Vec<String> = versions
                    .iter()
                    .map(|version| qualified(group, version))
                    .collect();
                let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
                built_in_filters((group, kind), write.subresource, &versions)
            }
        };
        let types: &dyn TypeConverter = match &custom {
            Some(custom) => &custom.types,
            None => &BuiltInTypes,
        };
        run(&FieldManager {
            types,
            api_version: &api_version,
            kind,
            subresource: write.subresource,
            filters: &filters,
        })
    }

    /// Returns the definition of the fields of a write. A `Scale` is a built-in kind.
    fn custom(&self, write: &FieldWrite<'_>) -> Option<Arc<Custom>> {
        let is_custom = write.resource.flavor == Flavor::Custom && !write.is_scale;
        is_custom
            .then(|| self.0.customs.get(&write.resource.group_resource()))
            .flatten()
    }
}

type Filters = std::collections::BTreeMap<String, crate::apply::fieldpath::FieldFilter>;

fn custom_filters(custom: &Custom, resource: &Resource, subresource: &str) -> Filters {
    if !resource.subresources.status {
        return Filters::new();
    }
    let versions: Vec<String> = custom
        .crd
        .versions()
        .iter()
        .map(|version| version.api_version())
        .collect();
    let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
    custom_resource_filters(subresource, &resource.api_version(), &versions)
}

fn qualified(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// Returns the API version and the kind of the objects of a write.
fn write_type<'a>(write: &FieldWrite<'a>) -> (String, &'a str) {
    if write.is_scale {
        ("autoscaling/v1".to_owned(), "Scale")
    } else {
        (write.resource.api_version(), &write.resource.names.kind)
    }
}

/// Returns an object with its type.
fn typed(object: &Value, write: &FieldWrite<'_>) -> Value {
    let mut object = object.clone();
    add_type(&mut object, write);
    object
}

fn add_type(object: &mut Value, write: &FieldWrite<'_>) {
    let (api_version, kind) = write_type(write);
    object["kind"] = kind.into();
    object["apiVersion"] = api_version.into();
}

impl Fields {
    /// Applies a strategic merge patch.
    ///
    /// # Errors
    ///
    /// The refusal that the client gets.
    pub fn strategic(
        &self,
        resource: &Resource,
        live: &Value,
        patch: &Value,
    ) -> Result<Value, Status> {
        let (api_version, kind) = (resource.api_version(), &resource.names.kind);
        builtin::strategic_merge_patch(&api_version, kind, live, patch)
    }

    /// Applies a server-side apply patch, to nothing when the object does not exist. The result has
    /// its managed fields.
    ///
    /// # Errors
    ///
    /// The refusal that the client gets, such as a conflict with other managers.
    pub fn apply(
        &self,
        write: &FieldWrite<'_>,
        live: Option<&Value>,
        patch: &Value,
    ) -> Result<Value, Status> {
        let by = (write.manager, write.force);

        self.with_manager(write, |manager| manager.apply(live, patch, by, write.now))
    }

    /// Sets the managed fields of an object that was created, updated or patched.
    pub fn track(&self, write: &FieldWrite<'_>, live: Option<&Value>, object: &mut Value) {
        let live = live.map(|live| typed(live, write));
        let mut new = object.take();
        add_type(&mut new, write);
        // Such labels have a manager, although the object gets them later, together with those that
        // are generated.
        let (api_version, kind) = write_type(write);
        let is_labelled = builtin::label_as_template(&api_version, kind, &mut new);
        let mut tracked = self.with_manager(write, |manager| {
            manager.update(live.as_ref(), new, write.manager, write.now)
        });
        if let Some(members) = tracked.as_object_mut() {
            members.remove("kind");
            members.remove("apiVersion");
        }
        if let Some(metadata) = tracked["metadata"].as_object_mut().filter(|_| is_labelled) {
            metadata.remove("labels");
        }
        *object = tracked;
    }
}
