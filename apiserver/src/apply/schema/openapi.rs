//! Types from OpenAPI v3 documents.
//!
//! The keywords are the API server's: `x-kubernetes-list-type`, `x-kubernetes-list-map-keys`,
//! `x-kubernetes-map-type`, `x-kubernetes-preserve-unknown-fields` and the older
//! `x-kubernetes-patch-strategy`. Upstream is
//! <https://github.com/kubernetes/kubernetes/blob/v1.36.2/vendor/k8s.io/kube-openapi/pkg/schemaconv/openapi.go>.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value};

use super::types::{
    Atom, DEDUCED_TYPE, ListType, MapType, Relationship, Scalar, Schema, StructField, TypeRef,
    UNTYPED_TYPE, untyped_atom,
};

/// The definitions of a document, `components.schemas`, by name.
pub type Definitions = Map<String, Value>;

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";

/// Definitions from which no types can be built.
#[derive(Debug, thiserror::Error)]
#[error("failed to convert models to schema: {}", .0.join("\n"))]
pub struct SchemaError(Vec<String>);

/// Builds the types of a document.
///
/// `preserve_unknown_fields` is the field of a CRD: structs accept fields that they do not declare.
///
/// # Errors
/// Returns all parts of the document that are not understood.
pub fn schema_of_definitions(
    definitions: &Definitions,
    preserve_unknown_fields: bool,
) -> Result<Schema, SchemaError> {
    let mut errors = Vec::new();
    let mut types = Vec::with_capacity(definitions.len());

    for (name, definition) in definitions
        .iter()
        .filter(|(_, definition)| reference(definition).is_none())
    {
        let atom = match name.as_str() {
            QUANTITY => Atom::scalar(Scalar::Untyped),
            RAW_EXTENSION => untyped_atom(),
            _ => Builder {
                place: name,
                errors: &mut errors,
            }
            .atom(definition, preserve_unknown_fields),
        };

        if atom != Atom::default() {
            types.push((name.clone(), atom));
        }
    }

    if errors.is_empty() {
        Ok(Schema::new(types))
    } else {
        Err(SchemaError(errors))
    }
}

/// Returns the kinds that a definition describes in `x-kubernetes-group-version-kind`, as pairs of
/// apiVersion and kind.
pub fn group_version_kinds(definition: &Value) -> Vec<(String, String)> {
    let kinds = definition["x-kubernetes-group-version-kind"].as_array();

    let kinds = kinds.into_iter().flatten().filter_map(|entry| {
        let group = entry["group"].as_str()?;
        let version = entry["version"].as_str()?;

        let kind = entry["kind"].as_str().filter(|kind| !kind.is_empty())?;
        let api_version = if group.is_empty() {
            version.to_owned()
        } else {
            format!("{group}/{version}")
        };

        Some((api_version, kind.to_owned()))
    });

    kinds.collect()
}

/// The definition that a schema refers to, directly or in an `allOf` of one.
pub(super) fn reference(schema: &Value) -> Option<&str> {
    let direct = schema["$ref"].as_str();
    let only = || schema["allOf"].as_array().filter(|all| all.len() == 1)?[0]["$ref"].as_str();
    direct
        .or_else(only)
        .map(|path| path.rsplit('/').next().unwrap_or(path))
}

struct Builder<'a> {
    /// The definition, for messages.
    place: &'a str,
    errors: &'a mut Vec<String>,
}

