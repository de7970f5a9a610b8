//! The scope of an informer, its timing and other settings.

use std::{sync::Arc, time::Duration};

use operetta_core::{object::prune::Prune, recorder::Recorder};

use crate::store::Packing;

/// The timing of informers: the intervals and timeouts of lists and watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The time of silence after which a watch is replaced. The API server sends a bookmark about
    /// once a minute.
    pub stall: Duration,
    /// The timeout of a response's headers, and of each chunk of a list.
    pub answer: Duration,
    /// The first pause after a failure. It is doubled with each further failure.
    pub backoff: Duration,
    /// The longest pause.
    pub max_backoff: Duration,
    /// The minimum duration of a watch. The API server is asked to end each watch after this to
    /// twice this time, as in client-go, so that the watches of many informers spread over several
    /// API servers.
    pub watch: Duration,
    /// True to use streaming lists (KEP-3157, WatchList) where the API server supports them. They
    /// save memory on API servers before 1.33, and cost twice the processor time of a list:
    /// docs/decisions/0015-lists.md.
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
    /// The namespace; None for all namespaces.
    pub namespace: Option<String>,
    /// The label selector for the API server; empty selects all objects.
    pub labels: String,
    /// The field selector for the API server; empty selects all objects.
    pub fields: String,
    /// True to watch only apiVersion, kind and metadata (PartialObjectMetadata).
    pub metadata_only: bool,
    /// The fields that the store leaves out, in the form of [`Prune::new`]; sorted.
    pub pruned: Vec<String>,
}

impl Scope {
    /// Returns the scope of all whole objects.
    pub fn everything() -> Self {
        Self {
            namespace: None,
            labels: String::new(),
            fields: String::new(),
            metadata_only: false,
            pruned: vec![],
        }
    }

    /// Reports whether the objects have the fields at these paths, or all fields if there are no
    /// paths.
    pub fn has(&self, projection: &[String]) -> bool {
        let pruned = Prune::new(&self.pruned).unwrap_or_default();
        let missing = |path: &String| pruned.touches(path);
        self.pruned.is_empty() || (!projection.is_empty() && !projection.iter().any(missing))
    }

    /// Reports whether all objects of a namespace, or of all namespaces (None), are in scope, with
    /// all fields except the pruned ones.
    pub fn covers(&self, namespace: Option<&str>) -> bool {
        let selects = !self.labels.is_empty() || !self.fields.is_empty() || self.metadata_only;
        !selects && self.is_within_reach(namespace)
    }

    /// Reports whether objects of a namespace, or of all namespaces (None), are in scope if the
    /// selectors match.
    pub fn is_within_reach(&self, namespace: Option<&str>) -> bool {
        self.namespace.is_none() || self.namespace.as_deref() == namespace
    }
}

/// The settings that all informers of a registry share.
#[derive(Clone)]
pub struct Settings {
    /// The times of lists and watches.
    pub timing: Timing,
    /// The compression of the stores.
    pub packing: Packing,
    /// The recorder of the changes that the watches see; None records none.
    pub recorder: Option<Arc<Recorder>>,
}
