//! The rules of structural schemas: types are given outside of `anyOf` and the like, values are
//! constrained inside.

use super::schema::{Additional, Items, Schema};
use crate::{
    apimachinery::field::{FieldError, Path, Shown},
    golang::pattern,
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Reports the first part of a schema that structural schemas cannot have at all.
pub fn unsupported(schema: &Schema) -> Option<String> {
    let text = |name: &str| Some(format!("OpenAPIV3Schema '{name}' is not supported"));
    if !schema.id.is_empty() {
        return text("id");
    }
    if !schema.meta_schema.is_empty() {
        return text("schema");
    }

    if schema
        .reference
        .as_ref()
        .is_some_and(|reference| !reference.is_empty())
    {
        return text("$ref");
    }

    if !schema.pattern_properties.is_empty() {
        return text("patternProperties");
    }
    if !schema.dependencies.is_empty() {
        return text("dependencies");
    }
    if schema.additional_items.is_some() {
        return text("additionalItems");
    }
    if !schema.definitions.is_empty() {
        return text("definitions");
    }

    let nested = schema
        .not
        .as_deref()
        .into_iter()
        .chain(&schema.all_of)
        .chain(&schema.any_of)
        .chain(&schema.one_of);
    if let Some(found) = nested.into_iter().find_map(unsupported) {
        return Some(found);
    }

    if schema.preserve_unknown_fields == Some(false) {
        return Some(
            "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"
                .to_owned(),
        );
    }

    if let Some(Items::Many(schemas)) = &schema.items
        && !schemas.is_empty()
    {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }

    schema
        .item()
        .into_iter()
        .chain(schema.properties.values())
        .chain(schema.additional())
        .find_map(unsupported)
}

/// Validates that a schema is structural. The errors are sorted.
pub fn validate(path: &Path, schema: &Schema) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_invariants(schema, Level::Root, path, &mut errors);
    check_completeness(schema, Some(schema), path, path, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

/// Reports whether a schema is structural.
pub fn is_structural(schema: &Schema) -> bool {
    unsupported(schema).is_none() && validate(&Path::root(), schema).is_empty()
}

fn check_invariants(schema: &Schema, level: Level, path: &Path, errors: &mut Vec<FieldError>) {
    if schema.kind == "array" && schema.item().is_none() {
        errors.push(FieldError::required(
            path.child("items"),
            "must be specified",
        ));
    }

    if let Some(item) = schema.item() {
        check_invariants(item, Level::Item, &path.child("items"), errors);
    }

    for (name, property) in &schema.properties {
        check_invariants(
            property,
            Level::Field,
            &path.child("properties").key(name),
            errors,
        );
    }

    if let Some(additional) = &schema.additional_properties {
        let path = path.child("additionalProperties");
        if level == Level::Root {
            errors.push(FieldError::forbidden(&path, "must not be used at the root"));
        }
        if let Additional::Schema(additional) = additional {
            check_invariants(additional, Level::Field, &path, errors);
        }
    }

    check_extensions(schema, path, errors);
    let skip = (
        is_int_or_string(&schema.any_of),
        schema
            .all_of
            .first()
            .is_some_and(|s| is_int_or_string(&s.any_of)),
    );

    check_values(schema, skip, path, errors);
    check_type(schema, level, path, errors);
    check_metadata_fields(schema, level, path, errors);

    if schema.embedded_resource && !schema.preserves_unknown() && schema.properties.is_empty() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(path.child("properties"), detail));
    }
}

fn check_extensions(schema: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    let detail = "must be false if x-kubernetes-int-or-string is true";
    let extensions = [
        (
            "x-kubernetes-preserve-unknown-fields",
            schema.preserves_unknown(),
        ),
        ("x-kubernetes-embedded-resource", schema.embedded_resource),
    ];

    for (name, set) in extensions {
        if schema.int_or_string && set {
            errors.push(FieldError::invalid(
                path.child(name),
                Shown::raw("true"),
                detail,
            ));
        }
    }
}