impl Builder<'_> {
    fn report(&mut self, message: &str) {
        self.errors.push(format!("{}: {message}", self.place));
    }

    fn atom(&mut self, schema: &Value, preserve: bool) -> Atom {
        let preserve =
            preserve || schema["x-kubernetes-preserve-unknown-fields"] == Value::Bool(true);

        match schema["type"].as_str().unwrap_or_default() {
            "" => Atom {
                scalar: Some(Scalar::Untyped),
                list: Some(Arc::new(self.list(schema, preserve))),
                map: Some(Arc::new(self.map(schema, preserve))),
            },
            "object" => Atom {
                map: Some(Arc::new(self.map(schema, preserve))),
                ..Atom::default()
            },
            "array" => Atom {
                list: Some(Arc::new(self.list(schema, preserve))),
                ..Atom::default()
            },
            "integer" | "number" => Atom::scalar(Scalar::Numeric),
            "boolean" => Atom::scalar(Scalar::Boolean),
            "string" => match schema["format"].as_str().unwrap_or_default() {
                "" | "byte" => Atom::scalar(Scalar::String),
                _ => Atom::scalar(Scalar::Untyped),
            },
            other => {
                self.report(&format!("unrecognized type: '{other}'"));
                Atom::scalar(Scalar::Untyped)
            }
        }
    }

    fn type_ref(&mut self, schema: &Value, preserve: bool) -> TypeRef {
        match reference(schema) {
            Some(name) => TypeRef {
                name: Some(name.into()),
                relationship: self.map_relationship(schema),
                ..TypeRef::default()
            },
            None => TypeRef::inline(self.atom(schema, preserve)),
        }
    }

    fn map(&mut self, schema: &Value, preserve: bool) -> MapType {
        let mut fields = BTreeMap::new();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let default = property
                .get("default")
                .filter(|default| !default.is_null())
                .cloned();

            fields.insert(
                name.clone(),
                StructField {
                    type_ref: self.type_ref(property, preserve),
                    default,
                },
            );
        }

        let element = match schema.get("additionalProperties") {
            None if preserve || fields.is_empty() => TypeRef::named(DEDUCED_TYPE),
            None | Some(Value::Bool(false)) => TypeRef::default(),
            Some(Value::Bool(true)) => TypeRef::named(DEDUCED_TYPE),
            Some(schema) => self.type_ref(schema, preserve),
        };

        let relationship = self.map_relationship(schema).unwrap_or_default();
        MapType {
            fields: Arc::new(fields),
            element,
            relationship,
        }
    }

    fn list(&mut self, schema: &Value, preserve: bool) -> ListType {
        let (relationship, keys) = self.list_relationship(schema);

        let element = match schema.get("items") {
            Some(items) => self.type_ref(items, preserve),
            None => {
                if schema["type"].as_str().is_some_and(|kind| !kind.is_empty()) {
                    self.report("`items` must be specified on arrays");
                }
                TypeRef::named(UNTYPED_TYPE)
            }
        };

        ListType {
            element,
            relationship,
            keys,
        }
    }

    fn map_relationship(&mut self, schema: &Value) -> Option<Relationship> {
        match schema.get("x-kubernetes-map-type")? {
            Value::String(kind) if kind == "atomic" => Some(Relationship::Atomic),
            Value::String(kind) if kind == "granular" => Some(Relationship::Separable),
            other => {
                self.report(&format!(
                    "unknown map type {}",
                    other.as_str().unwrap_or_default()
                ));
                None
            }
        }
    }

    fn list_relationship(&mut self, schema: &Value) -> (Relationship, Vec<String>) {
        if let Some(kind) = schema.get("x-kubernetes-list-type") {
            return match kind.as_str().unwrap_or_default() {
                "atomic" => (Relationship::Atomic, Vec::new()),
                "set" => (Relationship::Associative, Vec::new()),
                "map" => (Relationship::Associative, self.map_keys(schema)),
                other => {
                    self.report(&format!("unknown list type {other}"));
                    (Relationship::Atomic, Vec::new())
                }
            };
        }

        let Some(strategy) = schema.get("x-kubernetes-patch-strategy") else {
            return (Relationship::Atomic, Vec::new());
        };

        match strategy.as_str().unwrap_or_default() {
            "merge" | "merge,retainKeys" => {
                let key = schema["x-kubernetes-patch-merge-key"]
                    .as_str()
                    .map(str::to_owned);
                (Relationship::Associative, key.into_iter().collect())
            }
            "retainKeys" => (Relationship::Atomic, Vec::new()),
            other => {
                self.report(&format!("unknown patch strategy {other}"));
                (Relationship::Atomic, Vec::new())
            }
        }
    }

    fn map_keys(&mut self, schema: &Value) -> Vec<String> {
        match schema.get("x-kubernetes-list-map-keys") {
            Some(Value::Array(keys)) => keys
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            Some(_) => {
                self.report("uninterpreted map keys");
                Vec::new()
            }
            None => {
                self.report("missing map keys");
                Vec::new()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definitions(value: Value) -> Definitions {
        value.as_object().cloned().expect("definitions")
    }

    #[test]
    fn reports_words_that_are_not_understood() {
        let definitions = definitions(json!({
            "a": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "bag"},
            "b": {"type": "array", "x-kubernetes-list-type": "map"},
            "c": {"type": "object", "x-kubernetes-map-type": "loose"},
            "d": {"type": "thing"},
            "e": {"$ref": "#/components/schemas/missing"},
        }));

        let error = schema_of_definitions(&definitions, false)
            .expect_err("errors")
            .to_string();

        for part in [
            "failed to convert models to schema: ",
            "a: unknown list type bag",
            "b: missing map keys",
            "b: `items` must be specified on arrays",
            "c: unknown map type loose",
            "d: unrecognized type: 'thing'",
        ] {
            assert!(error.contains(part), "{part} in {error}");
        }
    }

    #[test]
    fn references_may_override_the_relationship() {
        let definitions = definitions(json!({
            "outer": {"type": "object", "properties": {
                "loose": {"$ref": "#/components/schemas/inner"},
                "tight": {"allOf": [{"$ref": "#/components/schemas/inner"}], "x-kubernetes-map-type": "atomic"},
            }},
            "inner": {"type": "object", "properties": {"x": {"type": "integer"}}},
        }));
        let schema = schema_of_definitions(&definitions, false).expect("a schema");

        let outer = schema
            .resolve(&TypeRef::named("outer"))
            .and_then(|atom| atom.map)
            .expect("a struct");

        let relationship = |field: &str| {
            let inner = schema
                .resolve(outer.field_type(field))
                .and_then(|atom| atom.map)
                .expect("a struct");
            (inner.relationship, inner.fields.len())
        };

        assert_eq!(relationship("loose"), (Relationship::Separable, 1));
        assert_eq!(relationship("tight"), (Relationship::Atomic, 1));
    }

    #[test]
    fn finds_the_kinds_of_a_definition() {
        let definition = json!({"x-kubernetes-group-version-kind": [
            {"group": "", "version": "v1", "kind": "Pod"},
            {"group": "apps", "version": "v1", "kind": "Deployment"},
            {"group": "apps", "version": "v1", "kind": ""},
            {"group": "apps", "version": "v1"},
        ]});
        let kinds = group_version_kinds(&definition);

        assert_eq!(
            kinds,
            [
                ("v1".into(), "Pod".into()),
                ("apps/v1".into(), "Deployment".into())
            ]
        );
    }
}
