//! The entries of `metadata.managedFields`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::apply::{
    fieldpath::{FieldSet, FieldsV1Error},
    merge::{ManagedSets, ManagerId, Operation, VersionedSet},
};

/// An invalid entry of `metadata.managedFields`.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The operation is neither `Apply` nor `Update`.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// The version is missing.
    #[error("apiVersion must not be empty")]
    ApiVersion,
    /// The type of the fields is missing.
    #[error("missing fieldsType in managed fields entry {0}")]
    MissingFieldsType(usize),
    /// The type of the fields is unknown.
    #[error("invalid fieldsType {fields_type:?} in managed fields entry {index}")]
    FieldsType {
        /// The position of the entry.
        index: usize,
        /// The type.
        fields_type: String,
    },
    /// The fields are not in the format `FieldsV1`.
    #[error(
        "error decoding versioned set from managed fields entry {index}: error decoding set: {source}"
    )]
    Fields {
        /// The position of the entry.
        index: usize,
        /// The error.
        source: FieldsV1Error,
    },
}

/// The managers of an object with the times of their last changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managed {
    /// The managers.
    pub sets: ManagedSets,
    /// The times of the last change of each manager, if known.
    pub times: BTreeMap<ManagerId, Timestamp>,
}

/// Decodes `metadata.managedFields`.
///
/// # Errors
/// Returns the first entry that is not valid, in the words of the API server.
pub fn decode_managed_fields(entries: &[Value]) -> Result<Managed, DecodeError> {
    let mut managed = Managed::default();
    for (index, entry) in entries.iter().enumerate() {
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();

        let operation = match entry["operation"].as_str() {
            Some("Apply") => Operation::Apply,
            Some("Update") => Operation::Update,
            _ => return Err(DecodeError::Operation),
        };

        let api_version = text("apiVersion");
        if api_version.is_empty() {
            return Err(DecodeError::ApiVersion);
        }

        match text("fieldsType").as_str() {
            "FieldsV1" => {}
            "" => return Err(DecodeError::MissingFieldsType(index)),
            other => {
                return Err(DecodeError::FieldsType {
                    index,
                    fields_type: other.into(),
                });
            }
        }

        let set = FieldSet::from_fields(&entry["fieldsV1"])
            .map_err(|source| DecodeError::Fields { index, source })?;

        let applied = operation == Operation::Apply;
        let id = manager_id(
            text("manager"),
            operation,
            &api_version,
            text("subresource"),
        );

        let time = entry["time"]
            .as_str()
            .and_then(|time| time.parse::<Timestamp>().ok());
        managed.times.extend(time.map(|time| (id.clone(), time)));

        managed.sets.insert(
            id,
            VersionedSet {
                set,
                api_version,
                applied,
            },
        );
    }

    Ok(managed)
}

/// Encodes `metadata.managedFields`, sorted by operation, time, manager, version and subresource.
pub fn encode_managed_fields(managed: &Managed) -> Vec<Value> {
    let seconds = |manager: &ManagerId| {
        managed
            .times
            .get(manager)
            .map_or(0, |time| time.as_second())
    };

    let mut entries: Vec<_> = managed.sets.iter().collect();
    entries.sort_by_cached_key(|(manager, fields)| {
        let operation = manager.operation.as_str();
        let name = manager.name.clone();
        (
            operation,
            seconds(manager),
            name,
            fields.api_version.clone(),
            manager.subresource.clone(),
        )
    });

    entries
        .into_iter()
        .map(|(manager, fields)| entry(manager, fields, managed.times.get(manager)))
        .collect()
}

/// The identity of an entry. An applier has one entry, whatever the version.
pub(super) fn manager_id(
    name: String,
    operation: Operation,
    api_version: &str,
    subresource: String,
) -> ManagerId {
    let api_version = if operation == Operation::Apply {
        ""
    } else {
        api_version
    };

    ManagerId {
        name,
        operation,
        api_version: api_version.into(),
        subresource,
    }
}

fn entry(manager: &ManagerId, fields: &VersionedSet, time: Option<&Timestamp>) -> Value {
    let mut entry = Map::new();
    if !manager.name.is_empty() {
        entry.insert("manager".into(), json!(manager.name));
    }

    entry.insert("operation".into(), json!(manager.operation.as_str()));
    entry.insert("apiVersion".into(), json!(fields.api_version));

    if let Some(time) = time {
        entry.insert(
            "time".into(),
            json!(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        );
    }

    entry.insert("fieldsType".into(), json!("FieldsV1"));
    entry.insert("fieldsV1".into(), fields.set.to_fields());

    if !manager.subresource.is_empty() {
        entry.insert("subresource".into(), json!(manager.subresource));
    }

    Value::Object(entry)
}
