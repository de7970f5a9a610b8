//! The types of the objects of an API, and their versions.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value, json};

use crate::apply::{
    merge::ConvertError,
    schema::{
        Definitions, ObjectType, SchemaError, TypeRef, custom_resource_schema, empty_object,
        group_version_kinds, schema_of_definitions,
    },
};

/// Knows the types of objects, and converts objects between versions.
pub trait TypeConverter {
    /// Returns the type of the objects of a kind in a version.
    fn object_type(&self, api_version: &str, kind: &str) -> Option<ObjectType>;

    /// Returns what an object of a kind is before its creation. Nobody manages the fields it already
    /// has.
    fn empty_object(&self, api_version: &str, kind: &str) -> Value {
        json!({"apiVersion": api_version, "kind": kind})
    }

    /// Converts an object to another version. By default versions differ only in their names.
    ///
    /// # Errors
    /// Returns an error if the version does not exist or the conversion fails.
    fn convert(&self, mut object: Value, api_version: &str) -> Result<Value, ConvertError> {
        let kind = object["kind"].as_str().unwrap_or_default();
        if self.object_type(api_version, kind).is_none() {
            return Err(ConvertError::MissingVersion(format!(
                "no corresponding type for {api_version}, Kind={kind}"
            )));
        }

        object["apiVersion"] = json!(api_version);
        Ok(object)
    }
}

/// The built-in kinds of an OpenAPI v3 document, or of several.
#[derive(Clone, Debug, Default)]
pub struct OpenApiTypes {
    kinds: BTreeMap<(String, String), BuiltIn>,
}

#[derive(Clone, Debug)]
struct BuiltIn {
    object_type: ObjectType,
    empty: Map<String, Value>,
}

impl OpenApiTypes {
    /// Adds the kinds of a document's `components.schemas`.
    ///
    /// # Errors
    /// Returns which parts of the document are not understood.
    pub fn add(&mut self, definitions: &Definitions) -> Result<(), SchemaError> {
        let schema = Arc::new(schema_of_definitions(definitions, false)?);

        for (name, definition) in definitions {
            for key in group_version_kinds(definition) {
                let object_type = ObjectType {
                    schema: schema.clone(),
                    root: TypeRef::named(name),
                };

                self.kinds.insert(
                    key,
                    BuiltIn {
                        object_type,
                        empty: empty_object(definitions, name),
                    },
                );
            }
        }

        Ok(())
    }

    fn built_in(&self, api_version: &str, kind: &str) -> Option<&BuiltIn> {
        self.kinds.get(&(api_version.to_owned(), kind.to_owned()))
    }
}

impl TypeConverter for OpenApiTypes {
    fn object_type(&self, api_version: &str, kind: &str) -> Option<ObjectType> {
        self.built_in(api_version, kind)
            .map(|built_in| built_in.object_type.clone())
    }

    fn empty_object(&self, api_version: &str, kind: &str) -> Value {
        let mut object = self
            .built_in(api_version, kind)
            .map(|built_in| built_in.empty.clone())
            .unwrap_or_default();

        object.insert("apiVersion".into(), json!(api_version));
        object.insert("kind".into(), json!(kind));
        Value::Object(object)
    }
}

/// The versions of a custom resource that is not converted between them.
#[derive(Clone, Debug)]
pub struct CustomTypes {
    kind: String,
    versions: BTreeMap<String, ObjectType>,
}

impl CustomTypes {
    /// Builds the types of a CRD: for each apiVersion the `openAPIV3Schema`, if it has one.
    ///
    /// # Errors
    /// Returns which parts of a schema are not understood.
    pub fn new<'a>(
        kind: &str,
        versions: impl IntoIterator<Item = (String, Option<&'a Value>)>,
        preserve_unknown_fields: bool,
    ) -> Result<Self, SchemaError> {
        let versions = versions.into_iter().map(|(api_version, schema)| {
            Ok((
                api_version,
                custom_resource_schema(schema, preserve_unknown_fields)?,
            ))
        });

        Ok(Self {
            kind: kind.into(),
            versions: versions.collect::<Result<_, _>>()?,
        })
    }
}

impl TypeConverter for CustomTypes {
    fn object_type(&self, api_version: &str, kind: &str) -> Option<ObjectType> {
        self.versions
            .get(api_version)
            .filter(|_| kind == self.kind)
            .cloned()
    }

    fn convert(&self, mut object: Value, api_version: &str) -> Result<Value, ConvertError> {
        if !self.versions.contains_key(api_version) {
            let message =
                format!("request to convert CR to an invalid group/version: {api_version}");
            return Err(ConvertError::Failed(message));
        }

        object["apiVersion"] = json!(api_version);
        Ok(object)
    }
}
