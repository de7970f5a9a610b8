//! The writers of a conflict, and its stages.

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

/// The other writer of a conflict with an [`Author`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rival {
    /// A controller of this host.
    Author(Author),
    /// A writer outside this host.
    Outside {
        /// The field manager, if it is known.
        manager: Option<String>,
    },
}

/// The stage of a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The conflict is new and must be reported.
    Begins,
    /// The conflict was reported [`REPORT_INTERVAL`] ago and must be reported again.
    StillOn,
    /// The conflict was reported recently.
    Lasts,
}
