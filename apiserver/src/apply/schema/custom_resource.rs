//! Types of custom resources.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{
    object_meta::{OBJECT_META, object_meta_definitions},
    openapi::{Definitions, SchemaError, schema_of_definitions},
    types::{ObjectType, TypeRef},
};

/// The custom resource's name among the definitions.
const ROOT: &str = "custom-resource";

/// Builds the type of a custom resource from the `openAPIV3Schema` of a version of its CRD.
///
/// As in the API server, `apiVersion` and `kind` are strings and `metadata` is ObjectMeta, in the
/// resource itself and in embedded ones. Without a schema the type is deduced from the values.
///
/// # Errors
/// Returns which parts of the schema are not understood. A structural schema has none.
pub fn custom_resource_schema(
    schema: Option<&Value>,
    preserve_unknown_fields: bool,
) -> Result<ObjectType, SchemaError> {
    let Some(schema) = schema else {
        return Ok(ObjectType::deduced());
    };

    let mut schema = schema.clone();
    strip_validation(&mut schema);
    add_type_meta(&mut schema);
    add_embedded_meta(&mut schema);

    let mut definitions: Definitions = object_meta_definitions();
    definitions.insert(ROOT.into(), schema);

    let schema = schema_of_definitions(&definitions, preserve_unknown_fields)?;
    Ok(ObjectType {
        schema: Arc::new(schema),
        root: TypeRef::named(ROOT),
    })
}

/// Removes the keywords that only validate: an `allOf` would be taken for a reference.
fn strip_validation(schema: &mut Value) {
    for_each_schema(schema, &mut |fields| {
        for word in ["allOf", "anyOf", "oneOf", "not"] {
            fields.remove(word);
        }
    });
}

fn add_embedded_meta(schema: &mut Value) {
    let mut embedded = |fields: &mut Map<String, Value>| {
        if fields.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
            insert_type_meta(fields);
        }
    };
    for_each_schema(schema, &mut embedded);
}

fn add_type_meta(schema: &mut Value) {
    if let Value::Object(fields) = schema {
        insert_type_meta(fields);
    }
}

fn insert_type_meta(fields: &mut Map<String, Value>) {
    let properties = fields.entry("properties").or_insert_with(|| json!({}));
    let Value::Object(properties) = properties else {
        return;
    };

    properties.insert("apiVersion".into(), json!({"type": "string"}));
    properties.insert("kind".into(), json!({"type": "string"}));
    properties.insert(
        "metadata".into(),
        json!({ "$ref": format!("#/components/schemas/{OBJECT_META}") }),
    );
}

/// Calls a function for each schema, bottom up.
fn for_each_schema(schema: &mut Value, visit: &mut impl FnMut(&mut Map<String, Value>)) {
    let Value::Object(fields) = schema else {
        return;
    };

    for (_, property) in fields
        .get_mut("properties")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flatten()
    {
        for_each_schema(property, visit);
    }

    for word in ["items", "additionalProperties"] {
        if let Some(below) = fields.get_mut(word) {
            for_each_schema(below, visit);
        }
    }

    visit(fields);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::{
        fieldpath::FieldPath,
        typed::{Duplicates, TypedValue},
    };

    fn fields(schema: Value, object: Value) -> Result<Vec<String>, String> {
        let object_type =
            custom_resource_schema(Some(&schema), false).map_err(|error| error.to_string())?;
        let typed = TypedValue::new(object.into(), object_type, Duplicates::Deny)
            .map_err(|error| error.to_string())?;
        let set = typed.field_set().map_err(|error| error.to_string())?;
        Ok(set.paths().iter().map(FieldPath::to_string).collect())
    }

    #[test]
    fn embedded_resources_have_metadata() {
        let schema = json!({"type": "object", "properties": {"pod": {
            "type": "object", "x-kubernetes-embedded-resource": true,
            "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        }}});

        let pod = json!({"metadata": {"finalizers": ["a"]}, "spec": {"x": {"y": [1]}}});
        assert_eq!(
            fields(schema.clone(), json!({ "pod": pod })),
            Ok(vec![
                ".pod.metadata.finalizers[=\"a\"]".into(),
                ".pod.spec.x".into(),
                ".pod.spec.x.y".into()
            ])
        );

        let error =
            fields(schema, json!({"pod": {"metadata": {"nick": "a"}}})).expect_err("an error");
        assert_eq!(error, ".pod.metadata.nick: field not declared in schema");
    }

    #[test]
    fn words_of_validation_are_no_references() {
        let schema = json!({"type": "object", "properties": {"a": {
            "type": "string", "allOf": [{"$ref": "#/definitions/other"}], "anyOf": [{"type": "integer"}],
        }}});
        assert_eq!(fields(schema, json!({"a": "x"})), Ok(vec![".a".into()]));
    }

    #[test]
    fn without_a_schema_lists_are_atomic() {
        let object_type = custom_resource_schema(None, false).expect("a type");

        let value = json!({"spec": {"list": [{"name": "a"}]}});
        let typed =
            TypedValue::new(value.into(), object_type, Duplicates::Deny).expect("a valid object");

        assert_eq!(
            typed.field_set().expect("a set").to_string(),
            ".spec\n.spec.list"
        );
    }
}
