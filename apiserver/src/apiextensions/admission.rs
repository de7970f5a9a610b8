//! A CustomResourceDefinition: admission of definitions, and the versions that they serve.

use super::{
    definition, formats,
    model::{Definition, Version},
    schema::Schema,
    status, typed,
    types::DEFINITION,
    version::CrdVersion,
};
use crate::{
    apimachinery::{field::FieldError, metadata, status::Status},
    server::Admitted,
};
use std::sync::Arc;

use serde_json::{Value, json};

const GROUP: &str = "apiextensions.k8s.io";
const KIND: &str = "CustomResourceDefinition";

/// A definition that was decoded from a request.
#[derive(Debug)]
pub struct DecodedDefinition {
    /// The definition with defaults and without unknown fields.
    pub object: Value,
    /// The paths of unknown fields, for `fieldValidation`.
    pub unknown_fields: Vec<String>,
}

/// A definition, and the versions that it serves.
#[derive(Clone, Debug)]
pub struct Crd {
    definition: Arc<Definition>,
    versions: Vec<Arc<CrdVersion>>,
}

/// Decodes a definition, and sets its defaults.
///
/// # Errors
/// Returns the message of Go's decoder if a field has the wrong type.
pub fn decode(object: &Value) -> Result<DecodedDefinition, String> {
    let decoded = typed::decode(object, &DEFINITION)?;
    let mut object = decoded.object;
    set_defaults(&mut object);

    Ok(DecodedDefinition {
        object,
        unknown_fields: decoded.unknown,
    })
}

fn set_defaults(object: &mut Value) {
    let kind = object
        .pointer("/spec/names/kind")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();

    if let Some(Value::Object(names)) = object.pointer_mut("/spec/names")
        && !kind.is_empty()
    {
        names
            .entry("singular")
            .or_insert_with(|| json!(kind.to_lowercase()));
        names
            .entry("listKind")
            .or_insert_with(|| json!(format!("{kind}List")));
    }

    if let Some(Value::Object(spec)) = object.get_mut("spec") {
        spec.entry("conversion")
            .or_insert_with(|| json!({"strategy": "None"}));
    }

    if let Some(Value::Object(service)) =
        object.pointer_mut("/spec/conversion/webhook/clientConfig/service")
    {
        service.entry("port").or_insert(json!(443));
    }

    let stored = object
        .pointer("/status/storedVersions")
        .and_then(Value::as_array);
    if stored.is_none_or(Vec::is_empty)
        && let Some(name) = storage_version(object)
    {
        object["status"]["storedVersions"] = json!([name]);
    }
}

fn storage_version(object: &Value) -> Option<Value> {
    let versions = object.pointer("/spec/versions")?.as_array()?;
    versions
        .iter()
        .find(|version| version["storage"] == true)?
        .get("name")
        .cloned()
}

fn parse(object: &Value) -> Result<Definition, Status> {
    serde_json::from_value(object.clone())
        .map_err(|error| Status::bad_request(format!("{KIND} cannot be decoded: {error}")))
}

fn refuse(object: &Value, causes: Vec<FieldError>) -> Result<(), Status> {
    if causes.is_empty() {
        return Ok(());
    }

    let name = object
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    Err(Status::invalid(GROUP, KIND, name, causes))
}

/// Refuses what the real server has and this one does not.
fn refuse_missing(definition: &Definition) -> Result<(), Status> {
    let strategy = definition
        .spec
        .conversion
        .as_ref()
        .map_or("None", |conversion| conversion.strategy.as_str());
    if strategy == "Webhook" {
        let detail = "spec.conversion.strategy: conversion webhooks are not implemented by this server, use None";
        return Err(Status::unsupported(detail));
    }

    Ok(())
}

/// Admits a new definition that was decoded before: its status is reset, and it is validated.
///
/// # Errors
/// Returns a refusal if the definition is invalid, or uses a feature that this server does not
/// have.
pub fn admit_create(mut object: Value) -> Result<Admitted, Status> {
    metadata::drop_namespace(&mut object);
    object["metadata"]["generation"] = json!(1);

    let stored = storage_version(&object).map_or(Value::Null, |name| json!([name]));
    object["status"] = json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored});

    let definition = parse(&object)?;
    refuse(&object, definition::validate(&definition, &object))?;
    refuse_missing(&definition)?;

    let warnings = unknown_formats(&definition)
        .iter()
        .map(|format| unknown_format(format))
        .collect();
    Ok(Admitted { object, warnings })
}

