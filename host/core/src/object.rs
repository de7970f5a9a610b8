//! Objects as the cache holds them: compact JSON text plus the few fields the host itself looks at.
//!
//! The host never builds a tree of an object: one scan frames the top level, a second one frames `metadata`, and the
//! rest stays the bytes the API server sent. `metadata.managedFields` is dropped on the way when asked, because it
//! is about half of a typical object and reconcilers do not read it.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;

use crate::kind::GroupVersionKind;

/// The name of one object of a kind (apimachinery's `types.NamespacedName`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// None for objects of cluster-scoped kinds.
    pub namespace: Option<String>,
    /// metadata.name.
    pub name: String,
}

impl ObjectKey {
    /// The key of an object in a namespace.
    pub fn namespaced(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), name: name.into() }
    }

    /// The key of an object of a cluster-scoped kind.
    pub fn cluster(name: impl Into<String>) -> Self {
        Self { namespace: None, name: name.into() }
    }
}

/// `namespace/name`, or the name alone: client-go's MetaNamespaceKeyFunc.
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// One entry of metadata.ownerReferences.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    /// The owner's apiVersion.
    pub api_version: String,
    /// The owner's kind.
    pub kind: String,
    /// The owner's name; it lives in the same namespace or is cluster-scoped.
    pub name: String,
    /// The owner's uid.
    pub uid: String,
    /// Whether this owner is the managing controller.
    #[serde(default)]
    pub controller: bool,
}

/// What the host itself reads of an object's metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectHeader {
    /// Namespace and name.
    pub key: ObjectKey,
    /// metadata.uid; empty if the server sent none.
    pub uid: String,
    /// metadata.resourceVersion; empty if the server sent none.
    pub resource_version: String,
    /// metadata.generation; 0 for kinds that have none.
    pub generation: i64,
    /// metadata.labels, sorted by name.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// metadata.ownerReferences.
    pub owners: Box<[OwnerReference]>,
    /// Whether metadata.deletionTimestamp is set.
    pub deleting: bool,
}

impl ObjectHeader {
    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.binary_search_by(|(key, _)| key.as_ref().cmp(name)).ok().map(|at| self.labels[at].1.as_ref())
    }

    /// The managing controller's reference (apimachinery's `metav1.GetControllerOf`).
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owners.iter().find(|owner| owner.controller)
    }

    /// The resourceVersion as a number: since Kubernetes 1.35 clients may compare them (KEP-5504). None if it is none.
    pub fn revision(&self) -> Option<u64> {
        self.resource_version.parse().ok()
    }
}

/// One object: its header and its JSON text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The fields the host reads.
    pub header: ObjectHeader,
    json: Box<str>,
}

/// Why a text is not a Kubernetes object.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The text is not JSON, or a metadata field has the wrong type.
    #[error("not a Kubernetes object: {0}")]
    Json(#[from] serde_json::Error),
    /// There is no metadata.name.
    #[error("not a Kubernetes object: it has no metadata.name")]
    Unnamed,
}

/// What becomes of metadata.managedFields when an object is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManagedFields {
    /// As the API server sent them.
    Keep,
    /// Left out.
    Drop,
}

impl Object {
    /// Reads an object from the API server's JSON. Items of a typed list carry no apiVersion and kind: they get those
    /// of `kind`.
    ///
    /// # Errors
    /// When the text is not JSON, has no metadata.name, or a metadata field has the wrong type.
    pub fn from_json(text: &str, kind: &GroupVersionKind, managed_fields: ManagedFields) -> Result<Self, ObjectError> {
        Ok(Self::untyped(text, managed_fields)?.into_typed(kind))
    }

    /// Reads an object and leaves apiVersion and kind as they are, or are not. See [`Object::into_typed`].
    ///
    /// # Errors
    /// As [`Object::from_json`].
    pub fn untyped(text: &str, managed_fields: ManagedFields) -> Result<Self, ObjectError> {
        let frame: Frame<'_> = serde_json::from_str(text)?;
        let metadata: Frame<'_> = serde_json::from_str(frame.get("metadata").ok_or(ObjectError::Unnamed)?)?;
        let header = header(&metadata)?;
        let prune = managed_fields == ManagedFields::Drop && metadata.get("managedFields").is_some();
        let json = if prune { frame.without_managed_fields(&metadata) } else { text.into() };
        Ok(Self { header, json })
    }

