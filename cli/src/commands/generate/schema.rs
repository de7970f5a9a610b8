//! Converts the JSON Schema that tools generate from types to the structural schema of a CRD.
//!
//! Kubernetes' rules: every field has one type, there are no references, and alternatives restrict
//! values, not shapes. A field that breaks them is an error that names it; no schema is widened
//! silently.

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};

type Object = Map<String, Value>;

/// The keywords with the same meaning in both.
const KEPT: &[&str] = &[
    "description",
    "format",
    "default",
    "minimum",
    "maximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
];

/// The keywords that do not restrict values, or only as pruning does.
const DROPPED: &[&str] = &[
    "$schema",
    "$id",
    "$comment",
    "$defs",
    "definitions",
    "title",
    "examples",
    "example",
    "deprecated",
    "readOnly",
    "writeOnly",
    "propertyNames",
    "contentEncoding",
    "contentMediaType",
];

/// Converts the schema of a whole document; errors call it `name`.
///
/// # Errors
/// Returns the first field that a CRD cannot describe, and why.
pub fn structural(name: &str, schema: &Value) -> Result<Value> {
    let root = Root {
        document: schema,
        following: Vec::new(),
    };
    root.convert(name, schema).map(Value::Object)
}

/// The document in which references are looked up, and the references being resolved.
struct Root<'a> {
    document: &'a Value,
    following: Vec<&'a str>,
}

impl<'a> Root<'a> {
    fn convert(&self, path: &str, schema: &'a Value) -> Result<Object> {
        let Value::Object(schema) = schema else {
            bail!("{path} has no type: give it one")
        };

        if let Some(reference) = schema.get("$ref") {
            return self.follow(path, reference.as_str().unwrap_or_default(), schema);
        }

        for (word, all) in [("allOf", false), ("anyOf", true), ("oneOf", true)] {
            if let Some(parts) = schema.get(word).and_then(Value::as_array) {
                let mut rest = schema.clone();
                rest.remove(word);
                return if all {
                    self.alternatives(path, parts, rest)
                } else {
                    self.together(path, parts, rest)
                };
            }
        }

        self.plain(path, schema)
    }

    fn follow(&self, path: &str, reference: &'a str, siblings: &Object) -> Result<Object> {
        if self.following.contains(&reference) {
            bail!("{path} refers to a type that it is part of, which a CRD cannot describe");
        }

        let pointer = reference
            .strip_prefix('#')
            .unwrap_or("/nowhere")
            .replace("%3C", "<")
            .replace("%3E", ">");
        let found = self.document.pointer(&pointer);
        let found = found.with_context(|| {
            format!("{path} refers to {reference:?}, which is not in the schema")
        })?;

        let following = self.following.iter().copied().chain([reference]).collect();
        let mut made = Root {
            document: self.document,
            following,
        }
        .convert(path, found)?;

        // The field's description takes precedence over its type's.
        for word in KEPT {
            if let Some(value) = siblings.get(*word).filter(|value| !value.is_null()) {
                made.insert((*word).to_owned(), value.clone());
            }
        }

        Ok(made)
    }

    /// Converts `allOf`, which tools wrap around a single reference to add a description.
    fn together(&self, path: &str, parts: &'a [Value], rest: Object) -> Result<Object> {
        let [one] = parts else {
            bail!("{path} is composed of several types (allOf), which a CRD cannot describe")
        };

        let mut made = self.convert(path, one)?;
        made.extend(
            rest.into_iter()
                .filter(|(word, _)| KEPT.contains(&word.as_str())),
        );

        Ok(made)
    }

    /// Converts `anyOf` and `oneOf`.
    fn alternatives(&self, path: &str, parts: &'a [Value], rest: Object) -> Result<Object> {
        let is_null =
            |part: &Value| part["type"] == "null" || part.get("const").is_some_and(Value::is_null);
        let nullable = parts.iter().any(is_null);

        let branches: Vec<Object> = parts
            .iter()
            .filter(|part| !is_null(part))
            .map(|part| self.convert(path, part))
            .collect::<Result<_>>()?;

        let mut made = match branches.as_slice() {
            [] => bail!("{path} has no type: it may only be null"),
            [one] => one.clone(),
            several => merge(path, several)?,
        };

        made.extend(
            rest.into_iter()
                .filter(|(word, _)| KEPT.contains(&word.as_str())),
        );
        if nullable {
            made.insert("nullable".to_owned(), true.into());
        }

        Ok(made)
    }

