//! The priorities of keys.

/// The priority of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// A key of an initial list, a resync or a full requeue: nothing new is known of the object.
    Low,
    /// A key with something to process; the default.
    #[default]
    Normal,
}
