//! The manifest: the JSON document in which a plugin declares its controllers. `describe` of the
//! contract returns it.
//!
//! `wit/manifest.schema.json` is generated from these types. Unknown fields are errors that name
//! the field: a typing mistake never silently changes what is watched.
//!
//! The types are generic over the form of a JSONPath. A plugin writes text; the host reads the same
//! document into parsed and bounded expressions.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{API_VERSION, GroupVersionKind};

/// The `kind` of a manifest.
pub const KIND: &str = "Manifest";

/// The maximum number of controllers of one plugin: each is a queue with workers.
pub const MAX_CONTROLLERS: usize = 100;

/// The maximum number of sources of one plugin, over all of its controllers: each may be a watch at
/// the API server.
pub const MAX_SOURCES: usize = 500;

/// The maximum number of indexes of one plugin.
pub const MAX_INDEXES: usize = 100;

/// The maximum number of fields that one source prunes: each is compared with the fields of each
/// object.
pub const MAX_PRUNED: usize = 64;

/// The maximum number of finalizers of a controller.
pub const MAX_FINALIZERS: usize = 64;

/// The maximum length of a field path, and of the name of an index or a label, in bytes.
pub const MAX_FIELD: usize = 512;

/// The maximum length of a selector, in bytes: each list and watch repeats it.
pub const MAX_SELECTOR: usize = 8 * 1024;

/// A plugin's controllers, and the indexes that its reads need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "Manifest")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest<Path = String> {
    /// Always `operetta.dev/v1alpha1`.
    pub api_version: String,
    /// Always `Manifest`.
    pub kind: String,
    /// At least one, at most 100; their names differ. Together they have at most 500 sources:
    /// `for`, `owns` and `watches`.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 100)))]
    pub controllers: Vec<Controller<Path>>,
    /// Indexes over cached objects, for `list` with `by-index`; at most 100.
    #[cfg_attr(feature = "schema", schemars(length(max = 100)))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<Index>,
}

impl<Path> Manifest<Path> {
    /// Returns a manifest of these controllers, without indexes.
    pub fn new(controllers: Vec<Controller<Path>>) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            controllers,
            indexes: Vec::new(),
        }
    }

    /// Returns the number of sources of all controllers: `for`, `owns` and `watches`.
    pub fn source_count(&self) -> usize {
        self.controllers
            .iter()
            .map(|controller| 1 + controller.owns.len() + controller.watches.len())
            .sum()
    }

    /// Returns the controllers that have a watch with [`Mapping::Custom`].
    pub fn custom_mappings(&self) -> impl Iterator<Item = &Controller<Path>> {
        let is_custom = |watch: &Watch<Path>| watch.map == Mapping::Custom {};
        self.controllers
            .iter()
            .filter(move |controller| controller.watches.iter().any(is_custom))
    }
}

/// One controller: a queue of keys of one kind, and the events that add keys to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "Controller")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Controller<Path = String> {
    /// The controller's name, a DNS label; `reconcile` gets it with every request.
    pub name: String,
    /// The kind whose keys are reconciled: each event of an object enqueues the object's own key.
    #[serde(rename = "for")]
    pub for_: Source<Path>,
    /// Kinds whose objects this controller creates: their events enqueue the controlling owner.
    #[serde(
        default = "Vec::<Source<Path>>::new",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub owns: Vec<Source<Path>>,
    /// Other kinds whose events enqueue keys by a mapping.
    #[serde(
        default = "Vec::<Watch<Path>>::new",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub watches: Vec<Watch<Path>>,
    /// The finalizers that this controller puts on the objects that it reconciles; at most 64.
    /// `operetta generate rbac` grants the writes of them.
    #[cfg_attr(feature = "schema", schemars(length(max = 64)))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// The number of keys reconciled at once (controller-runtime's MaxConcurrentReconciles); 1 if
    /// left out.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 64)))]
    pub workers: u32,
    /// Every key is enqueued again after this many seconds, at least 10; 0, the default, means
    /// never (client-go's resync period).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resync_seconds: u32,
    /// The rate limiter of failed and requeued keys; client-go's default if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limiter: Option<RateLimiter>,
}

impl<Path> Controller<Path> {
    /// Returns a controller of one kind, with one worker and client-go's rate limiter.
    pub fn new(name: impl Into<String>, for_: Source<Path>) -> Self {
        Self {
            name: name.into(),
            for_,
            owns: Vec::new(),
            watches: Vec::new(),
            finalizers: Vec::new(),
            workers: 1,
            resync_seconds: 0,
            rate_limiter: None,
        }
    }
}