fn check_type(schema: &Schema, level: Level, path: &Path, errors: &mut Vec<FieldError>) {
    let field = path.child("type");
    if schema.embedded_resource && schema.kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if schema.kind.is_empty() {
            FieldError::required(&field, detail)
        } else {
            FieldError::invalid_text(&field, &schema.kind, detail)
        });
    } else if schema.kind.is_empty() && !schema.int_or_string && !schema.preserves_unknown() {
        let place = match level {
            Level::Root => "at the root",
            Level::Item => "for specified array items",
            Level::Field => "for specified object fields",
        };

        errors.push(FieldError::required(
            &field,
            format!("must not be empty {place}"),
        ));
    }

    if schema.embedded_resource && schema.additional_properties.is_some() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(
            path.child("additionalProperties"),
            detail,
        ));
    }

    if level == Level::Root && !schema.kind.is_empty() && schema.kind != "object" {
        errors.push(FieldError::invalid_text(
            &field,
            &schema.kind,
            "must be object at the root",
        ));
    }
}

fn check_metadata_fields(schema: &Schema, level: Level, path: &Path, errors: &mut Vec<FieldError>) {
    let is_resource = level == Level::Root || schema.embedded_resource;
    let property = |name: &str| path.child("properties").key(name);
    for name in ["kind", "apiVersion"] {
        if let Some(field) = schema
            .properties
            .get(name)
            .filter(|field| is_resource && field.kind != "string")
        {
            errors.push(FieldError::invalid_text(
                property(name).child("type"),
                &field.kind,
                "must be string",
            ));
        }
    }

    let Some(metadata) = schema.properties.get("metadata") else {
        return;
    };
    let path = property("metadata");

    if is_resource && metadata.kind != "object" {
        errors.push(FieldError::invalid_text(
            path.child("type"),
            &metadata.kind,
            "must be object",
        ));
    }

    if level == Level::Root && !specifies_names_only(metadata) {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(FieldError::forbidden(&path, detail));
    }
}

fn specifies_names_only(metadata: &Schema) -> bool {
    let mut rest = metadata.clone();
    if rest
        .properties
        .keys()
        .all(|name| matches!(name.as_str(), "name" | "generateName"))
    {
        rest.properties.clear();
    }

    rest.kind.clear();
    rest.default = None;
    rest == Schema::default()
}

fn is_int_or_string(any_of: &[Schema]) -> bool {
    let only = |schema: &Schema, kind: &str| {
        *schema
            == Schema {
                kind: kind.to_owned(),
                ..Schema::default()
            }
    };

    matches!(any_of, [first, second] if only(first, "integer") && only(second, "string"))
}

/// Checks the constraints of values; the flags leave out the `anyOf` that says int-or-string,
/// directly or in the first `allOf`.
fn check_values(schema: &Schema, skip: (bool, bool), path: &Path, errors: &mut Vec<FieldError>) {
    if !skip.0 {
        for (at, nested) in schema.any_of.iter().enumerate() {
            check_nested(nested, false, &path.child("anyOf").index(at), errors);
        }
    }

    for (at, nested) in schema.all_of.iter().enumerate() {
        check_nested(
            nested,
            skip.1 && at == 0,
            &path.child("allOf").index(at),
            errors,
        );
    }

    for (at, nested) in schema.one_of.iter().enumerate() {
        check_nested(nested, false, &path.child("oneOf").index(at), errors);
    }
    if let Some(not) = &schema.not {
        check_nested(not, false, &path.child("not"), errors);
    }

    if !schema.pattern.is_empty()
        && let Err(error) = pattern::compile(&schema.pattern)
    {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        errors.push(FieldError::invalid_text(
            path.child("pattern"),
            &schema.pattern,
            detail,
        ));
    }
}

