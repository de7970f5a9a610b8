//! The objects that a view shows, and their updates.

use std::time::Instant;

use k8s_openapi::jiff::Timestamp;
use operetta_core::{
    handler::event::Event,
    object::{ObjectKey, kind::GroupVersionKind},
};
use operetta_kube::client::table::Column as ApiColumn;

use super::{super::watch::Line, metrics::Scrape, table::Health};

/// The name of the kind Plugin for discovery.
pub const PLUGINS: &str = "plugins.operetta.dev";

/// The objects that a user wants to see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The resource, as kubectl takes it.
    pub kind: String,
    /// The namespace; None for the context's.
    pub namespace: Option<String>,
    /// True for all namespaces.
    pub all_namespaces: bool,
    /// The label selector.
    pub labels: String,
}

impl Target {
    /// Reports whether these are Plugins, which have rates.
    pub fn is_plugins(&self) -> bool {
        let kind = self.kind.to_lowercase();
        let (name, group) = kind.split_once('.').unwrap_or((&kind, "operetta.dev"));
        ["plugins", "plugin", "plg"].contains(&name)
            && (group == "operetta.dev" || group.ends_with(".operetta.dev"))
    }
}

/// The kind of a view, as the API server serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The name that kubectl uses: `deployments.apps`.
    pub name: String,
    /// The kind.
    pub kind: GroupVersionKind,
    /// The namespace; None for all, or for a kind without namespaces.
    pub namespace: Option<String>,
    /// True if objects of the kind have namespaces.
    pub is_namespaced: bool,
}

/// An update for the screen.
pub enum Update {
    /// The kind was found.
    Opened(Opened),
    /// Rows of objects that exist or have changed.
    Rows {
        /// The columns of the rows.
        columns: Vec<ApiColumn>,
        /// The rows.
        lines: Vec<Line>,
        /// The health of objects, by their conditions.
        health: Vec<(ObjectKey, Health)>,
        /// True if these are all rows.
        is_whole: bool,
        /// When they were rendered.
        at: Timestamp,
    },
    /// Changes of Plugins.
    Plugins {
        /// The changes.
        events: Vec<Event>,
        /// True if these are all Plugins.
        is_whole: bool,
    },
    /// A scrape of each replica of the host.
    Scrapes {
        /// When the round ended.
        at: Instant,
        /// The replicas, each with its counts or why there are none.
        round: Vec<(String, Result<Scrape, String>)>,
    },
    /// The objects are gone with their kind.
    Gone,
    /// An object as YAML, or why it cannot be read.
    Document(ObjectKey, Result<String, String>),
    /// The log of a Plugin starts over.
    LogBegins(ObjectKey),
    /// Lines of the log of a Plugin.
    Log(ObjectKey, Vec<String>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_found_by_each_of_their_names() {
        let is_plugins = |kind: &str| {
            Target {
                kind: kind.to_owned(),
                ..Target::default()
            }
            .is_plugins()
        };

        for kind in [
            "plugins",
            "Plugin",
            "plg",
            PLUGINS,
            "plugins.v1alpha1.operetta.dev",
        ] {
            assert!(is_plugins(kind), "{kind}");
        }

        for kind in ["pods", "plugins.example.com", "plugin.operetta.devel"] {
            assert!(!is_plugins(kind), "{kind}");
        }
    }
}
