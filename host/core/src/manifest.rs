//! The manifest as the host reads it: checked, and with parsed JSONPaths. The types are
//! operetta-api's.
//!
//! A test compares `wit/manifest.schema.json`, generated from those types, with the checks here.

use std::collections::HashSet;

use operetta_api::manifest::{
    self as api, KIND, MAX_CONTROLLERS, MAX_FIELD, MAX_FINALIZERS, MAX_INDEXES, MAX_PRUNED,
    MAX_SELECTOR, MAX_SOURCES,
};
pub use operetta_api::manifest::{Index, Mapping, Namespaces, OwnerKind, RateLimiter};
use operetta_api::{
    API_VERSION, GroupVersionKind,
    names::{is_dns_label, is_qualified_name},
};

use crate::{
    object::{
        Object,
        prune::{Prune, PruneError},
    },
    predicate::{self, Expression},
};

pub use crate::predicate::Predicate;

/// A plugin's controllers, and the indexes for its reads.
pub type Manifest = api::Manifest<Expression>;

/// One controller: a queue of keys of one kind, and the events adding keys to it.
pub type Controller = api::Controller<Expression>;

/// A kind to watch, with a selection of its objects and events.
pub type Source = api::Source<Expression>;

/// A kind to watch, and the keys its events enqueue.
pub type Watch = api::Watch<Expression>;

/// How much of the plugin's text a message quotes, in bytes.
const MAX_QUOTED: usize = 256;

/// What an index looks up in an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum IndexKey {
    /// The scalar at a path.
    Path(String),
    /// The value of a label.
    Label(String),
    /// The name of the controlling owner, if it is of this kind.
    Controller(GroupVersionKind),
}

impl IndexKey {
    /// The key of a declared index; `None` if the checks refuse it.
    pub fn new(index: &Index) -> Option<Self> {
        let owner = |owner: &OwnerKind| {
            Self::Controller(GroupVersionKind::new(&owner.api_version, &owner.kind))
        };
        let label = || index.label.clone().map(Self::Label);
        index
            .path
            .clone()
            .map(Self::Path)
            .or_else(label)
            .or_else(|| index.controller.as_ref().map(owner))
    }

    /// The value to find an object by; `None` leaves it out of the index.
    pub fn value(&self, object: &Object) -> Option<String> {
        match self {
            Self::Path(path) => object.scalar_at(path),
            Self::Label(name) => object.label(name).map(Into::into),
            Self::Controller(kind) => {
                let owner = object.controller()?;
                let owners = GroupVersionKind::new(&owner.api_version, &owner.kind);
                (owners.kind == kind.kind && owners.group() == kind.group())
                    .then(|| owner.name.clone())
            }
        }
    }
}

/// A text is not a manifest. The plugin's author has to change it; a retry cannot help.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// Not JSON, an unknown or missing field, or one of the wrong type.
    #[error("describe() returned an invalid manifest: {path}: {message}")]
    Field {
        /// The field's path, e.g. `controllers[0].owns`; `.` is the document itself.
        path: String,
        /// What is wrong.
        message: String,
    },
}

/// Reads and checks a manifest.
///
/// # Errors
/// Returns [`ManifestError::Field`] for the first wrong field.
pub fn parse(text: &str) -> Result<Manifest, ManifestError> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let manifest: Manifest =
        serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
            // A field's name may be empty.
            let path = Some(error.path().to_string())
                .filter(|path| !path.is_empty())
                .unwrap_or_else(|| ".".to_owned());
            wrong(
                path,
                format!("{}{}", error.inner(), containing_source(text, error.path())),
            )
        })?;

    deserializer
        .end()
        .map_err(|error| wrong(".", error.to_string()))?;
    check(&manifest)?;
    Ok(manifest)
}