    /// Puts apiVersion and kind in front of an object that came without, as items of a typed list do.
    #[must_use]
    pub fn into_typed(mut self, kind: &GroupVersionKind) -> Self {
        let typed = ["{\"kind\":", "{\"apiVersion\":"].iter().any(|start| self.json.starts_with(start));
        if !typed && self.at("kind").is_none() {
            let api_version = serde_json::Value::from(kind.api_version.as_str());
            let kind = serde_json::Value::from(kind.kind.as_str());
            let fields = self.json.trim_start().trim_start_matches('{');
            self.json = format!("{{\"apiVersion\":{api_version},\"kind\":{kind},{fields}").into();
        }
        self
    }

    /// The object's JSON text.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// Bytes this object holds in memory, without the allocator's overhead.
    pub fn heap_bytes(&self) -> usize {
        let header = &self.header;
        let labels: usize = header.labels.iter().map(|(name, value)| 32 + name.len() + value.len()).sum();
        let owners: usize = header
            .owners
            .iter()
            .map(|owner| {
                size_of::<OwnerReference>()
                    + owner.api_version.len()
                    + owner.kind.len()
                    + owner.name.len()
                    + owner.uid.len()
            })
            .sum();
        let key = header.key.name.len() + header.key.namespace.as_ref().map_or(0, String::len);
        size_of::<Self>() + self.json.len() + key + header.uid.len() + header.resource_version.len() + labels + owners
    }

    /// The value at a path like `.spec.nodeName`, as JSON text; None when a step is missing. Steps are object fields.
    pub fn at(&self, path: &str) -> Option<&str> {
        self.along(path.trim_start_matches('.').split('.'))
    }

    /// The value that these fields lead to, as JSON text; None when a step is missing.
    pub fn along<'s>(&self, steps: impl IntoIterator<Item = &'s str>) -> Option<&str> {
        let mut value: &str = &self.json;
        for step in steps {
            value = serde_json::from_str::<Frame<'_>>(value).ok()?.get(step)?;
        }
        Some(value)
    }

    /// The scalar at a path, as an index or a mapping uses it: a string without its quotes, a number or boolean as
    /// written; None for null, lists and objects.
    pub fn scalar_at(&self, path: &str) -> Option<String> {
        let text = self.at(path)?;
        match text.as_bytes().first()? {
            b'"' => serde_json::from_str(text).ok(),
            b'{' | b'[' | b'n' => None,
            _ => Some(text.to_owned()),
        }
    }
}

fn header(metadata: &Frame<'_>) -> Result<ObjectHeader, ObjectError> {
    fn field<'a, T: Deserialize<'a>>(metadata: &Frame<'a>, name: &str) -> Result<Option<T>, ObjectError> {
        Ok(metadata.get(name).map(serde_json::from_str::<Option<T>>).transpose()?.flatten())
    }
    let mut labels: Vec<(Box<str>, Box<str>)> = field::<Pairs>(metadata, "labels")?.unwrap_or_default().0;
    labels.sort();
    let namespace: Option<String> = field(metadata, "namespace")?;
    Ok(ObjectHeader {
        key: ObjectKey {
            namespace: namespace.filter(|namespace| !namespace.is_empty()),
            name: field(metadata, "name")?.ok_or(ObjectError::Unnamed)?,
        },
        uid: field(metadata, "uid")?.unwrap_or_default(),
        resource_version: field(metadata, "resourceVersion")?.unwrap_or_default(),
        generation: field(metadata, "generation")?.unwrap_or_default(),
        labels: labels.into(),
        owners: field::<Vec<OwnerReference>>(metadata, "ownerReferences")?.unwrap_or_default().into(),
        deleting: field::<Cow<'_, str>>(metadata, "deletionTimestamp")?.is_some(),
    })
}