/// Admits an update of a definition that was decoded before.
///
/// # Errors
/// Returns a refusal if the definition is invalid, or uses a feature that this server does not
/// have.
pub fn admit_update(mut object: Value, old: &Value) -> Result<Admitted, Status> {
    metadata::drop_namespace(&mut object);
    metadata::keep_system_fields(&mut object, old);
    object["status"] = old["status"].clone();

    let generation = old
        .pointer("/metadata/generation")
        .and_then(Value::as_i64)
        .unwrap_or(0);
    let changed = object["spec"] != old["spec"];
    object["metadata"]["generation"] = json!(generation + i64::from(changed));

    if let Some(name) = storage_version(&object) {
        match object.pointer_mut("/status/storedVersions") {
            Some(Value::Array(stored)) if stored.contains(&name) => {}
            Some(Value::Array(stored)) => stored.push(name),
            _ => object["status"]["storedVersions"] = json!([name]),
        }
    }

    if metadata::text(&object, "resourceVersion").is_empty() {
        refuse(&object, vec![metadata::version_required()])?;
    }

    let definition = parse(&object)?;
    let before = parse(old)?;
    refuse(
        &object,
        definition::validate_update((&definition, &object), (&before, old)),
    )?;
    refuse_missing(&definition)?;

    let known = unknown_formats(&before);
    let new = unknown_formats(&definition)
        .into_iter()
        .filter(|format| !known.contains(format));

    Ok(Admitted {
        warnings: new.map(|format| unknown_format(&format)).collect(),
        object,
    })
}

/// Admits an update of the status of a definition.
///
/// # Errors
/// Returns a refusal if the status is invalid.
pub fn admit_status_update(object: &Value, old: &Value) -> Result<Value, Status> {
    let mut updated = object.clone();
    metadata::drop_namespace(&mut updated);
    metadata::keep_system_fields(&mut updated, old);
    updated["spec"] = old["spec"].clone();

    let definition = parse(&updated)?;
    refuse(
        &updated,
        definition::validate_status_update((&definition, &updated), old),
    )?;

    Ok(updated)
}

/// Computes the status of a stored definition beside all others, at an RFC 3339 time. Returns the
/// definition with the new status, or none if nothing changes.
///
/// # Errors
/// Returns a refusal if a definition cannot be decoded.
pub fn reconcile_status(
    object: &Value,
    others: &[&Value],
    now: &str,
) -> Result<Option<Value>, Status> {
    let definition = parse(object)?;
    let others: Vec<_> = others
        .iter()
        .map(|other| parse(other))
        .collect::<Result<_, _>>()?;
    let others: Vec<_> = others.iter().collect();
    let Some(status) = status::reconcile(&definition, object, &others, now) else {
        return Ok(None);
    };
    let mut updated = object.clone();

    updated["status"] = status;

    Ok(Some(updated))
}

fn unknown_format(format: &str) -> String {
    format!("unrecognized format {}", crate::golang::quote(format))
}

/// Lists the formats in the schemas of a definition that the server does not check.
fn unknown_formats(definition: &Definition) -> Vec<String> {
    let mut found = Vec::new();
    let mut seen: Vec<&Schema> = Vec::new();
    for schema in definition.spec.versions.iter().filter_map(Version::schema) {
        if !seen.contains(&schema) {
            seen.push(schema);
            collect_unknown_formats(schema, &mut found);
        }
    }

    found
}

fn collect_unknown_formats(schema: &Schema, found: &mut Vec<String>) {
    let kinds: &[&str] = match schema.kind.as_str() {
        _ if schema.int_or_string => &["integer", "string"],
        "" => &[],
        kind => &[kind],
    };

    if !schema.format.is_empty()
        && formats::effective(kinds, &schema.format).is_empty()
        && !found.contains(&schema.format)
    {
        found.push(schema.format.clone());
    }

    schema
        .children()
        .into_iter()
        .for_each(|child| collect_unknown_formats(child, found));
}

impl Crd {
    /// Prepares a stored definition for serving.
    ///
    /// # Errors
    /// Returns a refusal if the definition cannot be decoded, or uses a feature that this server
    /// does not have.
    pub fn from_value(object: &Value) -> Result<Self, Status> {
        let definition = Arc::new(parse(object)?);
        refuse_missing(&definition)?;

        let versions = (0..definition.spec.versions.len())
            .filter_map(|at| CrdVersion::new(definition.clone(), object, at).map(Arc::new))
            .collect();
        Ok(Self {
            definition,
            versions,
        })
    }

    /// Returns the parts of the definition.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Returns a version.
    pub fn version(&self, name: &str) -> Option<&Arc<CrdVersion>> {
        self.versions.iter().find(|version| version.name() == name)
    }

    /// Returns the versions, in the order of the definition.
    pub fn versions(&self) -> &[Arc<CrdVersion>] {
        &self.versions
    }

    /// Returns the version in which objects are stored.
    pub fn storage_version(&self) -> Option<&Arc<CrdVersion>> {
        self.versions.iter().find(|version| version.is_storage())
    }
}
