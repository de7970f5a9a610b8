//! The updater: who manages which fields after an apply or an update.

mod conflict;
mod managers;
mod prune;
mod updater;
mod version;

pub use conflict::Conflict;
pub use managers::{ManagedSets, ManagerId, Operation, VersionedSet};
pub use updater::{UpdateError, Updater};
pub use version::{ConvertError, VersionConverter};