fn check(manifest: &Manifest) -> Result<(), ManifestError> {
    if manifest.api_version != API_VERSION {
        let message = format!(
            "{:?} is not supported: this host supports {API_VERSION:?}",
            manifest.api_version
        );
        return Err(wrong("apiVersion", message));
    }

    if manifest.kind != KIND {
        return Err(wrong(
            "kind",
            format!("{:?} is not {KIND:?}", manifest.kind),
        ));
    }

    check_counts(manifest)?;
    let mut names = HashSet::new();
    for (at, controller) in manifest.controllers.iter().enumerate() {
        let path = format!("controllers[{at}]");
        if !is_dns_label(&controller.name) {
            let message = format!(
                "{:?} is not a DNS label (lower case letters, digits and '-', at most 63)",
                controller.name
            );
            return Err(wrong(format!("{path}.name"), message));
        }

        if !names.insert(&controller.name) {
            return Err(wrong(
                format!("{path}.name"),
                format!("{:?} is used twice", controller.name),
            ));
        }

        check_controller(controller, &path)?;
    }

    let mut names = HashSet::new();
    for (at, index) in manifest.indexes.iter().enumerate() {
        let path = format!("indexes[{at}]");
        check_kind(&path, &index.api_version, &index.kind)?;
        check_index(index, &path)?;
        if !names.insert((&index.name, &index.api_version, &index.kind)) {
            let message = format!("{:?} is used twice for {}", index.name, index.kind);
            return Err(wrong(format!("{path}.name"), message));
        }
    }

    Ok(())
}

fn check_counts(manifest: &Manifest) -> Result<(), ManifestError> {
    let controllers = &manifest.controllers;
    if controllers.is_empty() {
        return Err(wrong("controllers", "at least one controller is needed"));
    }

    for (path, items, count, most) in [
        (
            "controllers",
            "controllers",
            controllers.len(),
            MAX_CONTROLLERS,
        ),
        (
            "controllers",
            "kinds (for, owns and watches)",
            manifest.source_count(),
            MAX_SOURCES,
        ),
        ("indexes", "indexes", manifest.indexes.len(), MAX_INDEXES),
    ] {
        if count > most {
            return Err(wrong(
                path,
                format!("{count} {items}, over the limit of {most}"),
            ));
        }
    }

    Ok(())
}

fn check_controller(controller: &Controller, path: &str) -> Result<(), ManifestError> {
    let Controller {
        name,
        for_,
        owns,
        watches,
        finalizers,
        workers,
        rate_limiter,
        ..
    } = controller;

    if !(1..=64).contains(workers) {
        return Err(wrong(
            format!("{path}.workers"),
            format!("{workers} is not within 1 to 64"),
        ));
    }

    check_source(for_, &format!("{path}.for"), name, [])?;
    for (at, source) in owns.iter().enumerate() {
        check_source(source, &format!("{path}.owns[{at}]"), name, [])?;
    }

    for (at, watch) in watches.iter().enumerate() {
        check_source(
            &watch.source,
            &format!("{path}.watches[{at}].source"),
            name,
            mapped_paths(&watch.map),
        )?;

        if let Mapping::FieldPath {
            path: field,
            namespace_path,
        } = &watch.map
        {
            check_path(&format!("{path}.watches[{at}].map.path"), field)?;
            if let Some(field) = namespace_path {
                check_path(&format!("{path}.watches[{at}].map.namespacePath"), field)?;
            }
        }
    }

    if finalizers.len() > MAX_FINALIZERS {
        let message = format!(
            "{} finalizers, over the limit of {MAX_FINALIZERS}",
            finalizers.len()
        );
        return Err(wrong(format!("{path}.finalizers"), message));
    }

    for (at, finalizer) in finalizers.iter().enumerate() {
        check_qualified(
            &format!("{path}.finalizers[{at}]"),
            finalizer,
            "a finalizer's name like \"example.com/cleanup\"",
        )?;
    }

    if let Some(limiter) = rate_limiter {
        if limiter.qps == 0 || limiter.burst == 0 {
            return Err(wrong(
                format!("{path}.rateLimiter"),
                "qps and burst must be at least 1",
            ));
        }

        if limiter.base_delay_ms > limiter.max_delay_ms {
            return Err(wrong(
                format!("{path}.rateLimiter"),
                "baseDelayMs is more than maxDelayMs",
            ));
        }
    }

    Ok(())
}

