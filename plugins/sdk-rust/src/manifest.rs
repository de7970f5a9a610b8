//! What a plugin watches, as its author says it; serialised, these types are the manifest of wit/manifest.schema.json.

use std::borrow::Cow;
use std::time::Duration;

use serde::Serialize;

use crate::{GroupVersionKind, Kind};

/// Borrowed from the program in nearly every manifest.
pub(crate) type Text = Cow<'static, str>;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) controllers: Vec<ControllerManifest<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) indexes: &'a [Index],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ControllerManifest<'a> {
    pub(crate) name: &'a str,
    #[serde(rename = "for")]
    pub(crate) for_: Source,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) owns: Vec<Source>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) watches: Vec<Watch>,
    pub(crate) workers: u32,
    pub(crate) resync_seconds: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rate_limiter: Option<RateLimiter>,
}

/// A kind to watch, and which of its objects and events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[must_use]
pub struct Source {
    api_version: Text,
    kind: Text,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespaces: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label_selector: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    field_selector: Option<Text>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    predicates: Vec<Predicate>,
}

impl Source {
    /// Every object and every event of a type's kind.
    pub fn of<T: Kind>() -> Self {
        Self::kind(GroupVersionKind::of::<T>())
    }

    /// Every object and every event of a kind that has no Rust type.
    pub fn kind(kind: GroupVersionKind) -> Self {
        Self {
            api_version: kind.api_version,
            kind: kind.kind,
            namespaces: None,
            label_selector: None,
            field_selector: None,
            predicates: Vec::new(),
        }
    }

    pub(crate) fn group_version_kind(&self) -> GroupVersionKind {
        GroupVersionKind { api_version: self.api_version.clone(), kind: self.kind.clone() }
    }

    /// Only objects that a label selector chooses; the API server applies it.
    pub fn labels(self, selector: impl Into<Text>) -> Self {
        Self { label_selector: Some(selector.into()), ..self }
    }

    /// Only objects that a field selector chooses; the API server applies it.
    pub fn fields(self, selector: impl Into<Text>) -> Self {
        Self { field_selector: Some(selector.into()), ..self }
    }

    /// Only events that pass; with several, those that pass all.
    pub fn predicate(mut self, predicate: Predicate) -> Self {
        if !self.predicates.contains(&predicate) {
            self.predicates.push(predicate);
        }
        self
    }

    /// Only objects of the Plugin's own namespace.
    pub fn own_namespace(self) -> Self {
        Self { namespaces: Some("Own"), ..self }
    }
}

/// A kind to watch, and which keys its events enqueue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Watch {
    pub(crate) source: Source,
    pub(crate) map: Mapping,
}

/// Which keys the event of a watched object enqueues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mapping(MappingManifest);

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
enum MappingManifest {
    Owner {
        all_owners: bool,
    },
    SameName {},
    FieldPath {
        path: Text,
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace_path: Option<Text>,
    },
    Custom {},
}

impl Mapping {
    /// The controlling owner, if it is of the `for` kind. `owns` is this in short.
    pub fn owner() -> Self {
        Self(MappingManifest::Owner { all_owners: false })
    }

    /// By a function of the plugin: see `Controller::watches_mapped`.
    pub(crate) fn custom() -> Self {
        Self(MappingManifest::Custom {})
    }

    /// Every owner of the `for` kind.
    pub fn all_owners() -> Self {
        Self(MappingManifest::Owner { all_owners: true })
    }

    /// The key with the watched object's own namespace and name.
    pub fn same_name() -> Self {
        Self(MappingManifest::SameName {})
    }

    /// The key in the watched object's namespace whose name stands at a path of it, e.g. `.spec.claimRef.name`.
    pub fn field_path(path: impl Into<Text>) -> Self {
        Self(MappingManifest::FieldPath { path: path.into(), namespace_path: None })
    }

    /// The key whose name and namespace stand at two paths of the watched object.
    pub fn field_paths(name: impl Into<Text>, namespace: impl Into<Text>) -> Self {
        Self(MappingManifest::FieldPath { path: name.into(), namespace_path: Some(namespace.into()) })
    }
}

/// An event filter: a name, as in controller-runtime's `predicate` package, or a condition on the object by JSONPath
/// (RFC 9535, without functions). What is about change concerns updates: creations and deletions pass.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub enum Predicate {
    /// Updates that change metadata.generation, as spec changes do. Kinds without it (ConfigMap, Secret) have no such
    /// updates.
    GenerationChanged,
    /// Updates that change metadata.labels.
    LabelsChanged,
    /// Updates that change metadata.annotations.
    AnnotationsChanged,
    /// Updates that change metadata.resourceVersion: not the periodic resync.
    ResourceVersionChanged,
    /// See [`Predicate::changed`].
    #[serde(rename = "changed")]
    Changed(Text),
    /// See [`Predicate::matches`].
    #[serde(rename = "matches")]
    Matches(Text),
    /// See [`Predicate::any`].
    #[serde(rename = "any")]
    Any(Vec<Predicate>),
    /// See [`Predicate::not`].
    #[serde(rename = "not")]
    Not(Box<Predicate>),
}

impl Predicate {
    /// Updates that change what a JSONPath selects, e.g. `$.spec.replicas`.
    pub fn changed(path: impl Into<Text>) -> Self {
        Self::Changed(path.into())
    }

    /// Events of objects of which a JSONPath selects something, e.g. `$.status.conditions[?@.type=='Ready']`. Of an
    /// update it is the new object, of a deletion the last state.
    pub fn matches(path: impl Into<Text>) -> Self {
        Self::Matches(path.into())
    }

    /// Events that pass one of these.
    pub fn any(predicates: impl IntoIterator<Item = Self>) -> Self {
        Self::Any(predicates.into_iter().collect())
    }

    /// Events that do not pass this.
    #[allow(clippy::should_implement_trait, reason = "the manifest's word for it; `!` would hide what is built")]
    pub fn not(predicate: Self) -> Self {
        Self::Not(Box::new(predicate))
    }
}

/// How fast failed and requeued keys come back: max(per-key exponential backoff, a token bucket over all keys). The
/// default is client-go's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[must_use]
pub struct RateLimiter {
    base_delay_ms: u32,
    max_delay_ms: u32,
    qps: u32,
    burst: u32,
}

impl Default for RateLimiter {
    fn default() -> Self {
        Self { base_delay_ms: 5, max_delay_ms: 1_000_000, qps: 10, burst: 100 }
    }
}

impl RateLimiter {
    /// The first delay of a key, doubled with each failure up to the longest: 5 ms and 1,000 s if not said.
    pub fn backoff(self, base: Duration, max: Duration) -> Self {
        Self { base_delay_ms: milliseconds(base), max_delay_ms: milliseconds(max), ..self }
    }

    /// Requeues per second of all keys together, and how many may come at once: 10 and 100 if not said.
    pub fn bucket(self, qps: u32, burst: u32) -> Self {
        Self { qps, burst, ..self }
    }
}

fn milliseconds(duration: Duration) -> u32 {
    duration.as_millis().try_into().unwrap_or(u32::MAX)
}

/// An index over the cached objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Index {
    pub(crate) name: Text,
    pub(crate) api_version: Text,
    pub(crate) kind: Text,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) controller: Option<OwnerKind>,
}

/// The kind of the owners that an index is by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OwnerKind {
    pub(crate) api_version: Text,
    pub(crate) kind: Text,
}
