//! The events of an informer: additions, changes and deletions of objects.

use std::sync::Arc;

use crate::object::Object;

/// A change of one object in the store, delivered after the store was updated (client-go's ResourceEventHandler).
#[derive(Clone, Debug)]
pub enum Event {
    /// The object is new to the handler. `initial` is true if it existed before the handler was added (client-go's
    /// `isInInitialList`).
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
    /// The object is deleted. The state may be stale if the deletion was missed (client-go's DeletedFinalStateUnknown).
    Deleted {
        /// The last state that was seen.
        object: Arc<Object>,
    },
}

impl Event {
    /// Returns the current state of the object, or the last state of a deleted one.
    pub fn object(&self) -> &Arc<Object> {
        match self {
            Self::Added { object, .. } | Self::Modified { object, .. } | Self::Deleted { object } => object,
        }
    }

    /// Returns the state before a change; None for additions and deletions.
    pub fn old(&self) -> Option<&Arc<Object>> {
        match self {
            Self::Modified { old, .. } => Some(old),
            Self::Added { .. } | Self::Deleted { .. } => None,
        }
    }
}
