//! Scope, timing and other settings of informers.

use std::{sync::Arc, time::Duration};

use operetta_core::{object::prune::Prune, recorder::Recorder};

use crate::store::Packing;

/// Intervals and timeouts of an informer's lists and watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// After this long a silence, a watch is replaced. The API server sends a bookmark about once a
    /// minute.
    pub stall: Duration,
    /// Timeout of a response's headers, and of each chunk of a list.
    pub answer: Duration,
    /// The first pause after a failure, doubled with each further one.
    pub backoff: Duration,
    /// The longest pause.
    pub max_backoff: Duration,
    /// The minimum duration of a watch. As in [client-go], the API server is asked to end each
    /// watch after one to two times this, so that the watches of many informers spread over several
    /// API servers.
    ///
    /// [client-go]: https://github.com/kubernetes/client-go/blob/v0.36.2/tools/cache/reflector.go#L588
    pub watch: Duration,
    /// Whether to use streaming lists (KEP-3157, WatchList) if the API server supports them. They
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

/// Which objects an informer watches. Users with the same scope share one watch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    /// The namespace; None for all namespaces.
    pub namespace: Option<String>,
    /// The label selector for the API server; empty selects all objects.
    pub labels: String,
    /// The field selector for the API server; empty selects all objects.
    pub fields: String,
    /// Whether to watch only apiVersion, kind and metadata (PartialObjectMetadata).
    pub metadata_only: bool,
    /// Fields the store leaves out, in the form of [`Prune::new`]; sorted.
    pub pruned: Vec<String>,
    /// Whether the objects are for processes, which get them from the host as they would from the
    /// API server: with managedFields, and by watches of their own (window.rs).
    pub for_processes: bool,
}

impl Scope {
    /// All objects, with all their fields.
    pub fn everything() -> Self {
        Self {
            namespace: None,
            labels: String::new(),
            fields: String::new(),
            metadata_only: false,
            pruned: vec![],
            for_processes: false,
        }
    }

    /// The fields the store leaves out.
    pub(super) fn prune(&self) -> Prune {
        if self.for_processes {
            return Prune::nothing();
        }
        Prune::new(&self.pruned).unwrap_or_default()
    }

    /// Whether the objects have the fields at these paths, or all fields if there are no paths.
    pub fn has(&self, projection: &[String]) -> bool {
        let pruned = Prune::new(&self.pruned).unwrap_or_default();
        let missing = |path: &String| pruned.touches(path);
        self.pruned.is_empty() || (!projection.is_empty() && !projection.iter().any(missing))
    }

    /// Whether all objects of a namespace, or of all namespaces (None), are in scope, with all
    /// fields except the pruned ones.
    pub fn covers(&self, namespace: Option<&str>) -> bool {
        let selects = !self.labels.is_empty() || !self.fields.is_empty() || self.metadata_only;
        !selects && self.is_within_reach(namespace)
    }

    /// Whether objects of a namespace, or of all namespaces (None), are in scope provided the
    /// selectors match.
    pub fn is_within_reach(&self, namespace: Option<&str>) -> bool {
        self.namespace.is_none() || self.namespace.as_deref() == namespace
    }
}

/// Settings shared by all informers of a registry.
#[derive(Clone)]
pub struct Settings {
    /// Intervals and timeouts of lists and watches.
    pub timing: Timing,
    /// Compression of the stores.
    pub packing: Packing,
    /// Records the changes seen by the watches; None records none.
    pub recorder: Option<Arc<Recorder>>,
}
