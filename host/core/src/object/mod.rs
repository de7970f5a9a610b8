//! Objects as cached: compact JSON text, plus the few fields needed by the host itself.
//!
//! The host never builds a tree of an object. It finds the fields it needs in one pass over the
//! text (see [`RawObject`]), and the rest stays as the API server sent it. `metadata.managedFields`
//! is dropped on request: it makes up a quarter to half of a typical object, and reconcilers don't
//! read it. An [`Object`] is a cheap view of such bytes; a store keeps only the bytes.

pub mod bounded_name;
pub(crate) mod changes;
#[cfg(test)]
mod changes_tests;
mod error;
pub mod field_managers;
pub(crate) mod fields;
pub mod kind;
mod metadata;
mod owner_reference;
pub mod projection;
pub mod prune;
mod raw_object;
mod reading;
pub(crate) mod scanner;
pub mod selector;
mod signs;
pub mod tree;
pub(crate) mod value;

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

pub use operetta_api::ObjectKey;

pub use crate::object::{
    error::ObjectError,
    metadata::{Labels, Metadata},
    owner_reference::OwnerReference,
    raw_object::RawObject,
    scanner::ScanError,
};
use crate::object::{fields::field, kind::GroupVersionKind, prune::Prune};

/// An object: its JSON text and the fields needed by the host. Objects with equal texts are equal.
///
/// Fields are decoded on first use, so that a cached read costs only what the reader looks at.
#[derive(Clone)]
pub struct Object {
    raw: RawObject,
    key: OnceLock<ObjectKey>,
    owners: OnceLock<Box<[OwnerReference]>>,
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.json())
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.json() == other.json()
    }
}

impl Eq for Object {}

/// What to do with metadata.managedFields when reading an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManagedFields {
    /// Keep them as the API server sent them.
    Keep,
    /// Drop them.
    Drop,
}

impl ManagedFields {
    fn prune(self) -> Prune {
        if self == Self::Keep {
            Prune::nothing()
        } else {
            Prune::managed_fields()
        }
    }
}

impl Object {
    /// Reads an object from the API server's JSON. Items of a typed list lack apiVersion and kind,
    /// and get those of `kind`.
    ///
    /// # Errors
    /// Returns an error if the text is not JSON, has no metadata.name, or a metadata field has the
    /// wrong type or occurs twice.
    pub fn from_json(
        text: &str,
        kind: &GroupVersionKind,
        managed_fields: ManagedFields,
    ) -> Result<Self, ObjectError> {
        Self::from_json_pruned(text, kind, &managed_fields.prune())
    }

    /// Reads an object without the pruned fields, in one pass over the text.
    ///
    /// # Errors
    /// Same as [`Object::from_json`].
    pub fn from_json_pruned(
        text: &str,
        kind: &GroupVersionKind,
        prune: &Prune,
    ) -> Result<Self, ObjectError> {
        Ok(Self::of(RawObject::read(text, Some(kind), prune)?))
    }

    /// Reads an object from untrusted bytes.
    ///
    /// # Errors
    /// Same as [`Object::from_json`]; also if the bytes are not UTF-8.
    pub fn from_slice(
        bytes: &[u8],
        kind: &GroupVersionKind,
        managed: ManagedFields,
    ) -> Result<Self, ObjectError> {
        let text =
            std::str::from_utf8(bytes).map_err(|error| ObjectError::Utf8(error.valid_up_to()))?;
        Self::from_json(text, kind, managed)
    }

    /// Reads an object once, and returns it with and without metadata.managedFields.
    ///
    /// # Errors
    /// Same as [`Object::from_json`].
    pub fn with_and_without_managed_fields(
        text: &str,
        kind: &GroupVersionKind,
    ) -> Result<(Self, Self), ObjectError> {
        let (whole, pruned) =
            RawObject::read_whole_and_pruned(text, Some(kind), &Prune::managed_fields())?;
        Ok((Self::of(whole), Self::of(pruned)))
    }

    /// Reads an object without adding apiVersion or kind.
    ///
    /// # Errors
    /// Same as [`Object::from_json`].
    pub fn untyped(text: &str, managed_fields: ManagedFields) -> Result<Self, ObjectError> {
        Ok(Self::of(RawObject::read(
            text,
            None,
            &managed_fields.prune(),
        )?))
    }