/// A kind to watch, and a selection of its objects and events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "Source")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Source<Path = String> {
    /// `group/version`, or the version alone for the core group.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespaces of the objects; all if left out. Cluster-scoped kinds have none.
    #[serde(default, skip_serializing_if = "Namespaces::is_all")]
    pub namespaces: Namespaces,
    /// A label selector in the API server's syntax; the API server applies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
    /// A field selector in the API server's syntax; the API server applies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<String>,
    /// An event must pass all of these.
    #[serde(
        default = "Vec::<Predicate<Path>>::new",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub predicates: Vec<Predicate<Path>>,
    /// Fields that the host's cache leaves out of these objects, to need less memory: paths such as
    /// `.status` or `.metadata.annotations`; at most 64. Reads of single objects, and lists, still
    /// return whole objects.
    #[cfg_attr(feature = "schema", schemars(length(max = 64)))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prune: Vec<String>,
}

impl<Path> Source<Path> {
    /// Returns the source of every object and every event of a kind.
    pub fn new(kind: GroupVersionKind) -> Self {
        Self {
            api_version: kind.api_version,
            kind: kind.kind,
            namespaces: Namespaces::All,
            label_selector: None,
            field_selector: None,
            predicates: Vec::new(),
            prune: Vec::new(),
        }
    }

    /// Returns the source's kind.
    pub fn group_version_kind(&self) -> GroupVersionKind {
        GroupVersionKind::new(&self.api_version, &self.kind)
    }
}

/// A kind to watch, and the keys that its events enqueue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "Watch")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Watch<Path = String> {
    /// The kind, and the selection of its objects and events.
    pub source: Source<Path>,
    /// The keys that an object's events enqueue.
    pub map: Mapping,
}

/// The namespaces that a source covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Namespaces {
    /// Every namespace.
    #[default]
    All,
    /// Only the Plugin's own namespace. A controller with this in `for` gets no key of another
    /// namespace, whatever the objects that it owns or watches elsewhere say.
    Own,
}

impl Namespaces {
    /// Reports whether the source covers every namespace.
    pub fn is_all(&self) -> bool {
        *self == Self::All
    }
}

/// The keys that an event of a watched object enqueues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Mapping {
    /// The owners of the `for` kind; only the controlling one unless `allOwners`.
    Owner {
        /// Every owner of the kind, not only the controlling one.
        #[serde(default)]
        all_owners: bool,
    },
    /// The key with the watched object's own namespace and name.
    SameName {},
    /// The key whose name is the value at a path of the watched object, in that object's namespace
    /// by default.
    FieldPath {
        /// The path of the name, e.g. `.spec.claimRef.name`.
        path: String,
        /// The path of the namespace; the watched object's own namespace if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        namespace_path: Option<String>,
    },
    /// The keys that the plugin names: its component exports `mapper` of the contract.
    Custom {},
}

impl Mapping {
    /// Enqueues the controlling owner, if it is of the `for` kind. `owns` is short for a watch with
    /// this mapping.
    pub fn owner() -> Self {
        Self::Owner { all_owners: false }
    }

    /// Enqueues every owner of the `for` kind.
    pub fn all_owners() -> Self {
        Self::Owner { all_owners: true }
    }

    /// Enqueues the key with the watched object's own namespace and name.
    pub fn same_name() -> Self {
        Self::SameName {}
    }

    /// Enqueues the key whose name is the value at a path of the watched object, e.g.
    /// `.spec.claimRef.name`, in that object's namespace.
    pub fn field_path(path: impl Into<String>) -> Self {
        Self::FieldPath {
            path: path.into(),
            namespace_path: None,
        }
    }

    /// Enqueues the key whose name and namespace are the values at two paths of the watched object.
    pub fn field_paths(name: impl Into<String>, namespace: impl Into<String>) -> Self {
        Self::FieldPath {
            path: name.into(),
            namespace_path: Some(namespace.into()),
        }
    }
}

/// An event filter: a name, as in controller-runtime's `predicate` package, or a condition on the
/// object. A resync passes every filter about changes except `ResourceVersionChanged`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "Predicate")
)]
pub enum Predicate<Path = String> {
    /// Updates that change metadata.generation, as spec changes do. Kinds without it (ConfigMap,
    /// Secret) have no such updates.
    GenerationChanged,
    /// Updates that change metadata.labels.
    LabelsChanged,
    /// Updates that change metadata.annotations.
    AnnotationsChanged,
    /// Updates that change metadata.resourceVersion: not the periodic resync, which passes all
    /// other filters about changes.
    ResourceVersionChanged,
    /// Updates that change what a JSONPath (RFC 9535) selects, e.g. `$.spec.replicas`. Creations
    /// and deletions pass.
    #[serde(rename = "changed")]
    Changed(Path),
    /// Events of objects in which a JSONPath (RFC 9535) selects something, e.g.
    /// `$.status.conditions[?@.type=='Ready' && @.status=='True']`. It reads the new state of an
    /// update, and the last state of a deletion.
    #[serde(rename = "matches")]
    Matches(Path),
    /// Events that pass one of these.
    #[serde(rename = "any")]
    Any(#[cfg_attr(feature = "schema", schemars(length(min = 1)))] Vec<Predicate<Path>>),
    /// Events that do not pass this. Predicates about change ignore creations and deletions: these
    /// pass.
    #[serde(rename = "not")]
    Not(Box<Predicate<Path>>),
}

impl Predicate {
    /// Passes updates that change what a JSONPath selects, e.g. `$.spec.replicas`; creations and
    /// deletions pass.
    pub fn changed(path: impl Into<String>) -> Self {
        Self::Changed(path.into())
    }

