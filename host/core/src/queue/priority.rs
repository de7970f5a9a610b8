//! Priorities of keys.

/// The priority of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// For keys of an initial list, a resync or a full requeue: nothing new is known about the
    /// object.
    Low,
    /// For keys with something to process; the default.
    #[default]
    Normal,
}