fn check_nested(schema: &Schema, skip_any_of: bool, path: &Path, errors: &mut Vec<FieldError>) {
    check_values(schema, (skip_any_of, false), path, errors);
    if let Some(item) = schema.item() {
        check_nested(item, false, &path.child("items"), errors);
    }
    for (name, property) in &schema.properties {
        check_nested(property, false, &path.child("properties").key(name), errors);
    }

    let has_additional = !matches!(
        schema.additional_properties,
        None | Some(Additional::Allowed(false))
    );
    let forbidden = [
        (
            "type",
            !schema.kind.is_empty(),
            "must be empty to be structural",
        ),
        (
            "additionalProperties",
            has_additional,
            "must be undefined to be structural",
        ),
        (
            "default",
            schema.default.is_some(),
            "must be undefined to be structural",
        ),
        (
            "title",
            !schema.title.is_empty(),
            "must be empty to be structural",
        ),
        (
            "description",
            !schema.description.is_empty(),
            "must be empty to be structural",
        ),
        (
            "nullable",
            schema.nullable,
            "must be false to be structural",
        ),
        (
            "x-kubernetes-preserve-unknown-fields",
            schema.preserves_unknown(),
            "must be false to be structural",
        ),
        (
            "x-kubernetes-embedded-resource",
            schema.embedded_resource,
            "must be false to be structural",
        ),
        (
            "x-kubernetes-int-or-string",
            schema.int_or_string,
            "must be false to be structural",
        ),
        (
            "x-kubernetes-list-map-keys",
            !schema.list_map_keys.is_empty(),
            "must be empty to be structural",
        ),
        (
            "x-kubernetes-list-type",
            schema.list_type.is_some(),
            "must be undefined to be structural",
        ),
        (
            "x-kubernetes-map-type",
            schema.map_type.is_some(),
            "must be undefined to be structural",
        ),
        (
            "x-kubernetes-validations",
            !schema.validations.is_empty(),
            "must be empty to be structural",
        ),
    ];

    for (field, is_set, detail) in forbidden {
        if is_set {
            errors.push(FieldError::forbidden(path.child(field), detail));
        }
    }

    if schema.properties.contains_key("metadata") {
        let detail = "must not be specified in a nested context";
        errors.push(FieldError::forbidden(
            path.child("properties").key("metadata"),
            detail,
        ));
    }
}

/// Checks that every constrained field is specified outside of `anyOf` and the like.
fn check_completeness(
    values: &Schema,
    schema: Option<&Schema>,
    schema_path: &Path,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    if let Some(not) = &values.not {
        check_nested_completeness(not, schema, schema_path, &path.child("not"), errors);
    }

    for (name, nested) in [
        ("allOf", &values.all_of),
        ("anyOf", &values.any_of),
        ("oneOf", &values.one_of),
    ] {
        for (at, nested) in nested.iter().enumerate() {
            check_nested_completeness(
                nested,
                schema,
                schema_path,
                &path.child(name).index(at),
                errors,
            );
        }
    }
}

fn check_nested_completeness(
    values: &Schema,
    schema: Option<&Schema>,
    schema_path: &Path,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    let Some(schema) = schema else {
        errors.push(FieldError::required(
            schema_path,
            format!("because it is defined in {path}"),
        ));
        return;
    };

    check_completeness(values, Some(schema), schema_path, path, errors);
    if let Some(item) = values.item() {
        check_nested_completeness(
            item,
            schema.item(),
            &schema_path.child("items"),
            &path.child("items"),
            errors,
        );
    }

    for (name, property) in &values.properties {
        let found = schema.properties.get(name);
        let below = |path: &Path| path.child("properties").key(name);
        check_nested_completeness(property, found, &below(schema_path), &below(path), errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn errors(schema: Value) -> Vec<String> {
        let schema: Schema = serde_json::from_value(schema).expect("schema");
        validate(&Path::new("s"), &schema)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn accepts_the_patterns_of_int_or_string() {
        let any_of = json!([{"type": "integer"}, {"type": "string"}]);
        let field = json!({"x-kubernetes-int-or-string": true, "anyOf": any_of});
        let all_of = json!({"x-kubernetes-int-or-string": true, "allOf": [{"anyOf": any_of}, {"minimum": 1}]});
        assert!(
            errors(json!({"type": "object", "properties": {"a": field, "b": all_of}})).is_empty()
        );
    }

    #[test]
    fn requires_types_and_complete_fields() {
        let schema = json!({"type": "object", "properties": {"a": {}}, "anyOf": [{"properties": {"b": {}}}]});
        let expected = [
            "s.properties[a].type: Required value: must not be empty for specified object fields",
            "s.properties[b]: Required value: because it is defined in s.anyOf[0].properties[b]",
        ];
        assert_eq!(errors(schema), expected);
    }

    #[test]
    fn names_unsupported_parts() {
        let schema =
            serde_json::from_value(json!({"type": "object", "properties": {"a": {"$ref": "#/x"}}}));
        let expected = Some("OpenAPIV3Schema '$ref' is not supported".to_owned());
        assert_eq!(unsupported(&schema.expect("schema")), expected);
    }
}