    /// Passes events of objects in which a JSONPath selects something, e.g.
    /// `$.status.conditions[?@.type=='Ready']`. It reads the new state of an update, and the last
    /// state of a deletion.
    pub fn matches(path: impl Into<String>) -> Self {
        Self::Matches(path.into())
    }

    /// Passes events that pass one of these.
    pub fn any(predicates: impl IntoIterator<Item = Self>) -> Self {
        Self::Any(predicates.into_iter().collect())
    }

    /// Passes events that do not pass this. Predicates about change ignore creations and deletions:
    /// these pass.
    #[allow(
        clippy::should_implement_trait,
        reason = "the manifest's word; `!` would hide that a value is built"
    )]
    pub fn not(predicate: Self) -> Self {
        Self::Not(Box::new(predicate))
    }
}

/// max(per-key exponential backoff, overall token bucket), as client-go's
/// DefaultControllerRateLimiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RateLimiter {
    /// The first delay of a key, doubled with each failure; 5 if left out.
    pub base_delay_ms: u32,
    /// The longest delay of a key; 1,000,000 (1,000 s) if left out.
    pub max_delay_ms: u32,
    /// Requeues per second of all keys together; 10 if left out.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub qps: u32,
    /// The maximum burst of requeues; 100 if left out.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub burst: u32,
}

impl Default for RateLimiter {
    fn default() -> Self {
        Self {
            base_delay_ms: 5,
            max_delay_ms: 1_000_000,
            qps: 10,
            burst: 100,
        }
    }
}

impl RateLimiter {
    /// Sets the first delay of a key, doubled with each failure, and the longest: 5 ms and 1,000 s
    /// by default.
    #[must_use]
    pub fn backoff(self, base: Duration, max: Duration) -> Self {
        Self {
            base_delay_ms: milliseconds(base),
            max_delay_ms: milliseconds(max),
            ..self
        }
    }

    /// Sets the requeues per second of all keys together, and the maximum burst: 10 and 100 by
    /// default.
    #[must_use]
    pub fn bucket(self, qps: u32, burst: u32) -> Self {
        Self { qps, burst, ..self }
    }
}

fn milliseconds(duration: Duration) -> u32 {
    duration.as_millis().try_into().unwrap_or(u32::MAX)
}

/// An index over the cached objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Index {
    /// The name by which `list` selects the index.
    pub name: String,
    /// The kind's apiVersion.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The path of the indexed value, e.g. `.spec.nodeName`: a string, number or boolean. One of
    /// this, `label` and `controller`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The name of the label whose value is indexed. Cached lists whose label selector asks for one
    /// value of it use the index as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The kind of controlling owners whose name is the indexed value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<OwnerKind>,
}

/// A kind of owners.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OwnerKind {
    /// The kind's apiVersion; owners of other versions of its group count as well.
    pub api_version: String,
    /// The kind.
    pub kind: String,
}

fn one() -> u32 {
    1
}

fn is_one(value: &u32) -> bool {
    *value == 1
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: &str = r#"{"apiVersion":"operetta.dev/v1alpha1","kind":"Manifest","controllers":[{"name":"c","for":{"apiVersion":"v1","kind":"Pod"}}]}"#;

    #[test]
    fn minimal_manifest_round_trips() {
        let manifest: Manifest = Manifest::new(vec![Controller::new(
            "c",
            Source::new(GroupVersionKind::new("v1", "Pod")),
        )]);

        assert_eq!(
            serde_json::from_str::<Manifest>(MINIMAL).expect("reads"),
            manifest
        );
        assert_eq!(serde_json::to_string(&manifest).expect("writes"), MINIMAL);
    }

    #[test]
    fn nested_predicates_round_trip() {
        let text = r#"["LabelsChanged",{"not":{"any":[{"changed":"$.spec"},{"matches":"$.a"}]}}]"#;
        let predicates: Vec<Predicate> = serde_json::from_str(text).expect("reads");
        assert_eq!(serde_json::to_string(&predicates).expect("writes"), text);
    }

    #[test]
    fn rejects_unknown_field_by_name() {
        let text = MINIMAL.replace("\"for\"", "\"of\"");
        let error = serde_json::from_str::<Manifest>(&text).expect_err("unknown field");
        assert!(
            error.to_string().starts_with("unknown field `of`"),
            "{error}"
        );
    }
}
