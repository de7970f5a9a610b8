//! The events of an informer: additions, changes and deletions of one object.

use std::sync::Arc;

use crate::object::Object;

/// A change of one object in the store, delivered after the store has it (client-go's ResourceEventHandler).
#[derive(Clone, Debug)]
pub enum Event {
    /// The object is new to the handler; `initial` when it was there before the handler was (client-go's
    /// `isInInitialList`).
    Added {
        /// The object.
        object: Arc<Object>,
        /// Part of the first full view.
        initial: bool,
    },
    /// The object changed; `old` and `object` are the same one when a resync repeats it.
    Modified {
        /// Before.
        old: Arc<Object>,
        /// Now.
        object: Arc<Object>,
    },
    /// The object is gone. It is the last state seen, which may be stale when the deletion was missed (client-go's
    /// DeletedFinalStateUnknown).
    Deleted {
        /// The last state seen.
        object: Arc<Object>,
    },
}

impl Event {
    /// The object as it is now, or was last.
    pub fn object(&self) -> &Arc<Object> {
        match self {
            Self::Added { object, .. } | Self::Modified { object, .. } | Self::Deleted { object } => object,
        }
    }

    /// The object before, for changes.
    pub fn old(&self) -> Option<&Arc<Object>> {
        match self {
            Self::Modified { old, .. } => Some(old),
            Self::Added { .. } | Self::Deleted { .. } => None,
        }
    }
}
