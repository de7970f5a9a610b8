//! What a plugin declares: the JSON document that `describe` returns.
//!
//! The types here are the one source: `wit/manifest.schema.json` is generated from them and a test holds it against
//! them. Unknown fields are errors that name the field, so that a typing mistake never silently changes what is watched.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::predicate::Predicate;
use crate::{
    object::{
        Object,
        kind::GroupVersionKind,
        prune::{Prune, PruneError},
    },
    predicate,
};

/// The manifest's `apiVersion`.
pub const API_VERSION: &str = "operetta.dev/v1alpha1";

/// Controllers of one plugin: each is a queue with workers.
pub const MAX_CONTROLLERS: usize = 100;

/// Kinds that the controllers of one plugin are for, own or watch, all together: each may be a watch at the API server.
pub const MAX_SOURCES: usize = 500;

/// Indexes of one plugin.
pub const MAX_INDEXES: usize = 100;

/// Bytes of a message's quotation of what the plugin wrote.
const MAX_QUOTED: usize = 256;

/// What a plugin declares: its controllers, and the indexes its reads need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// Always `operetta.dev/v1alpha1`.
    pub api_version: String,
    /// Always `Manifest`.
    pub kind: String,
    /// At least one, at most 100; their names differ. Together they have at most 500 kinds that they are for, own or
    /// watch.
    #[schemars(length(min = 1, max = 100))]
    pub controllers: Vec<Controller>,
    /// Indexes over cached objects, for `list` with `by-index`; at most 100.
    #[schemars(length(max = 100))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<Index>,
}

/// One controller: a queue of keys of one kind, and what puts keys into it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Controller {
    /// A DNS label; `reconcile` gets it with every request.
    pub name: String,
    /// The kind whose keys are reconciled: each of its events enqueues the object's own key.
    #[serde(rename = "for")]
    pub for_: Source,
    /// Kinds whose objects this controller makes: their events enqueue the controlling owner.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owns: Vec<Source>,
    /// Other kinds whose events enqueue keys by a mapping.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watches: Vec<Watch>,
    /// How many keys are reconciled at once (controller-runtime's MaxConcurrentReconciles); 1 if left out.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1, max = 64))]
    pub workers: u32,
    /// Enqueue every key again after this many seconds; 0, the default, never does (client-go's resync period).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resync_seconds: u32,
    /// The rate limiter of failed and requeued keys; client-go's default if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limiter: Option<RateLimiter>,
}

/// A kind to watch, and which of its objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Source {
    /// `group/version`, or the version alone for the core group.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// Objects of which namespaces; all if left out. Cluster-scoped kinds have none.
    #[serde(default, skip_serializing_if = "Namespaces::is_all")]
    pub namespaces: Namespaces,
    /// A label selector in the API server's syntax; the API server applies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
    /// A field selector in the API server's syntax; the API server applies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<String>,
    /// An event must pass all of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub predicates: Vec<Predicate>,
    /// Fields that the host's cache leaves out of these objects, to need less memory: paths such as `.status` or
    /// `.metadata.annotations`. Reads of one object, and lists, are answered with the whole objects all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prune: Vec<String>,
}

/// A kind to watch, and which keys its events enqueue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Watch {
    /// The kind and which of its objects.
    pub source: Source,
    /// Which keys an object's events enqueue.
    pub map: Mapping,
}

/// Which namespaces a source covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Namespaces {
    /// Every namespace.
    #[default]
    All,
    /// Only the Plugin's own namespace. A controller whose `for` says so is given no key of another one, whatever the
    /// objects that it owns or watches elsewhere say.
    Own,
}

impl Namespaces {
    fn is_all(&self) -> bool {
        *self == Self::All
    }
}

/// Which keys the event of a watched object enqueues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// The key in the watched object's namespace whose name stands at a path of it.
    FieldPath {
        /// Where the name stands, e.g. `.spec.claimRef.name`.
        path: String,
        /// Where its namespace stands; the watched object's own namespace if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        namespace_path: Option<String>,
    },
    /// The keys that the plugin names: its component exports `mapper` of the contract.
    Custom {},
}

