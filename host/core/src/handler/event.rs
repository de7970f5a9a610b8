//! The events of an informer: additions, changes and deletions of objects.

use std::sync::Arc;

use crate::object::Object;

/// A change of one object in the store, delivered after the store was updated (client-go's
/// ResourceEventHandler).
#[derive(Clone, Debug)]
pub enum Event {
    /// The object is new to the handler. `initial` is true if it existed before the handler was
    /// added (client-go's `isInInitialList`).
    Added {
        /// The object.
        object: Arc<Object>,
        /// True for an object of the initial list.
        initial: bool,
    },
    /// The object changed. A resync repeats it with the same object as `old` and `object`.
    Modified {
        /// The state before.
        old: Arc<Object>,
        /// The current state.
        object: Arc<Object>,
    },
    /// The object is deleted. The state may be stale if the deletion was missed (client-go's
    /// DeletedFinalStateUnknown).
    Deleted {
        /// The last state that was seen.
        object: Arc<Object>,
        /// The state before changes that were merged into the deletion; an informer reports none.
        old: Option<Arc<Object>>,
    },
}

impl Event {
    /// Creates the event of a deletion, as an informer reports it.
    pub fn deleted(object: Arc<Object>) -> Self {
        Self::Deleted { object, old: None }
    }

    /// Returns the current state of the object, or the last state of a deleted one.
    pub fn object(&self) -> &Arc<Object> {
        match self {
            Self::Added { object, .. }
            | Self::Modified { object, .. }
            | Self::Deleted { object, .. } => object,
        }
    }

    /// Returns the state before a change; None for additions, and for deletions that no change was
    /// merged into.
    pub fn old(&self) -> Option<&Arc<Object>> {
        match self {
            Self::Modified { old, .. } => Some(old),
            Self::Deleted { old, .. } => old.as_ref(),
            Self::Added { .. } => None,
        }
    }

    /// Reports whether the event is a resync, which delivers an object again as it is.
    pub fn is_resync(&self) -> bool {
        matches!(self, Self::Modified { old, object } if Arc::ptr_eq(old, object))
    }

    /// Returns the state before a change if the current one differs from it. A resync, or a change
    /// and its reversal, changes nothing.
    pub fn changed_from(&self) -> Option<&Arc<Object>> {
        self.old().filter(|old| old.json() != self.object().json())
    }

    /// Merges this event with a later one of the same object, for a handler that has seen neither.
    #[must_use]
    pub fn then(self, later: Self) -> Self {
        let old = match self {
            Self::Added { .. } => None,
            Self::Modified { old, .. } => Some(old),
            // The handler has seen a deleted object before, at the latest in its last state.
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

    /// Returns the event without the state before. A change then counts as an addition.
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
