//! The event that a plugin maps to keys itself.

use std::sync::Arc;

use crate::object::{Object, kind::GroupVersionKind};

/// The change of a watched object since its last mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is new to the controller.
    Added,
    /// It changed, or a resync repeats it.
    Modified,
    /// It is gone.
    Deleted,
}

/// The event that a plugin maps.
#[derive(Clone, Debug)]
pub struct MapEvent {
    /// The watched kind, as the manifest names it.
    pub kind: GroupVersionKind,
    /// The change of the object.
    pub change: Change,
    /// The object in its present or last state.
    pub object: Arc<Object>,
    /// The object at its last mapping, if it has changed since.
    pub old: Option<Arc<Object>>,
}