/// max(per-key exponential backoff, overall token bucket), as client-go's DefaultControllerRateLimiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RateLimiter {
    /// The first delay of a key, doubled with each failure; 5 if left out.
    #[serde(default = "base_delay")]
    pub base_delay_ms: u32,
    /// The longest delay of a key; 1,000,000 (1,000 s) if left out.
    #[serde(default = "max_delay")]
    pub max_delay_ms: u32,
    /// Requeues per second of all keys together; 10 if left out.
    #[serde(default = "qps")]
    #[schemars(range(min = 1))]
    pub qps: u32,
    /// Requeues that may come at once; 100 if left out.
    #[serde(default = "burst")]
    #[schemars(range(min = 1))]
    pub burst: u32,
}

impl Default for RateLimiter {
    fn default() -> Self {
        Self { base_delay_ms: base_delay(), max_delay_ms: max_delay(), qps: qps(), burst: burst() }
    }
}

/// An index over the cached objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Index {
    /// The name `list` calls it by.
    pub name: String,
    /// The kind's apiVersion.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// Where the indexed value stands, e.g. `.spec.nodeName`: a string, number or boolean. One of this, `label` and
    /// `controller`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The indexed value is that of the label of this name. Cached lists whose label selector asks for one value of it use
    /// the index, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The indexed value is the name of the controlling owner, if that is of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<OwnerKind>,
}

/// A kind of owners.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OwnerKind {
    /// The kind's apiVersion; owners of another version of its group count, too.
    pub api_version: String,
    /// The kind.
    pub kind: String,
}

/// What an index takes from an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum IndexKey {
    /// The scalar at a path.
    Path(String),
    /// The value of a label.
    Label(String),
    /// The name of the controlling owner, if that is of this kind.
    Controller(GroupVersionKind),
}

impl IndexKey {
    /// The value under which an object is found; None leaves it out of the index.
    pub fn value(&self, object: &Object) -> Option<String> {
        match self {
            Self::Path(path) => object.scalar_at(path),
            Self::Label(name) => object.label(name).map(Into::into),
            Self::Controller(kind) => {
                let owner = object.controller()?;
                let owners = GroupVersionKind::new(&owner.api_version, &owner.kind);
                (owners.kind == kind.kind && owners.group() == kind.group()).then(|| owner.name.clone())
            }
        }
    }
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
fn base_delay() -> u32 {
    5
}
fn max_delay() -> u32 {
    1_000_000
}
fn qps() -> u32 {
    10
}
fn burst() -> u32 {
    100
}

/// Why a text is not a manifest. The author of the plugin has to change it; retrying cannot help.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// Not JSON, an unknown or missing field, or one of the wrong type.
    #[error("the manifest that describe() returned is wrong at {path}: {message}")]
    Field {
        /// Where, e.g. `controllers[0].owns`; `.` is the document itself.
        path: String,
        /// What is wrong.
        message: String,
    },
}

impl Manifest {
    /// The controllers that have a watch which the plugin maps itself.
    pub fn custom_mappings(&self) -> impl Iterator<Item = &Controller> {
        let custom = |controller: &&Controller| controller.watches.iter().any(|watch| watch.map == Mapping::Custom {});
        self.controllers.iter().filter(custom)
    }