    /// Wraps an object's bytes.
    pub fn of(raw: RawObject) -> Self {
        Self {
            raw,
            key: OnceLock::new(),
            owners: OnceLock::new(),
        }
    }

    /// The object's bytes.
    pub fn raw(&self) -> &RawObject {
        &self.raw
    }

    /// The namespace and name.
    pub fn key(&self) -> &ObjectKey {
        self.key.get_or_init(|| {
            let metadata = self.raw.metadata();
            ObjectKey {
                namespace: metadata.namespace().map(Into::into),
                name: metadata.name().into(),
            }
        })
    }

    /// metadata.uid; empty if missing.
    pub fn uid(&self) -> &str {
        self.raw.metadata().uid()
    }

    /// metadata.resourceVersion; empty if missing.
    pub fn resource_version(&self) -> &str {
        self.raw.metadata().resource_version()
    }

    /// The resourceVersion as a number; None if it is not one. Clients may compare them since
    /// Kubernetes 1.35 ([KEP-5504](https://github.com/kubernetes/enhancements/issues/5504)).
    pub fn revision(&self) -> Option<u64> {
        self.raw.metadata().revision()
    }

    /// metadata.generation; 0 for kinds without one.
    pub fn generation(&self) -> i64 {
        self.raw.generation()
    }

    /// Whether metadata.deletionTimestamp is set.
    pub fn deleting(&self) -> bool {
        self.raw.deleting()
    }

    /// metadata.finalizers.
    pub fn finalizers(&self) -> Vec<String> {
        self.at(".metadata.finalizers")
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }

    /// metadata.labels, in the order of the text.
    pub fn labels(&self) -> Labels<'_> {
        self.raw.metadata().labels()
    }

    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.raw.metadata().label(name)
    }

    /// metadata.ownerReferences.
    pub fn owners(&self) -> &[OwnerReference] {
        self.owners.get_or_init(|| self.raw.owners())
    }

    /// The reference to the managing controller (apimachinery's [`metav1.GetControllerOf`]).
    ///
    /// [`metav1.GetControllerOf`]: https://github.com/kubernetes/apimachinery/blob/v0.36.2/pkg/apis/meta/v1/controller_ref.go#L34
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owners().iter().find(|owner| owner.controller)
    }

    /// The object without the pruned fields; the same object if it has none of them.
    #[must_use]
    pub fn pruned(self: Arc<Self>, prune: &Prune) -> Arc<Self> {
        // The text was valid when first read.
        match RawObject::read(self.json(), None, prune) {
            Ok(raw) if raw.text().len() < self.json().len() => Arc::new(Self::of(raw)),
            _ => self,
        }
    }

    /// The object's JSON text.
    pub fn json(&self) -> &str {
        self.raw.text()
    }

    /// JSON text of the value at a path like `.spec.nodeName`; None if a step is missing. Steps are
    /// object fields.
    pub fn at(&self, path: &str) -> Option<&str> {
        self.along(path.trim_start_matches('.').split('.'))
    }

    /// JSON text of the value at the end of these fields; None if a step is missing.
    pub fn along<'s>(&self, steps: impl IntoIterator<Item = &'s str>) -> Option<&str> {
        steps.into_iter().try_fold(self.json(), field)
    }

    /// The scalar at a path, in the form used by indexes and mappings: strings without quotes,
    /// numbers and booleans as written. None for null, lists and objects.
    pub fn scalar_at(&self, path: &str) -> Option<String> {
        let text = self.at(path)?;
        match text.as_bytes().first()? {
            b'"' => serde_json::from_str(text).ok(),
            b'{' | b'[' | b'n' => None,
            _ => Some(text.to_owned()),
        }
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
    fn list_item_gains_kind_and_loses_only_managed_fields() {
        let object = Object::from_json(TEXT, &pod(), ManagedFields::Drop).expect("parses");
        let before: serde_json::Value = serde_json::from_str(TEXT).expect("json");
        let mut after: serde_json::Value = serde_json::from_str(object.json()).expect("still json");
        assert_eq!(after["apiVersion"], "v1");
        assert_eq!(after["kind"], "Pod");
        let fields = after.as_object_mut().expect("object");
        fields.remove("apiVersion");
        fields.remove("kind");
        let mut expected = before;
        expected["metadata"]
            .as_object_mut()
            .expect("object")
            .remove("managedFields");
        assert_eq!(after, expected);
    }

    #[test]
    fn reads_with_and_without_managed_fields_at_once() {
        let escaped = TEXT.replace(r#""name":"a""#, r#""name":"\u0061""#);
        let bare = r#"{"metadata":{"name":"a"}}"#;
        for text in [TEXT, &escaped, bare] {
            let (whole, pruned) =
                Object::with_and_without_managed_fields(text, &pod()).expect("parses");
            for (read, managed_fields) in [
                (&whole, ManagedFields::Keep),
                (&pruned, ManagedFields::Drop),
            ] {
                let expected = Object::from_json(text, &pod(), managed_fields).expect("parses");
                assert_eq!((read.json(), read.key()), (expected.json(), expected.key()));
                assert_eq!(
                    (read.uid(), read.label("app")),
                    (expected.uid(), expected.label("app"))
                );
                assert_eq!(read.owners(), expected.owners());
            }
            assert_eq!(
                whole.raw().is(pruned.raw()),
                text == bare,
                "one copy, if there is nothing to drop"
            );
        }
        assert!(Object::with_and_without_managed_fields("{}", &pod()).is_err());
    }

    #[test]
    fn reads_metadata_without_the_rest() {
        let header = Object::from_json(TEXT, &pod(), ManagedFields::Keep).expect("parses");
        assert_eq!(*header.key(), ObjectKey::namespaced("n", "a"));
        assert_eq!(
            (header.revision(), header.generation(), header.deleting()),
            (Some(12), 3, false)
        );
        assert_eq!(
            (header.label("app"), header.label("z"), header.label("y")),
            (Some("é"), Some("1"), None)
        );
        assert_eq!(
            header.controller().map(|owner| owner.name.as_str()),
            Some("r")
        );
    }

    #[test]
    fn scalar_at_path_keeps_large_numbers() {
        let object = Object::from_json(TEXT, &pod(), ManagedFields::Keep).expect("parses");
        assert_eq!(object.scalar_at(".spec.nodeName").as_deref(), Some("w1"));
        assert_eq!(
            object.scalar_at(".spec.n").as_deref(),
            Some("9007199254740993")
        );
        assert_eq!(object.scalar_at(".spec.s").as_deref(), Some("a\"b"));
        assert_eq!(object.scalar_at(".spec"), None);
        assert_eq!(object.scalar_at(".status.phase"), None);
    }

    #[test]
    fn rejects_non_object_with_reason() {
        for (text, reason) in [
            ("[]", "expected a JSON object"),
            ("{\"metadata\":{}}", "no metadata.name"),
            ("{}", "no metadata.name"),
            (
                "{\"metadata\":{\"name\":1}}",
                "in metadata.name, expected a string",
            ),
            (r#"{"metadata":null}"#, "no metadata.name"),
            (r#"{"metadata":[]}"#, "in metadata, expected an object"),
            (r#"{"metadata":{"name":""}}"#, "no metadata.name"),
            (
                r#"{"metadata":{"name":null,"uid":"u"}}"#,
                "no metadata.name",
            ),
            (
                r#"{"metadata":{"name":"a","uid":7}}"#,
                "in metadata.uid, expected a string",
            ),
            (
                r#"{"metadata":{"name":"a","generation":1.5}}"#,
                "in metadata.generation, expected a whole number",
            ),
            (
                r#"{"metadata":{"name":"a","labels":{"a":1}}}"#,
                "in metadata.labels, expected an object of strings",
            ),
            (
                r#"{"metadata":{"name":"a","ownerReferences":[{"uid":"u"}]}}"#,
                "in metadata.ownerReferences, missing field",
            ),
            (
                r#"{"metadata":{"name":"a"}"#,
                "expected `,` or `}` at byte 24",
            ),
            (
                r#"{"metadata":{"name":"a"}} {}"#,
                "expected the end of the text at byte 26",
            ),
        ] {
            let error = Object::from_json(text, &pod(), ManagedFields::Drop)
                .expect_err(text)
                .to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn refuses_duplicate_metadata_field_by_name() {
        for (text, field) in [
            (
                r#"{"metadata":{"name":"a"},"metadata":{"name":"b"}}"#,
                "metadata",
            ),
            (r#"{"metadata":null,"metadata":{"name":"b"}}"#, "metadata"),
            (
                r#"{"metadata":{"name":"a","n\u0061me":"b"}}"#,
                "metadata.name",
            ),
            (
                r#"{"metadata":{"name":"a","uid":"1","uid":null}}"#,
                "metadata.uid",
            ),
            (
                r#"{"metadata":{"name":"a","labels":{},"labels":{}}}"#,
                "metadata.labels",
            ),
        ] {
            let error = Object::from_json(text, &pod(), ManagedFields::Drop).expect_err(text);
            assert_eq!(
                error.to_string(),
                format!("not a Kubernetes object: duplicate field {field}")
            );
        }
        let twice = r#"{"metadata":{"name":"a","labels":{"a":"1","a":"2"}},"spec":{"a":1,"a":2}}"#;
        let object = Object::from_json(twice, &pod(), ManagedFields::Drop)
            .expect("what is not the host's is the reader's");
        assert!(object.json().ends_with(r#""spec":{"a":1,"a":2}}"#));
        assert_eq!(object.label("a"), Some("2"), "the last, as in Go");
    }

    #[test]
    fn unescapes_names_and_labels_or_refuses() {
        let text = r#"{"metadata":{"labels":{"\u0061pp":"d\u0062","z":"1"},"managedFields":[],"name":"\u0061-b","uid":"u"},"s":"\u0061"}"#;
        let object = Object::untyped(text, ManagedFields::Drop).expect("parses");
        let plain =
            r#"{"metadata":{"labels":{"app":"db","z":"1"},"name":"a-b","uid":"u"},"s":"\u0061"}"#;
        assert_eq!(object.json(), plain);
        assert_eq!(
            (
                object.key().name.as_str(),
                object.uid(),
                object.label("app")
            ),
            ("a-b", "u", Some("db"))
        );
        for text in [
            r#"{"metadata":{"name":"a\"b"}}"#,
            r#"{"metadata":{"name":"a","labels":{"x":"\n"}}}"#,
        ] {
            let error = Object::untyped(text, ManagedFields::Drop)
                .expect_err(text)
                .to_string();
            assert!(
                error.contains("holds a quote, a backslash or a control character"),
                "{error}"
            );
        }
    }

    #[test]
    fn refuses_deep_nesting_and_keeps_lone_surrogates() {
        let nest = "[".repeat(127) + &"]".repeat(127);
        for text in [
            format!(r#"{{"metadata":{{"name":"a"}},"spec":{nest}}}"#),
            format!(r#"{{"metadata":{{"name":"a","annotations":{nest}}}}}"#),
            format!(r#"{{"metadata":{{"name":"a","managedFields":{nest}}}}}"#),
        ] {
            let error = Object::from_json(&text, &pod(), ManagedFields::Drop)
                .expect_err("refused")
                .to_string();
            assert!(error.contains("nested more than 127 deep"), "{error}");
        }
        let half = r#"{"metadata":{"name":"a"},"spec":{"\ud800":"\ud800"}}"#;
        assert_eq!(
            Object::untyped(half, ManagedFields::Drop)
                .expect("JSON")
                .json(),
            half
        );
    }

    #[test]
    fn reads_object_of_three_mebibytes_whole() {
        let data = "x".repeat(3 << 20);
        let text = format!(
            r#"{{"kind":"Big","apiVersion":"v1","data":"{data}","metadata":{{"name":"a","uid":"u"}}}}"#
        );
        let object = Object::from_json(&text, &pod(), ManagedFields::Drop).expect("parses");
        assert_eq!((object.json(), object.uid()), (text.as_str(), "u"));
    }

    #[test]
    fn rejects_invalid_utf8_with_its_position() {
        let text = b"{\"metadata\":{\"name\":\"\xff\"}}";
        let error = Object::from_slice(text, &pod(), ManagedFields::Drop).expect_err("refused");
        assert_eq!(error, ObjectError::Utf8(21));
    }

    #[test]
    fn adds_missing_api_version_and_kind() {
        for (text, typed) in [
            (
                r#"{"kind":"X","metadata":{"name":"a"}}"#,
                r#"{"apiVersion":"v1","kind":"X","metadata":{"name":"a"}}"#,
            ),
            (
                r#"{"metadata":{"name":"a"}}"#,
                r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#,
            ),
            (
                " {\"metadata\":{\"name\":\"a\"} }\n",
                r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"} }"#,
            ),
        ] {
            let object = Object::from_json(text, &pod(), ManagedFields::Drop).expect("parses");
            assert_eq!(
                (object.json(), object.raw().metadata().name()),
                (typed, "a")
            );
        }
    }

    #[test]
    fn prunes_fields_in_any_position() {
        let prune = |text: &str, paths: &[&str]| {
            let paths: Vec<String> = paths.iter().map(|&path| path.to_owned()).collect();
            let prune = Prune::new(&paths).expect("paths");
            let object = Object::untyped(text, ManagedFields::Keep).expect("an object");
            Arc::new(object).pruned(&prune).json().to_owned()
        };
        let text = r#"{"status":{"a":1},"metadata":{"managedFields":[],"annotations":{"a.b/c":"1","d":"2"},"name":"a"}, "spec":{"x":[1],"y":{"z":2}}}"#;
        for (paths, expected) in [
            (
                &[".status"][..],
                r#"{"metadata":{"annotations":{"a.b/c":"1","d":"2"},"name":"a"}, "spec":{"x":[1],"y":{"z":2}}}"#,
            ),
            (
                &[".metadata.annotations.a.b/c"],
                r#"{"status":{"a":1},"metadata":{"annotations":{"d":"2"},"name":"a"}, "spec":{"x":[1],"y":{"z":2}}}"#,
            ),
            (
                &[".metadata.annotations", ".spec", ".status"],
                r#"{"metadata":{"name":"a"}}"#,
            ),
            (
                &[".spec.x", ".spec.y.z"],
                r#"{"status":{"a":1},"metadata":{"annotations":{"a.b/c":"1","d":"2"},"name":"a"}, "spec":{"y":{}}}"#,
            ),
            (
                &[".spec.x", ".spec.y"],
                r#"{"status":{"a":1},"metadata":{"annotations":{"a.b/c":"1","d":"2"},"name":"a"}, "spec":{}}"#,
            ),
            (
                &[".spec.x.a", ".spec.none"],
                r#"{"status":{"a":1},"metadata":{"annotations":{"a.b/c":"1","d":"2"},"name":"a"}, "spec":{"x":[1],"y":{"z":2}}}"#,
            ),
        ] {
            assert_eq!(prune(text, paths), expected, "{paths:?}");
        }
    }

    #[test]
    fn stripped_object_restores_whole() {
        for text in [
            TEXT,
            r#"{"metadata":{"name":"a"}}"#,
            r#"{"spec":{"a":"b"},"metadata":{"labels":{},"resourceVersion":"5","deletionTimestamp":"2026","name":"é","uid":""}}"#,
        ] {
            let raw = RawObject::read(text, None, &Prune::nothing()).expect("an object");
            let (metadata, rest) = raw.strip();
            let known = Metadata::of_stripped(&metadata);
            let whole = raw.metadata();
            let all = |metadata: &Metadata<'_>| {
                let labels: Vec<_> = metadata
                    .labels()
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect();
                (
                    metadata.name().to_owned(),
                    metadata.namespace().map(str::to_owned),
                    metadata.uid().to_owned(),
                    metadata.revision(),
                    labels,
                )
            };
            assert_eq!(all(&known), all(&whole));
            for metadata in [&known, &whole] {
                let namespace = metadata.namespace();
                let name = metadata.name();
                assert!(
                    metadata.is(namespace, name)
                        && !metadata.is(namespace, "")
                        && !metadata.is(Some("none"), name)
                );
                assert!(
                    !metadata.is(namespace, &format!("{name}a"))
                        && metadata.is(None, name) == namespace.is_none()
                );
            }
            let restored =
                RawObject::restore(&metadata, &rest, &mut String::new()).expect("restored");
            assert_eq!(restored.text(), text);
            assert_eq!(all(&restored.metadata()), all(&whole));
            assert_eq!(
                (restored.generation(), restored.deleting()),
                (raw.generation(), raw.deleting())
            );
            assert_eq!(restored.owners(), raw.owners());
        }
    }
}
