//! Sources: the kinds that a controller watches.

use operetta_api::manifest;
pub use operetta_api::manifest::{Mapping, Predicate, RateLimiter};

use crate::{GroupVersionKind, Kind};

/// A kind to watch, and a selection of its objects and events.
///
/// ```
/// # use operetta_sdk::{Predicate, Source};
/// # use operetta_sdk::k8s_openapi::api::core::v1::Pod;
/// let pods = Source::of::<Pod>().labels("app=db").predicate(Predicate::changed("$.status.phase"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Source(pub(crate) manifest::Source);

impl Source {
    /// Selects every object and every event of a type's kind.
    pub fn of<T: Kind>() -> Self {
        Self::kind(T::gvk())
    }

    /// Selects every object and every event of a kind that has no Rust type.
    pub fn kind(kind: GroupVersionKind) -> Self {
        Self(manifest::Source::new(kind))
    }

    /// Selects only objects that a label selector matches; the API server applies it.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.0.label_selector = Some(selector.into());
        self
    }

    /// Selects only objects that a field selector matches; the API server applies it.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.0.field_selector = Some(selector.into());
        self
    }

    /// Selects only events that pass a predicate. An event must pass all predicates of a source.
    pub fn predicate(mut self, predicate: Predicate) -> Self {
        if !self.0.predicates.contains(&predicate) {
            self.0.predicates.push(predicate);
        }
        self
    }

    /// Selects only objects of the Plugin's own namespace.
    pub fn own_namespace(mut self) -> Self {
        self.0.namespaces = manifest::Namespaces::Own;
        self
    }

    /// Leaves fields of these objects out of the host's cache, which then needs less memory: paths
    /// such as `.status` or `.metadata.annotations`. A mapping function gets the objects without
    /// them. Reads return whole objects: the API server answers a get, and a list unless its
    /// [projection](crate::ListOptions::project) needs none of the fields.
    pub fn prune<Path: Into<String>>(mut self, paths: impl IntoIterator<Item = Path>) -> Self {
        self.0.prune.extend(paths.into_iter().map(Into::into));
        self
    }

    pub(crate) fn group_version_kind(&self) -> GroupVersionKind {
        self.0.group_version_kind()
    }
}