    /// Reads and checks a manifest.
    ///
    /// # Errors
    /// [`ManifestError::Field`] for the first thing that is wrong.
    pub fn parse(text: &str) -> Result<Self, ManifestError> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let manifest: Self = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
            // A field's name may be the empty text.
            let path = Some(error.path().to_string()).filter(|path| !path.is_empty()).unwrap_or_else(|| ".".to_owned());
            wrong(path, format!("{}{}", error.inner(), whose(text, error.path())))
        })?;
        deserializer.end().map_err(|error| wrong(".", error.to_string()))?;
        manifest.check()?;
        Ok(manifest)
    }

    fn check(&self) -> Result<(), ManifestError> {
        if self.api_version != API_VERSION {
            let message = format!("{:?} is not known; this host knows {API_VERSION:?}", self.api_version);
            return Err(wrong("apiVersion", message));
        }
        if self.kind != "Manifest" {
            return Err(wrong("kind", format!("{:?} is not \"Manifest\"", self.kind)));
        }
        if self.controllers.is_empty() {
            return Err(wrong("controllers", "at least one controller is needed"));
        }
        let sources = |controller: &Controller| 1 + controller.owns.len() + controller.watches.len();
        for (path, what, count, most) in [
            ("controllers", "controllers", self.controllers.len(), MAX_CONTROLLERS),
            ("controllers", "kinds (for, owns and watches)", self.controllers.iter().map(sources).sum(), MAX_SOURCES),
            ("indexes", "indexes", self.indexes.len(), MAX_INDEXES),
        ] {
            if count > most {
                return Err(wrong(path, format!("{count} {what} are more than {most}")));
            }
        }
        let mut names = HashSet::new();
        for (at, controller) in self.controllers.iter().enumerate() {
            let path = format!("controllers[{at}]");
            if !is_dns_label(&controller.name) {
                let message = format!(
                    "{:?} is not a DNS label (lower case letters, digits and '-', at most 63)",
                    controller.name
                );
                return Err(wrong(format!("{path}.name"), message));
            }
            if !names.insert(&controller.name) {
                return Err(wrong(format!("{path}.name"), format!("{:?} is used twice", controller.name)));
            }
            controller.check(&path)?;
        }
        let mut names = HashSet::new();
        for (at, index) in self.indexes.iter().enumerate() {
            let path = format!("indexes[{at}]");
            check_kind(&path, &index.api_version, &index.kind)?;
            index.check(&path)?;
            if !names.insert((&index.name, &index.api_version, &index.kind)) {
                return Err(wrong(
                    format!("{path}.name"),
                    format!("{:?} is used twice for {}", index.name, index.kind),
                ));
            }
        }
        Ok(())
    }
}

impl Controller {
    fn check(&self, path: &str) -> Result<(), ManifestError> {
        if !(1..=64).contains(&self.workers) {
            return Err(wrong(format!("{path}.workers"), format!("{} is not within 1 to 64", self.workers)));
        }
        self.for_.check(&format!("{path}.for"), &self.name, [])?;
        for (at, source) in self.owns.iter().enumerate() {
            source.check(&format!("{path}.owns[{at}]"), &self.name, [])?;
        }
        for (at, watch) in self.watches.iter().enumerate() {
            watch.source.check(&format!("{path}.watches[{at}].source"), &self.name, watch.map.paths())?;
            if let Mapping::FieldPath { path: field, namespace_path } = &watch.map {
                check_path(&format!("{path}.watches[{at}].map.path"), field)?;
                if let Some(field) = namespace_path {
                    check_path(&format!("{path}.watches[{at}].map.namespacePath"), field)?;
                }
            }
        }
        if let Some(limiter) = &self.rate_limiter {
            if limiter.qps == 0 || limiter.burst == 0 {
                return Err(wrong(format!("{path}.rateLimiter"), "qps and burst must be at least 1"));
            }
            if limiter.base_delay_ms > limiter.max_delay_ms {
                return Err(wrong(format!("{path}.rateLimiter"), "baseDelayMs is more than maxDelayMs"));
            }
        }
        Ok(())
    }
}

impl Source {
    /// The kind.
    pub fn group_version_kind(&self) -> GroupVersionKind {
        GroupVersionKind::new(&self.api_version, &self.kind)
    }

    /// `needed` are fields that its mapping goes by.
    fn check<'a>(
        &self,
        path: &str,
        controller: &str,
        needed: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), ManifestError> {
        check_kind(path, &self.api_version, &self.kind)?;
        predicate::check(&self.predicates).map_err(|message| {
            wrong(format!("{path}.predicates"), format!("{message}{}", of_controller(controller, &self.kind)))
        })?;
        let prune = |error: PruneError| wrong(format!("{path}.prune"), error.to_string());
        let pruned = Prune::new(&self.prune).map_err(prune)?;
        if self.prune.is_empty() {
            return Ok(());
        }
        let fields = needed.into_iter().map(str::to_owned).chain(predicate::fields(&self.predicates));
        match fields.into_iter().find(|field| field == "." || pruned.touches(field)) {
            Some(field) => Err(wrong(
                format!("{path}.prune"),
                format!("{field:?} is needed by this source's predicates or mapping"),
            )),
            None => Ok(()),
        }
    }
}

