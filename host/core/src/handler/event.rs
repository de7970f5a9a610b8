//! Informer events: objects added, modified and deleted.

use std::sync::Arc;

use crate::object::Object;

/// A change of one object in the store, delivered after the store was updated (client-go's
/// [`ResourceEventHandler`]).
///
/// [`ResourceEventHandler`]: https://github.com/kubernetes/client-go/blob/v0.36.2/tools/cache/controller.go#L279
#[derive(Clone, Debug)]
pub enum Event {
    /// The object is new to the handler.
    Added {
        /// The object.
        object: Arc<Object>,
        /// Whether the object existed before the handler was added (client-go's `isInInitialList`).
        initial: bool,
    },
    /// The object changed. A resync repeats it, with the same object as `old` and `object`.
    Modified {
        /// The state before.
        old: Arc<Object>,
        /// The state after the change.
        object: Arc<Object>,
    },
    /// The object is gone. If the deletion itself was missed, the state may be stale (client-go's
    /// `DeletedFinalStateUnknown`).
    Deleted {
        /// The last state seen.
        object: Arc<Object>,
        /// The state before any changes merged into the deletion; None straight from an informer.
        old: Option<Arc<Object>>,
    },
}

impl Event {
    /// Creates a deletion as an informer reports it.
    pub fn deleted(object: Arc<Object>) -> Self {
        Self::Deleted { object, old: None }
    }

    /// The object's current state, or the last one before its deletion.
    pub fn object(&self) -> &Arc<Object> {
        match self {
            Self::Added { object, .. }
            | Self::Modified { object, .. }
            | Self::Deleted { object, .. } => object,
        }
    }

    /// The state before the change; None for additions, and for deletions without merged changes.
    pub fn old(&self) -> Option<&Arc<Object>> {
        match self {
            Self::Modified { old, .. } => Some(old),
            Self::Deleted { old, .. } => old.as_ref(),
            Self::Added { .. } => None,
        }
    }

    /// Whether this is a resync, repeating an unchanged object.
    pub fn is_resync(&self) -> bool {
        matches!(self, Self::Modified { old, object } if Arc::ptr_eq(old, object))
    }

    /// The previous state, if the current one differs from it. A resync changes nothing, nor does a
    /// change and its reversal.
    pub fn changed_from(&self) -> Option<&Arc<Object>> {
        self.old().filter(|old| old.json() != self.object().json())
    }

    /// Merges this event with a later one of the same object, for a handler that has seen neither.
    #[must_use]
    pub fn then(self, later: Self) -> Self {
        let old = match self {
            Self::Added { .. } => None,
            Self::Modified { old, .. } => Some(old),
            // The handler knew the object before its deletion, at the latest in its last state.
            Self::Deleted { object, old } => Some(old.unwrap_or(object)),
        };

        match (later, old) {
            (Self::Deleted { object, .. }, old) => Self::Deleted { object, old },
            (Self::Added { object, .. } | Self::Modified { object, .. }, Some(old)) => {
                Self::Modified { old, object }
            }
            (Self::Modified { object, .. }, None) => Self::Added {
                object,
                initial: false,
            },
            (later @ Self::Added { .. }, None) => later,
        }
    }

    /// Drops the previous state. A change then counts as an addition.
    #[must_use]
    pub fn without_old(self) -> Self {
        match self {
            Self::Modified { object, .. } => Self::Added {
                object,
                initial: false,
            },
            Self::Deleted { object, .. } => Self::deleted(object),
            added @ Self::Added { .. } => added,
        }
    }
}