    fn plain(&self, path: &str, schema: &'a Object) -> Result<Object> {
        let mut made = Object::new();
        let mut types = types(schema);
        if types.iter().any(|one| one == "null") {
            types.retain(|one| one != "null");
            made.insert("nullable".to_owned(), true.into());
        }

        for (word, value) in schema {
            match word.as_str() {
                "type"
                | "const"
                | "enum"
                | "properties"
                | "required"
                | "additionalProperties"
                | "items" => {}
                "nullable" if value == true => drop(made.insert(word.clone(), value.clone())),
                "nullable" => {}
                "exclusiveMinimum" | "exclusiveMaximum" if value.is_number() => {
                    made.insert(word.replace("exclusiveM", "m"), value.clone());
                    made.insert(word.clone(), true.into());
                }
                "exclusiveMinimum" | "exclusiveMaximum" => {
                    drop(made.insert(word.clone(), value.clone()));
                }
                // Kubernetes forbids this keyword, and has its own.
                "uniqueItems" if value == true => {
                    made.insert("x-kubernetes-list-type".to_owned(), "set".into());
                }
                "uniqueItems" => {}
                "format" => drop(made.insert(word.clone(), format(value))),
                word if KEPT.contains(&word) => {
                    if !value.is_null() {
                        made.insert(word.to_owned(), value.clone());
                    }
                }
                word if word.starts_with("x-kubernetes-") => {
                    drop(made.insert(word.to_owned(), value.clone()));
                }
                word if word.starts_with("x-") || DROPPED.contains(&word) => {}
                other => {
                    bail!("{path} has the schema keyword {other:?}, which a CRD cannot describe")
                }
            }
        }

        if let Some(values) = values(schema) {
            made.insert("enum".to_owned(), values.into());
        }

        types.sort();
        match types
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .as_slice()
        {
            ["object"] => self.object(path, schema, &mut made)?,
            ["array"] => self.array(path, schema, &mut made)?,
            [one] => drop(made.insert("type".to_owned(), (*one).into())),
            ["integer", "string"] => {
                drop(made.insert("x-kubernetes-int-or-string".to_owned(), true.into()));
            }
            [] if made.contains_key("x-kubernetes-int-or-string") => {}
            [] if made.contains_key("x-kubernetes-preserve-unknown-fields") => {}
            [] => bail!("{path} has no type: give it one"),
            several => bail!(
                "{path} may be of several types ({}), which a CRD cannot describe",
                several.join(", ")
            ),
        }

        Ok(made)
    }

    fn object(&self, path: &str, schema: &'a Object, made: &mut Object) -> Result<()> {
        made.insert("type".to_owned(), "object".into());

        let mut properties = Object::new();
        for (name, property) in schema
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            properties.insert(
                name.clone(),
                self.convert(&format!("{path}.{name}"), property)?.into(),
            );
        }

        match schema.get("additionalProperties") {
            None | Some(Value::Bool(false)) => {}
            // A CRD cannot describe named fields and arbitrary others: the others are kept without
            // a schema.
            Some(others) if anything(others) || !properties.is_empty() => {
                made.insert(
                    "x-kubernetes-preserve-unknown-fields".to_owned(),
                    true.into(),
                );
            }
            Some(others) => {
                made.insert(
                    "additionalProperties".to_owned(),
                    self.convert(&format!("{path}.*"), others)?.into(),
                );
            }
        }

        if !properties.is_empty() {
            made.insert("properties".to_owned(), properties.into());
        }

        if let Some(required) = schema
            .get("required")
            .and_then(Value::as_array)
            .filter(|all| !all.is_empty())
        {
            made.insert("required".to_owned(), required.clone().into());
        }

        Ok(())
    }

    fn array(&self, path: &str, schema: &'a Object, made: &mut Object) -> Result<()> {
        made.insert("type".to_owned(), "array".into());
        let Some(items) = schema.get("items").filter(|items| !items.is_array()) else {
            bail!("{path} has no type for its items");
        };

        made.insert(
            "items".to_owned(),
            self.convert(&format!("{path}[]"), items)?.into(),
        );
        Ok(())
    }
}

/// The types that a schema names, or else the types of its values.
fn types(schema: &Object) -> Vec<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match schema.get("type") {
        Some(Value::Array(all)) => all.iter().filter_map(text).collect(),
        Some(one) => text(one).into_iter().collect(),
        None if schema.contains_key("properties") => vec!["object".to_owned()],
        None => {
            let named = schema.get("enum").and_then(Value::as_array).cloned();
            let mut all: Vec<_> = named
                .unwrap_or_default()
                .iter()
                .chain(schema.get("const"))
                .map(|value| type_of(value).to_owned())
                .collect();

            all.sort();
            all.dedup();
            all
        }
    }
}