/// Checks a source of a controller. `needed` are the fields read by the source's mapping.
fn check_source<'a>(
    source: &Source,
    path: &str,
    controller: &str,
    needed: impl IntoIterator<Item = &'a str>,
) -> Result<(), ManifestError> {
    check_kind(path, &source.api_version, &source.kind)?;
    for (field, selector) in [
        ("labelSelector", &source.label_selector),
        ("fieldSelector", &source.field_selector),
    ] {
        check_length(
            &format!("{path}.{field}"),
            selector.as_deref().unwrap_or_default(),
            MAX_SELECTOR,
        )?;
    }

    predicate::check(&source.predicates).map_err(|message| {
        wrong(
            format!("{path}.predicates"),
            format!("{message}{}", source_suffix(controller, &source.kind)),
        )
    })?;

    if source.prune.len() > MAX_PRUNED {
        let message = format!(
            "{} field paths, over the limit of {MAX_PRUNED}",
            source.prune.len()
        );
        return Err(wrong(format!("{path}.prune"), message));
    }

    source
        .prune
        .iter()
        .try_for_each(|field| check_length(&format!("{path}.prune"), field, MAX_FIELD))?;
    let prune = |error: PruneError| wrong(format!("{path}.prune"), error.to_string());
    let pruned = Prune::new(&source.prune).map_err(prune)?;
    if source.prune.is_empty() {
        return Ok(());
    }

    let fields = needed
        .into_iter()
        .map(str::to_owned)
        .chain(predicate::fields(&source.predicates));

    match fields
        .into_iter()
        .find(|field| field == "." || pruned.touches(field))
    {
        Some(field) => {
            let message = format!("{field:?} is needed by this source's predicates or mapping");
            Err(wrong(format!("{path}.prune"), message))
        }
        None => Ok(()),
    }
}

/// The fields read by a mapping, except those of a custom mapping.
fn mapped_paths(mapping: &Mapping) -> impl Iterator<Item = &str> {
    let paths = match mapping {
        Mapping::FieldPath {
            path,
            namespace_path,
        } => [Some(path), namespace_path.as_ref()],
        Mapping::Owner { .. } | Mapping::SameName {} | Mapping::Custom {} => [None, None],
    };
    paths.into_iter().flatten().map(String::as_str)
}

fn check_index(index: &Index, path: &str) -> Result<(), ManifestError> {
    check_length(&format!("{path}.name"), &index.name, MAX_FIELD)?;
    match (&index.path, &index.label, &index.controller) {
        (Some(field), None, None) => check_path(&format!("{path}.path"), field),
        (None, Some(label), None) => check_qualified(
            &format!("{path}.label"),
            label,
            "a label's name like \"app.kubernetes.io/name\"",
        ),
        (None, None, Some(owner)) => check_kind(
            &format!("{path}.controller"),
            &owner.api_version,
            &owner.kind,
        ),
        _ => Err(wrong(
            path,
            "an index needs exactly one of path, label and controller",
        )),
    }
}

fn wrong(path: impl Into<String>, message: impl Into<String>) -> ManifestError {
    ManifestError::Field {
        path: cut(path.into()),
        message: cut(message.into()),
    }
}

/// Shortens the plugin's text, which may be as long as the manifest.
fn cut(mut text: String) -> String {
    if text.len() > 2 * MAX_QUOTED {
        let end = text.split_off(text.ceil_char_boundary(text.len() - MAX_QUOTED));
        text.truncate(text.floor_char_boundary(MAX_QUOTED));
        text = format!("{text}…{end}");
    }
    text
}

/// Names the controller and the source's kind around a mistake, because the path has only their
/// positions.
fn containing_source(text: &str, path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;

    let manifest: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let mut value = &manifest;
    let mut controller = None;
    let mut kind = None;
    for segment in path.iter() {
        value = match segment {
            Segment::Seq { index } => &value[*index],
            Segment::Map { key } => &value[key],
            Segment::Enum { .. } | Segment::Unknown => break,
        };
        // Controllers have a name, their sources a kind.
        controller = controller.or(value["name"].as_str());
        kind = value["kind"].as_str().or(kind);
    }
    controller
        .zip(kind)
        .map(|(controller, kind)| source_suffix(controller, kind))
        .unwrap_or_default()
}

