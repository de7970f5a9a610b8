//! The event that a plugin's own mapping receives.

use std::sync::Arc;

use crate::object::{Object, kind::GroupVersionKind};

/// The change of a watched object since its last mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object is new to the controller.
    Added,
    /// The object changed, or a resync repeats it.
    Modified,
    /// The object is deleted.
    Deleted,
}

/// The event that a plugin maps.
#[derive(Clone, Debug)]
pub struct MapEvent {
    /// The watched kind, as the manifest names it.
    pub kind: GroupVersionKind,
    /// The change of the object.
    pub change: Change,
    /// The current state of the object, or the last state of a deleted one.
    pub object: Arc<Object>,
    /// The state at the last mapping, if the object has changed since.
    pub old: Option<Arc<Object>>,
}