/// A JSON object cut into its fields, in order, each value still text.
pub(crate) struct Frame<'a>(pub(crate) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Frame<'a> {
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.get())
    }

    /// The text again, without metadata.managedFields.
    fn without_managed_fields(&self, metadata: &Frame<'_>) -> Box<str> {
        let size: usize = self.0.iter().map(|(key, value)| key.len() + value.get().len() + 4).sum();
        let mut json = String::with_capacity(size);
        json.push('{');
        for (key, value) in &self.0 {
            if key == "metadata" {
                let mut kept = String::from("{");
                for (key, value) in metadata.0.iter().filter(|(key, _)| key != "managedFields") {
                    push_field(&mut kept, key, value.get());
                }
                kept.push('}');
                push_field(&mut json, key, &kept);
            } else {
                push_field(&mut json, key, value.get());
            }
        }
        json.push('}');
        json.into_boxed_str()
    }
}

pub(crate) fn push_field(json: &mut String, name: &str, value: &str) {
    if !json.ends_with('{') {
        json.push(',');
    }
    if name.bytes().any(|byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        json.push_str(&serde_json::Value::from(name).to_string());
    } else {
        json.push('"');
        json.push_str(name);
        json.push('"');
    }
    json.push(':');
    json.push_str(value);
}

impl<'de> Deserialize<'de> for Frame<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> de::Visitor<'de> for Fields {
            type Value = Frame<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::with_capacity(8);
                while let Some(Key(key)) = map.next_key()? {
                    fields.push((key, map.next_value()?));
                }
                Ok(Frame(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// A field name, borrowed unless it holds an escape.
struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> de::Visitor<'de> for Text {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field name")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[derive(Default)]
struct Pairs(Vec<(Box<str>, Box<str>)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> de::Visitor<'de> for Entries {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::with_capacity(map.size_hint().unwrap_or(0));
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> GroupVersionKind {
        GroupVersionKind::new("v1", "Pod")
    }

    const TEXT: &str = r#"{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"12","generation":3,"labels":{"z":"1","app":"é"},"managedFields":[{"manager":"x"}],"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"o","controller":true,"blockOwnerDeletion":true}]},"spec":{"nodeName":"w1","n":9007199254740993,"s":"a\"b"},"status":null}"#;

    #[test]
    fn a_list_item_gets_its_kind_and_loses_managed_fields_and_nothing_else() {
        let object = Object::from_json(TEXT, &pod(), ManagedFields::Drop).expect("parses");
        let before: serde_json::Value = serde_json::from_str(TEXT).expect("json");
        let mut after: serde_json::Value = serde_json::from_str(object.json()).expect("still json");
        assert_eq!(after["apiVersion"], "v1");
        assert_eq!(after["kind"], "Pod");
        let fields = after.as_object_mut().expect("object");
        fields.remove("apiVersion");
        fields.remove("kind");
        let mut expected = before;
        expected["metadata"].as_object_mut().expect("object").remove("managedFields");
        assert_eq!(after, expected);
    }

    #[test]
    fn the_header_is_read_without_the_rest() {
        let header = Object::from_json(TEXT, &pod(), ManagedFields::Keep).expect("parses").header;
        assert_eq!(header.key, ObjectKey::namespaced("n", "a"));
        assert_eq!((header.revision(), header.generation, header.deleting), (Some(12), 3, false));
        assert_eq!((header.label("app"), header.label("z"), header.label("y")), (Some("é"), Some("1"), None));
        assert_eq!(header.controller().map(|owner| owner.name.as_str()), Some("r"));
    }

    #[test]
    fn paths_reach_scalars_and_keep_large_numbers_whole() {
        let object = Object::from_json(TEXT, &pod(), ManagedFields::Keep).expect("parses");
        assert_eq!(object.scalar_at(".spec.nodeName").as_deref(), Some("w1"));
        assert_eq!(object.scalar_at(".spec.n").as_deref(), Some("9007199254740993"));
        assert_eq!(object.scalar_at(".spec.s").as_deref(), Some("a\"b"));
        assert_eq!(object.scalar_at(".spec"), None);
        assert_eq!(object.scalar_at(".status.phase"), None);
    }

    #[test]
    fn what_is_no_object_is_refused_with_the_reason() {
        for (text, reason) in [
            ("[]", "expected a JSON object"),
            ("{\"metadata\":{}}", "no metadata.name"),
            ("{}", "no metadata.name"),
            ("{\"metadata\":{\"name\":1}}", "expected a string"),
        ] {
            let error = Object::from_json(text, &pod(), ManagedFields::Drop).expect_err(text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