fn source_suffix(controller: &str, kind: &str) -> String {
    format!(" (controller {controller:?}, of {kind})")
}

fn check_kind(path: &str, api_version: &str, kind: &str) -> Result<(), ManifestError> {
    let checked = GroupVersionKind::new(api_version, kind).check();
    checked.map_err(|(field, message)| wrong(format!("{path}.{field}"), message))
}

fn check_length(path: &str, text: &str, most: usize) -> Result<(), ManifestError> {
    if text.len() > most {
        return Err(wrong(
            path,
            format!("{} bytes, over the limit of {most}", text.len()),
        ));
    }
    Ok(())
}

fn check_path(path: &str, field: &str) -> Result<(), ManifestError> {
    check_length(path, field, MAX_FIELD)?;
    let steps = field.strip_prefix('.').unwrap_or_default();
    if steps.is_empty() || steps.split('.').any(str::is_empty) {
        return Err(wrong(
            path,
            format!("{field:?} is not a field path like \".spec.name\""),
        ));
    }
    Ok(())
}

fn check_qualified(path: &str, text: &str, wanted: &str) -> Result<(), ManifestError> {
    check_length(path, text, MAX_FIELD)?;
    if !is_qualified_name(text) {
        return Err(wrong(path, format!("{text:?} is not {wanted}")));
    }

    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::ManagedFields;

    const MINIMAL: &str = r#"{"apiVersion":"operetta.dev/v1alpha1","kind":"Manifest","controllers":[{"name":"c","for":{"apiVersion":"v1","kind":"Pod"}}]}"#;

    #[test]
    fn minimal_manifest_has_client_go_defaults() {
        let manifest = parse(MINIMAL).expect("parses");
        let controller = &manifest.controllers[0];
        assert_eq!((controller.workers, controller.resync_seconds), (1, 0));
        assert_eq!(controller.for_.namespaces, Namespaces::All);
        let limiter = RateLimiter::default();
        assert_eq!(
            (
                limiter.base_delay_ms,
                limiter.max_delay_ms,
                limiter.qps,
                limiter.burst
            ),
            (5, 1_000_000, 10, 100)
        );
    }

    #[test]
    fn names_each_mistake_with_its_path() {
        let with = |from: &str, to: &str| MINIMAL.replace(from, to);
        let predicate = |text: &str| with("\"Pod\"", &format!("\"Pod\",\"predicates\":[{text}]"));
        for (text, path, part) in [
            ("hello".to_owned(), ".", "expected value"),
            (String::new(), ".", "EOF"),
            (format!("{MINIMAL} x"), ".", "trailing characters"),
            (
                with("\"for\"", "\"of\""),
                "controllers[0].of",
                "unknown field `of`",
            ),
            (
                with("\"kind\":\"Manifest\"", "\"\":1"),
                ".",
                "unknown field ``",
            ),
            (
                with("\"kind\":\"Pod\"", "\"kind\":\"Pod\",\"selector\":\"a\""),
                "controllers[0].for.selector",
                "unknown field",
            ),
            (
                with("\"name\":\"c\",", ""),
                "controllers[0]",
                "missing field `name`",
            ),
            (
                with("operetta.dev/v1alpha1", "operetta.dev/v9"),
                "apiVersion",
                "this host supports",
            ),
            (
                with("\"Manifest\"", "\"Pod\""),
                "kind",
                "is not \"Manifest\"",
            ),
            (with("\"c\"", "\"C\""), "controllers[0].name", "DNS label"),
            (
                with("\"name\":\"c\"", "\"name\":\"c\",\"workers\":0"),
                "controllers[0].workers",
                "1 to 64",
            ),
            (
                with(
                    "\"name\":\"c\"",
                    r#""name":"c","finalizers":["example.com/cleanup","clean up"]"#,
                ),
                "controllers[0].finalizers[1]",
                "\"clean up\" is not a finalizer's name like \"example.com/cleanup\"",
            ),
            (
                with("\"v1\"", "\"a/b/c\""),
                "controllers[0].for.apiVersion",
                "group/version",
            ),
            (
                predicate(r#""Maybe""#),
                "controllers[0].for.predicates[0]",
                "unknown variant `Maybe`, expected one of",
            ),
            (
                predicate(r#"{"changed":7}"#),
                "controllers[0].for.predicates[0].changed",
                "expected a JSONPath",
            ),
            (
                predicate(r#"{"matches":"$.spec["}"#),
                "controllers[0].for.predicates[0].matches",
                "not a JSONPath (RFC 9535)",
            ),
            (
                predicate(r#"{"not":{"any":["LabelsChanged",{"matches":"spec"}]}}"#),
                "controllers[0].for.predicates[0].not.any[1].matches",
                "(controller \"c\", of Pod)",
            ),
            (
                predicate(r#"{"any":[]}"#),
                "controllers[0].for.predicates",
                "(controller \"c\", of Pod)",
            ),
            (
                with(
                    "}]}",
                    r#"}],"indexes":[{"name":"i","apiVersion":"v1","kind":"Pod"}]}"#,
                ),
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
                with(
                    "}]}",
                    r#"}],"indexes":[{"name":"i","apiVersion":"v1","kind":"Pod","label":"a b"}]}"#,
                ),
                "indexes[0].label",
                "not a label's name",
            ),
            (
                with(
                    "\"kind\":\"Pod\"",
                    r#""kind":"Pod","prune":[".status",".metadata.labels.a"]"#,
                ),
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
                with(
                    "}]}",
                    r#"}],"indexes":[{"name":"i","apiVersion":"v1","kind":"Pod","path":"spec"}]}"#,
                ),
                "indexes[0].path",
                "not a field path",
            ),
        ] {
            let ManifestError::Field { path: at, message } = parse(&text).expect_err(&text);
            assert_eq!(at, path, "{text}: {message}");
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn controller_index_ignores_the_owners_version() {
        let by = IndexKey::Controller(GroupVersionKind::new("example.com/v1", "Foo"));
        let owned = |owner: &str, controller: bool| {
            let text = format!(
                r#"{{"metadata":{{"name":"p","ownerReferences":[{{{owner},"name":"foo","uid":"u","controller":{controller}}}]}}}}"#
            );
            Object::from_json(
                &text,
                &GroupVersionKind::new("v1", "Pod"),
                ManagedFields::Drop,
            )
            .expect("object")
        };
        let of = |api_version: &str, kind: &str| {
            format!(r#""apiVersion":"{api_version}","kind":"{kind}""#)
        };
        assert_eq!(
            by.value(&owned(&of("example.com/v1", "Foo"), true))
                .as_deref(),
            Some("foo")
        );
        assert_eq!(
            by.value(&owned(&of("example.com/v2", "Foo"), true))
                .as_deref(),
            Some("foo")
        );
        assert_eq!(
            by.value(&owned(&of("example.com/v1", "Foo"), false)),
            None,
            "not the controller"
        );
        assert_eq!(by.value(&owned(&of("example.com/v1", "Bar"), true)), None);
        assert_eq!(by.value(&owned(&of("example.org/v1", "Foo"), true)), None);
    }

    #[test]
    fn schema_in_the_repository_matches_types() {
        let path = "../../wit/manifest.schema.json";
        let schema =
            serde_json::to_string_pretty(&schemars::schema_for!(Manifest)).expect("schema") + "\n";
        if std::env::var_os("UPDATE_GENERATED").is_some() {
            std::fs::write(path, &schema).expect("write");
        }
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            kept == schema,
            "wit/manifest.schema.json is out of date: run `make generate`"
        );
    }

    #[test]
    fn schema_and_types_accept_the_same_manifests() {
        let schema = serde_json::to_value(schemars::schema_for!(Manifest)).expect("schema");
        let validator = jsonschema::validator_for(&schema).expect("a valid schema");
        let predicates =
            |text: &str| MINIMAL.replace("\"Pod\"", &format!("\"Pod\",\"predicates\":[{text}]"));
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
            assert_eq!(validator.is_valid(&json), parse(&text).is_ok(), "{text}");
        }
    }
}
