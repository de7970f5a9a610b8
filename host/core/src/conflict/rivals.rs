//! The writers in a conflict, and its stages.

use std::time::Duration;

use crate::object::ObjectKey;

/// How often a lasting conflict is reported.
pub const REPORT_INTERVAL: Duration = Duration::from_secs(600);

/// A writer: a controller of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Author {
    /// The Plugin.
    pub plugin: ObjectKey,
    /// The controller's name in its manifest.
    pub controller: String,
}

/// The other writer in a conflict with an [`Author`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rival {
    /// A controller of this host.
    Author(Author),
    /// A writer outside this host.
    Outside {
        /// The field manager, if known.
        manager: Option<String>,
    },
}

/// How far a conflict has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// New, to be reported.
    Begins,
    /// Last reported [`REPORT_INTERVAL`] ago, to be reported again.
    StillOn,
    /// Reported recently.
    Lasts,
}
