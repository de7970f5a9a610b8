//! The scope and the timing of an informer.

use std::time::Duration;

use operetta_core::object::prune::Prune;

/// The timing of informers: how they list, and when they give up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// A watch that was silent for so long is replaced. The API server sends a bookmark about once a minute.
    pub stall: Duration,
    /// The timeout of the head of an answer, and of each part of a list.
    pub answer: Duration,
    /// The first pause after a failure, doubled with each further one.
    pub backoff: Duration,
    /// The longest pause.
    pub max_backoff: Duration,
    /// The API server is asked to end each watch after this to twice this, as client-go does: so that the watches of many
    /// informers spread over several API servers.
    pub watch: Duration,
    /// True for streaming lists (KEP-3157, WatchList) where the API server knows them. They spare an API server before
    /// 1.33 memory, and cost it twice the processor time of a list: docs/decisions/0015-lists.md.
    pub streaming_lists: bool,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            stall: Duration::from_secs(150),
            answer: Duration::from_secs(30),
            backoff: Duration::from_millis(200),
            max_backoff: Duration::from_secs(10),
            watch: Duration::from_secs(300),
            streaming_lists: false,
        }
    }
}

/// The scope of an informer. Users with the same scope share one watch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    /// One namespace; None watches all.
    pub namespace: Option<String>,
    /// A label selector for the API server; empty selects all.
    pub labels: String,
    /// A field selector for the API server; empty selects all.
    pub fields: String,
    /// Only apiVersion, kind and metadata (PartialObjectMetadata).
    pub metadata_only: bool,
    /// Fields that the store leaves out, as [`Prune::new`] takes them; sorted.
    pub pruned: Vec<String>,
}

impl Scope {
    /// Every object, whole.
    pub fn everything() -> Self {
        Self { namespace: None, labels: String::new(), fields: String::new(), metadata_only: false, pruned: vec![] }
    }

    /// Reports whether objects have the fields at these paths; the whole object, if there are no paths.
    pub fn has(&self, projection: &[String]) -> bool {
        let pruned = Prune::new(&self.pruned).unwrap_or_default();
        let missing = |path: &String| pruned.touches(path);
        self.pruned.is_empty() || (!projection.is_empty() && !projection.iter().any(missing))
    }

    /// Reports whether every object of a namespace, or of all of them (None), is in scope, with all fields but the
    /// pruned ones.
    pub fn covers(&self, namespace: Option<&str>) -> bool {
        let selects = !self.labels.is_empty() || !self.fields.is_empty() || self.metadata_only;
        !selects && self.is_within_reach(namespace)
    }

    /// Reports whether objects of a namespace, or of all of them (None), are in scope if the selectors match.
    pub fn is_within_reach(&self, namespace: Option<&str>) -> bool {
        self.namespace.is_none() || self.namespace.as_deref() == namespace
    }
}
