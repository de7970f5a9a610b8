//! Objects as they are stored: their bytes, and what selectors need.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;

use super::key::ObjectKey;
use crate::apimachinery::json::{self, SyntaxError};

/// An object before it has a revision.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The JSON after the `resourceVersion`, from the rest of the metadata to the closing brace.
    tail: Bytes,
    uid: Box<str>,
    labels: Vec<(Box<str>, Box<str>)>,
    fields: Vec<(Box<str>, Box<str>)>,
}

impl Draft {
    /// Creates a draft from the object's metadata and its other fields. `resourceVersion`,
    /// `apiVersion` and `kind` are left out.
    #[must_use]
    pub fn from_metadata_and_rest(metadata: &Value, rest: &Value) -> Self {
        let empty = serde_json::Map::new();
        let mut tail = Vec::with_capacity(256);
        write_members(
            &mut tail,
            metadata.as_object().unwrap_or(&empty),
            &["resourceVersion"],
        );
        tail.push(b'}');

        write_members(
            &mut tail,
            rest.as_object().unwrap_or(&empty),
            &["metadata", "apiVersion", "kind"],
        );
        tail.push(b'}');

        Self {
            // A vector keeps the room that it grew into, up to half of it.
            tail: Bytes::from(tail.into_boxed_slice()),
            uid: metadata
                .get("uid")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .into(),
            labels: labels_of(metadata),
            fields: Vec::new(),
        }
    }

    /// Creates a draft from a whole object.
    #[must_use]
    pub fn from_object(object: &Value) -> Self {
        Self::from_metadata_and_rest(object.get("metadata").unwrap_or(&Value::Null), object)
    }

    /// Adds the kind's selectable fields, other than name and namespace.
    #[must_use]
    pub fn with_fields(mut self, fields: BTreeMap<String, String>) -> Self {
        self.fields = fields
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        self
    }

    /// Reads a draft from stored bytes.
    pub(super) fn from_tail(
        tail: Bytes,
        fields: BTreeMap<String, String>,
    ) -> Result<Self, SyntaxError> {
        let object = parse_tail(&tail)?;
        let metadata = object.get("metadata").unwrap_or(&Value::Null);

        let uid = metadata
            .get("uid")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .into();

        Ok(Self {
            uid,
            labels: labels_of(metadata),
            tail,
            fields: Vec::new(),
        }
        .with_fields(fields))
    }

    /// The stored bytes.
    pub(super) fn tail(&self) -> &Bytes {
        &self.tail
    }

    /// The selectable fields.
    pub(super) fn fields(&self) -> &[(Box<str>, Box<str>)] {
        &self.fields
    }
}

fn labels_of(metadata: &Value) -> Vec<(Box<str>, Box<str>)> {
    let Some(labels) = metadata.get("labels").and_then(Value::as_object) else {
        return Vec::new();
    };

    labels
        .iter()
        .filter_map(|(name, value)| Some((name.as_str().into(), value.as_str()?.into())))
        .collect()
}

fn write_members(out: &mut Vec<u8>, members: &serde_json::Map<String, Value>, without: &[&str]) {
    for (name, value) in members {
        if without.contains(&name.as_str()) {
            continue;
        }

        out.push(b',');
        json::write_string(name, out);
        out.push(b':');
        json::write(value, out);
    }
}

fn parse_tail(tail: &[u8]) -> Result<Value, SyntaxError> {
    let mut text = Vec::with_capacity(tail.len() + 40);
    text.extend_from_slice(br#"{"metadata":{"resourceVersion":"0""#);
    text.extend_from_slice(tail);
    json::read(&text)
}

/// A stored object at one revision.
#[derive(Clone, Debug)]
pub struct StoredObject {
    key: ObjectKey,
    revision: u64,
    draft: Draft,
}

impl StoredObject {
    pub(super) fn new(key: ObjectKey, revision: u64, draft: Draft) -> Self {
        Self {
            key,
            revision,
            draft,
        }
    }

    /// Returns this object at a later revision, as watchers see a deleted one.
    #[must_use]
    pub fn at_revision(&self, revision: u64) -> Self {
        Self {
            revision,
            ..self.clone()
        }
    }

    /// Returns the object's key.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Returns the revision of the object's last change: its `resourceVersion`.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the object's UID.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.draft.uid
    }

    /// Returns the value of a label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        self.draft
            .labels
            .iter()
            .find(|(label, _)| &**label == name)
            .map(|(_, value)| &**value)
    }

    /// Returns the value of one of the kind's selectable fields.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.draft
            .fields
            .iter()
            .find(|(field, _)| &**field == name)
            .map(|(_, value)| &**value)
    }

    /// Returns the object's size in bytes, without its key.
    #[must_use]
    pub fn size(&self) -> usize {
        self.draft.tail.len()
    }

    /// The bytes that the object takes in memory, roughly.
    pub(super) fn footprint(&self) -> usize {
        self.own_footprint() + self.draft.tail.len()
    }

    /// The part of the footprint that this object does not share with its copies at other revisions.
    pub(super) fn own_footprint(&self) -> usize {
        let pairs = self.draft.labels.iter().chain(&self.draft.fields);
        let pairs: usize = pairs
            .map(|(name, value)| size_of::<(Box<str>, Box<str>)>() + name.len() + value.len())
            .sum();

        size_of::<Self>() + self.key.as_str().len() + self.draft.uid.len() + pairs
    }

    /// Reports whether writing `draft` would change nothing.
    #[must_use]
    pub fn is_same(&self, draft: &Draft) -> bool {
        self.draft.tail == draft.tail
    }

    pub(super) fn draft(&self) -> &Draft {
        &self.draft
    }

    /// Writes the object as JSON. `type_meta` is empty, or `"kind":…,"apiVersion":…,` including the
    /// trailing comma.
    pub fn write_json(&self, out: &mut Vec<u8>, type_meta: &str) {
        out.reserve(type_meta.len() + self.draft.tail.len() + 56);
        out.push(b'{');
        out.extend_from_slice(type_meta.as_bytes());
        out.extend_from_slice(br#""metadata":{"resourceVersion":""#);
        out.extend_from_slice(self.revision.to_string().as_bytes());
        out.push(b'"');
        out.extend_from_slice(&self.draft.tail);
    }

    /// Returns the object as a tree, without `kind` and `apiVersion`.
    ///
    /// # Errors
    ///
    /// The stored bytes are not JSON, which does not happen for bytes that this store wrote.
    pub fn to_value(&self) -> Result<Value, SyntaxError> {
        let mut value = parse_tail(&self.draft.tail)?;
        value["metadata"]["resourceVersion"] = Value::String(self.revision.to_string());
        Ok(value)
    }
}