impl Mapping {
    /// The fields that it goes by, as far as they are known.
    fn paths(&self) -> impl Iterator<Item = &str> {
        let paths = match self {
            Self::FieldPath { path, namespace_path } => [Some(path), namespace_path.as_ref()],
            Self::Owner { .. } | Self::SameName {} | Self::Custom {} => [None, None],
        };
        paths.into_iter().flatten().map(String::as_str)
    }
}

impl Index {
    fn check(&self, path: &str) -> Result<(), ManifestError> {
        match (&self.path, &self.label, &self.controller) {
            (Some(field), None, None) => check_path(&format!("{path}.path"), field),
            (None, Some(label), None) => check_label(&format!("{path}.label"), label),
            (None, None, Some(owner)) => check_kind(&format!("{path}.controller"), &owner.api_version, &owner.kind),
            _ => Err(wrong(path, "an index needs one of path, label and controller")),
        }
    }

    /// What it takes from an object; None when it is not a checked one.
    pub fn key(&self) -> Option<IndexKey> {
        let owner = |owner: &OwnerKind| IndexKey::Controller(GroupVersionKind::new(&owner.api_version, &owner.kind));
        let label = || self.label.clone().map(IndexKey::Label);
        self.path.clone().map(IndexKey::Path).or_else(label).or_else(|| self.controller.as_ref().map(owner))
    }
}

fn wrong(path: impl Into<String>, message: impl Into<String>) -> ManifestError {
    ManifestError::Field { path: cut(path.into()), message: cut(message.into()) }
}

/// What a plugin wrote may be as long as the manifest.
fn cut(mut text: String) -> String {
    if text.len() > 2 * MAX_QUOTED {
        let end = text.split_off(text.ceil_char_boundary(text.len() - MAX_QUOTED));
        text.truncate(text.floor_char_boundary(MAX_QUOTED));
        text = format!("{text}…{end}");
    }
    text
}

/// Of which controller, and of which of its kinds, a mistake within a source is: their places are numbers.
fn whose(text: &str, path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;

    let manifest: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let mut value = &manifest;
    let (mut controller, mut kind) = (None, None);
    for segment in path.iter() {
        value = match segment {
            Segment::Seq { index } => &value[*index],
            Segment::Map { key } => &value[key],
            Segment::Enum { .. } | Segment::Unknown => break,
        };
        // The controller has a name, and its sources have a kind.
        controller = controller.or(value["name"].as_str());
        kind = value["kind"].as_str().or(kind);
    }
    controller.zip(kind).map(|(controller, kind)| of_controller(controller, kind)).unwrap_or_default()
}

fn of_controller(controller: &str, kind: &str) -> String {
    format!(" (controller {controller:?}, of {kind})")
}

fn check_kind(path: &str, api_version: &str, kind: &str) -> Result<(), ManifestError> {
    if api_version.is_empty() || api_version.split('/').count() > 2 || api_version.split('/').any(str::is_empty) {
        let message = format!("{api_version:?} is not `version` or `group/version`");
        return Err(wrong(format!("{path}.apiVersion"), message));
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if group.len() > 253
        || !is_dns_label(version)
        || !group.split('.').all(|label| group.is_empty() || is_dns_label(label))
    {
        let message = format!("{api_version:?} has a group or a version that is no DNS name");
        return Err(wrong(format!("{path}.apiVersion"), message));
    }
    if kind.is_empty() {
        return Err(wrong(format!("{path}.kind"), "it is empty"));
    }
    if kind.len() > 63 || !kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        let message = format!("{kind:?} is not a kind's name (letters and digits, at most 63)");
        return Err(wrong(format!("{path}.kind"), message));
    }
    Ok(())
}