/// The values that a schema names, except null, which becomes `nullable`.
fn values(schema: &Object) -> Option<Vec<Value>> {
    let named = match (schema.get("enum"), schema.get("const")) {
        (Some(Value::Array(all)), _) => all.clone(),
        (_, Some(one)) => vec![one.clone()],
        _ => return None,
    };
    Some(named.into_iter().filter(|value| !value.is_null()).collect())
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Reports whether a schema accepts every value.
fn anything(schema: &Value) -> bool {
    match schema {
        Value::Bool(any) => *any,
        Value::Object(words) => words
            .keys()
            .all(|word| DROPPED.contains(&word.as_str()) || word == "description"),
        _ => false,
    }
}

/// Replaces the unsigned formats, which OpenAPI does not have.
fn format(value: &Value) -> Value {
    match value.as_str() {
        Some("uint8" | "uint16" | "int8" | "int16") => "int32".into(),
        Some("uint32" | "uint64" | "uint" | "int") => "int64".into(),
        _ => value.clone(),
    }
}

/// Merges alternatives into one schema: all values, or an object with all fields.
fn merge(path: &str, branches: &[Object]) -> Result<Object> {
    let types: Vec<&Value> = branches
        .iter()
        .map(|branch| &branch["type"])
        .collect::<Vec<_>>();

    let mut names: Vec<&str> = types.iter().filter_map(|one| one.as_str()).collect();
    names.sort_unstable();
    names.dedup();

    let is_plain =
        |branch: &Object| !branch.contains_key("enum") && !branch.contains_key("pattern");

    match names.as_slice() {
        ["object"] => merge_objects(path, branches),
        ["integer", "string"] if branches.iter().all(is_plain) => Ok(Object::from_iter([(
            "x-kubernetes-int-or-string".to_owned(),
            true.into(),
        )])),
        [one] if branches.iter().all(|branch| branch.contains_key("enum")) => {
            let mut all: Vec<Value> = Vec::new();
            for value in branches
                .iter()
                .filter_map(|branch| branch["enum"].as_array())
                .flatten()
            {
                if !all.contains(value) {
                    all.push(value.clone());
                }
            }

            Ok(Object::from_iter([
                ("type".to_owned(), (*one).into()),
                ("enum".to_owned(), all.into()),
            ]))
        }
        several => bail!(
            "{path} may be one of several types ({}), which a CRD cannot describe",
            several.join(", ")
        ),
    }
}

/// Collects the fields of all alternatives. A `oneOf` over their required fields keeps them apart.
fn merge_objects(path: &str, branches: &[Object]) -> Result<Object> {
    let mut properties = Object::new();
    for branch in branches {
        if branch.contains_key("additionalProperties") {
            bail!(
                "{path} may be one of several types, one of them a map, which a CRD cannot describe"
            );
        }

        for (name, property) in branch
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let Some(there) = properties.get_mut(name) else {
                properties.insert(name.clone(), property.clone());
                continue;
            };

            if there != property {
                let both = [there.clone(), property.clone()]
                    .map(|one| one.as_object().cloned().unwrap_or_default());
                *there = merge(&format!("{path}.{name}"), &both)?.into();
            }
        }
    }

    let required = |branch: &Object| {
        branch
            .get("required")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };

    let always: Vec<Value> = required(&branches[0])
        .into_iter()
        .filter(|name| {
            branches
                .iter()
                .all(|branch| required(branch).contains(name))
        })
        .collect();

    let mut made = Object::from_iter([("type".to_owned(), "object".into())]);
    let one_of: Vec<Value> = branches
        .iter()
        .map(|branch| {
            required(branch)
                .into_iter()
                .filter(|name| !always.contains(name))
                .collect::<Vec<_>>()
        })
        .map(|names| json!({"required": names}))
        .collect();

    let distinct = one_of.iter().enumerate().all(|(at, one)| {
        one["required"]
            .as_array()
            .is_some_and(|names| !names.is_empty())
            && !one_of[..at].contains(one)
    });

    if distinct {
        made.insert("oneOf".to_owned(), one_of.into());
    }
    if !always.is_empty() {
        made.insert("required".to_owned(), always.into());
    }

    made.insert("properties".to_owned(), properties.into());
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(schema: Value) -> Value {
        structural("spec", &schema).unwrap_or_else(|error| panic!("{error:#}: {schema}"))
    }

    #[test]
    fn references_are_followed_and_what_stands_beside_them_wins() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Spec", "type": "object",
            "properties": {"a": {"$ref": "#/$defs/A", "description": "here"}, "b": {"allOf": [{"$ref": "#/$defs/A"}], "default": 1}},
            "$defs": {"A": {"type": "integer", "format": "uint32", "minimum": 0, "description": "there"}},
        });

        let a = json!({"type": "integer", "format": "int64", "minimum": 0, "description": "here"});
        let b = json!({"type": "integer", "format": "int64", "minimum": 0, "description": "there", "default": 1});

        assert_eq!(
            made(schema),
            json!({"type": "object", "properties": {"a": a, "b": b}})
        );
    }

    #[test]
    fn what_may_be_null_is_nullable() {
        let nullable = json!({"type": "string", "nullable": true});
        assert_eq!(made(json!({"type": ["string", "null"]})), nullable);
        assert_eq!(
            made(json!({"anyOf": [{"type": "string"}, {"type": "null"}]})),
            nullable
        );
        let values = json!({"type": "string", "enum": ["a"], "nullable": true});
        assert_eq!(made(json!({"enum": ["a", null]})), values);
    }

    #[test]
    fn alternatives_become_values_or_fields() {
        let letters = json!({"type": "string", "enum": ["a", "b"]});
        assert_eq!(
            made(json!({"oneOf": [{"const": "a", "description": "first"}, {"const": "b"}]})),
            letters
        );

        assert_eq!(made(json!({"enum": ["a", "b"]})), letters);
        let port = json!({"x-kubernetes-int-or-string": true});
        assert_eq!(
            made(json!({"anyOf": [{"type": "integer"}, {"type": "string"}]})),
            port
        );

        assert_eq!(made(json!({"type": ["integer", "string"]})), port);
        let branch = |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]});
        assert_eq!(
            made(json!({"oneOf": [branch("git"), branch("http")]})),
            json!({
                "type": "object", "oneOf": [{"required": ["git"]}, {"required": ["http"]}],
                "properties": {"git": {"type": "string"}, "http": {"type": "string"}},
            })
        );

        let tagged =
            |tag: &str| json!({"properties": {"type": {"const": tag}}, "required": ["type"]});
        assert_eq!(
            made(json!({"oneOf": [tagged("A"), tagged("B")]})),
            json!({"type": "object", "properties": {"type": {"type": "string", "enum": ["A", "B"]}}, "required": ["type"]})
        );
    }

    #[test]
    fn maps_lists_and_bounds_are_as_openapi_has_them() {
        assert_eq!(
            made(json!({"type": "object", "additionalProperties": {"type": "string"}})),
            json!({"type": "object", "additionalProperties": {"type": "string"}})
        );

        let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        assert_eq!(
            made(json!({"type": "object", "additionalProperties": {}})),
            free
        );

        assert_eq!(
            made(
                json!({"type": "array", "items": {"type": "number", "exclusiveMinimum": 0}, "uniqueItems": true})
            ),
            json!({
                "type": "array", "x-kubernetes-list-type": "set",
                "items": {"type": "number", "minimum": 0, "exclusiveMinimum": true},
            })
        );
    }

    #[test]
    fn what_a_crd_cannot_describe_is_named() {
        let field = |schema: Value| {
            json!({"type": "object", "properties": {"x": schema}, "$defs": {"N": {
            "type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}}}})
        };

        for (schema, part) in [
            (json!(true), "spec.x has no type"),
            (json!({"description": "anything"}), "spec.x has no type"),
            (json!({"type": "array"}), "spec.x has no type for its items"),
            (
                json!({"type": "array", "items": {}}),
                "spec.x[] has no type",
            ),
            (
                json!({"type": ["string", "object"]}),
                "spec.x may be of several types (object, string)",
            ),
            (
                json!({"anyOf": [{"type": "string"}, {"type": "boolean"}]}),
                "spec.x may be one of several types",
            ),
            (
                json!({"$ref": "#/$defs/N"}),
                "spec.x.next refers to a type that it is part of",
            ),
            (json!({"$ref": "#/$defs/M"}), "which is not in the schema"),
            (
                json!({"type": "object", "patternProperties": {}}),
                "\"patternProperties\"",
            ),
            (json!({"oneOf": [{"type": "null"}]}), "may only be null"),
        ] {
            let error = structural("spec", &field(schema.clone()))
                .expect_err("cannot be said")
                .to_string();
            assert!(error.contains(part), "{schema}: {error}");
        }
    }
}