fn check_path(path: &str, field: &str) -> Result<(), ManifestError> {
    let steps = field.strip_prefix('.').unwrap_or_default();
    if steps.is_empty() || steps.split('.').any(str::is_empty) {
        return Err(wrong(path, format!("{field:?} is not a field path like \".spec.name\"")));
    }
    Ok(())
}

/// As apimachinery's IsQualifiedName: `[prefix/]name`.
fn check_label(path: &str, label: &str) -> Result<(), ManifestError> {
    let name = label.split_once('/').map_or(label, |(_, name)| name);
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty()
        || name.len() > 63
        || !label.bytes().all(|byte| valid(byte) || byte == b'/')
        || name.contains('/')
    {
        return Err(wrong(path, format!("{label:?} is not a label's name like \"app.kubernetes.io/name\"")));
    }
    Ok(())
}

fn is_dns_label(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=63).contains(&name.len())
        && name.bytes().all(|byte| inner(byte) || byte == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::ManagedFields;

    const MINIMAL: &str = r#"{"apiVersion":"operetta.dev/v1alpha1","kind":"Manifest","controllers":[{"name":"c","for":{"apiVersion":"v1","kind":"Pod"}}]}"#;

    #[test]
    fn a_minimal_manifest_gets_client_go_s_defaults() {
        let manifest = Manifest::parse(MINIMAL).expect("parses");
        let controller = &manifest.controllers[0];
        assert_eq!((controller.workers, controller.resync_seconds), (1, 0));
        assert_eq!(controller.for_.namespaces, Namespaces::All);
        let limiter = RateLimiter::default();
        assert_eq!((limiter.base_delay_ms, limiter.max_delay_ms, limiter.qps, limiter.burst), (5, 1_000_000, 10, 100));
    }

    #[test]
    fn each_mistake_is_named_with_its_place() {
        let with = |from: &str, to: &str| MINIMAL.replace(from, to);
        let predicate = |text: &str| with("\"Pod\"", &format!("\"Pod\",\"predicates\":[{text}]"));
        for (text, path, part) in [
            ("hello".to_owned(), ".", "expected value"),
            (String::new(), ".", "EOF"),
            (format!("{MINIMAL} x"), ".", "trailing characters"),
            (with("\"for\"", "\"of\""), "controllers[0].of", "unknown field `of`"),
            (with("\"kind\":\"Manifest\"", "\"\":1"), ".", "unknown field ``"),
            (
                with("\"kind\":\"Pod\"", "\"kind\":\"Pod\",\"selector\":\"a\""),
                "controllers[0].for.selector",
                "unknown field",
            ),
            (with("\"name\":\"c\",", ""), "controllers[0]", "missing field `name`"),
            (with("operetta.dev/v1alpha1", "operetta.dev/v9"), "apiVersion", "this host knows"),
            (with("\"Manifest\"", "\"Pod\""), "kind", "is not \"Manifest\""),
            (with("\"c\"", "\"C\""), "controllers[0].name", "DNS label"),
            (with("\"name\":\"c\"", "\"name\":\"c\",\"workers\":0"), "controllers[0].workers", "1 to 64"),
            (with("\"v1\"", "\"a/b/c\""), "controllers[0].for.apiVersion", "group/version"),
            (predicate(r#""Maybe""#), "controllers[0].for.predicates[0]", "unknown variant `Maybe`, expected one of"),
            (predicate(r#"{"changed":7}"#), "controllers[0].for.predicates[0].changed", "expected a JSONPath"),
            (
                predicate(r#"{"matches":"$.spec["}"#),
                "controllers[0].for.predicates[0].matches",
                "no JSONPath (RFC 9535)",
            ),
            (
                predicate(r#"{"not":{"any":["LabelsChanged",{"matches":"spec"}]}}"#),
                "controllers[0].for.predicates[0].not.any[1].matches",
                "(controller \"c\", of Pod)",
            ),
            (predicate(r#"{"any":[]}"#), "controllers[0].for.predicates", "(controller \"c\", of Pod)"),
            (
                with("}]}", r#"}],"indexes":[{"name":"i","apiVersion":"v1","kind":"Pod"}]}"#),
                "indexes[0]",
                "one of path",
            ),
            (
                with(
                    "}]}",
                    r#"}],"indexes":[{"name":"i","apiVersion":"v1","kind":"Pod","path":".spec.a","label":"a"}]}"#,
                ),
                "indexes[0]",
                "one of path",
            ),
            (
                with("}]}", r#"}],"indexes":[{"name":"i","apiVersion":"v1","kind":"Pod","label":"a b"}]}"#),
                "indexes[0].label",
                "not a label's name",
            ),
            (
                with("\"kind\":\"Pod\"", r#""kind":"Pod","prune":[".status",".metadata.labels.a"]"#),
                "controllers[0].for.prune",
                "the host needs .metadata.labels",
            ),
            (
                with(
                    "\"kind\":\"Pod\"",
                    r#""kind":"Pod","prune":[".metadata.annotations"],"predicates":["AnnotationsChanged"]"#,
                ),
                "controllers[0].for.prune",
                "needed by this source's predicates",
            ),
            (
                with("}]}", r#"}],"indexes":[{"name":"i","apiVersion":"v1","kind":"Pod","path":"spec"}]}"#),
                "indexes[0].path",
                "not a field path",
            ),
        ] {
            let ManifestError::Field { path: at, message } = Manifest::parse(&text).expect_err(&text);
            assert_eq!(at, path, "{text}: {message}");
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn an_index_by_controller_takes_owners_of_its_kind_in_any_version() {
        let by = IndexKey::Controller(GroupVersionKind::new("example.com/v1", "Foo"));
        let owned = |owner: &str, controller: bool| {
            let text = format!(
                r#"{{"metadata":{{"name":"p","ownerReferences":[{{{owner},"name":"foo","uid":"u","controller":{controller}}}]}}}}"#
            );
            Object::from_json(&text, &GroupVersionKind::new("v1", "Pod"), ManagedFields::Drop).expect("object")
        };
        let of = |api_version: &str, kind: &str| format!(r#""apiVersion":"{api_version}","kind":"{kind}""#);
        assert_eq!(by.value(&owned(&of("example.com/v1", "Foo"), true)).as_deref(), Some("foo"));
        assert_eq!(by.value(&owned(&of("example.com/v2", "Foo"), true)).as_deref(), Some("foo"));
        assert_eq!(by.value(&owned(&of("example.com/v1", "Foo"), false)), None, "not the controller");
        assert_eq!(by.value(&owned(&of("example.com/v1", "Bar"), true)), None);
        assert_eq!(by.value(&owned(&of("example.org/v1", "Foo"), true)), None);
    }

    #[test]
    fn the_schema_in_the_repository_is_the_one_of_these_types() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit/manifest.schema.json");
        let schema = serde_json::to_string_pretty(&schemars::schema_for!(Manifest)).expect("schema") + "\n";
        if std::env::var_os("UPDATE_GENERATED").is_some() {
            std::fs::write(path, &schema).expect("write");
        }
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(kept == schema, "wit/manifest.schema.json is out of date: run `make generate`");
    }

    #[test]
    fn the_schema_and_the_types_agree_on_what_is_a_manifest() {
        let schema = serde_json::to_value(schemars::schema_for!(Manifest)).expect("schema");
        let validator = jsonschema::validator_for(&schema).expect("a valid schema");
        let predicates = |text: &str| MINIMAL.replace("\"Pod\"", &format!("\"Pod\",\"predicates\":[{text}]"));
        for text in [
            MINIMAL.to_owned(),
            MINIMAL.replace("\"for\"", "\"of\""),
            MINIMAL.replace("\"name\":\"c\",", ""),
            predicates(
                r#""GenerationChanged",{"changed":"$.spec"},{"any":["LabelsChanged",{"not":{"matches":"$.a"}}]}"#,
            ),
            predicates(r#""Maybe""#),
            predicates(r#"{"changed":"$.spec","matches":"$.spec"}"#),
            predicates(r#"{"changed":"spec"}"#),
            predicates(r#"{"any":[]}"#),
        ] {
            let json = serde_json::from_str(&text).expect("json");
            assert_eq!(validator.is_valid(&json), Manifest::parse(&text).is_ok(), "{text}");
        }
    }
}
