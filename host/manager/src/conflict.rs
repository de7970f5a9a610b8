//! Reports field conflicts between two controllers: as Warning Events `FightingControllers` on the
//! object and on each Plugin involved, in the metrics and in the host's log.
//!
//! Anyone who may read Events in a namespace can read these, so each Event says only what its
//! readers may know. Readers of the object's namespace see its writers in managedFields anyway.
//! Readers of a Plugin's namespace may know what this Plugin writes, but learn only the name of a
//! plugin in another namespace. No Event contains values: the object may be a Secret.

use std::sync::Arc;

use operetta_api::reasons::{self, Reason};
use operetta_core::{
    conflict::{Author, ConflictSink, FieldConflict, Rival, Stage},
    object::{ObjectKey, kind::GroupVersionKind},
    ports::EventSink,
};
use operetta_kube::informer::registry::InformerRegistry;

use crate::{events::Regarding, metrics::Metrics, plugin::crd};

const REASON: Reason = reasons::FIGHTING_CONTROLLERS;
/// The longest path or field manager in an Event, in characters.
const MAX_TEXT: usize = 256;

/// Reports field conflicts.
pub struct ConflictReporter {
    /// Receives the host's own Events.
    pub events: Arc<dyn EventSink>,
    /// Counts the conflicts.
    pub metrics: Arc<Metrics>,
    /// To find the Plugins' uids.
    pub informers: Arc<InformerRegistry>,
}

impl ConflictSink for ConflictReporter {
    fn conflict(&self, conflict: &FieldConflict) {
        self.metrics.conflict(conflict);
        if conflict.stage == Stage::Lasts {
            return;
        }

        tracing::warn!(target: "conflicts", kind = %conflict.kind, object = %conflict.key, "{}", describe(conflict, None));
        let report = |kind: GroupVersionKind, key: &ObjectKey, uid: Option<String>| {
            // Events about cluster-scoped objects are in `default`.
            let reader = key.namespace.as_deref().unwrap_or("default");
            let text = describe(conflict, Some(reader));
            self.events.emit(
                Regarding {
                    kind,
                    key: key.clone(),
                    uid,
                }
                .warning(REASON, text),
            );
        };
        report(
            conflict.kind.clone(),
            &conflict.key,
            Some(conflict.uid.clone()),
        );

        let plugins = GroupVersionKind::new(crd::API_VERSION, crd::KIND);
        let other = match &conflict.rival {
            Rival::Author(other) => {
                Some(&other.plugin).filter(|other| **other != conflict.author.plugin)
            }
            Rival::Outside { .. } => None,
        };

        for plugin in std::iter::once(&conflict.author.plugin).chain(other) {
            let cached = self
                .informers
                .of_kind(&plugins)
                .into_iter()
                .find_map(|informer| informer.cache.get(plugin));
            report(
                plugins.clone(),
                plugin,
                cached.map(|plugin| plugin.uid().to_owned()),
            );
        }
    }
}

/// Describes a conflict for the readers of a namespace, or in full if `reader` is None. The text
/// doesn't change during the conflict, so its Events are aggregated into one with a count.
fn describe(conflict: &FieldConflict, reader: Option<&str>) -> String {
    let own = |author: &Author| {
        reader.is_none_or(|reader| author.plugin.namespace.as_deref() == Some(reader))
    };
    let name = |author: &Author| {
        let controller = if own(author) {
            format!(" (controller {:?})", author.controller)
        } else {
            String::new()
        };
        format!("Plugin {}{controller}", author.plugin)
    };

    let author = &conflict.author;
    let who = match &conflict.rival {
        Rival::Author(other) if other.plugin == author.plugin && !own(author) => {
            format!("two controllers of Plugin {}", author.plugin)
        }
        // Sorted, so the text doesn't depend on who wrote last.
        Rival::Author(other) => format!(
            "{} and {}",
            name(author.min(other)),
            name(author.max(other))
        ),
        Rival::Outside {
            manager: Some(manager),
        } => {
            format!(
                "{} and a writer with field manager {:?}",
                name(author),
                shortened(manager)
            )
        }
        Rival::Outside { manager: None } => {
            format!("{} and a writer outside this host", name(author))
        }
    };

    let path = shortened(&conflict.path);
    let FieldConflict { kind, key, .. } = conflict;

    format!(
        "{who} conflict over {path} of {kind} {key}: each sets it back to its own value after the other changed it; let only \
         one of them set the field"
    )
}

fn shortened(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn author(namespace: &str, controller: &str) -> Author {
        Author {
            plugin: ObjectKey::namespaced(namespace, "p"),
            controller: controller.to_owned(),
        }
    }

    fn conflict(rival: Rival) -> FieldConflict {
        FieldConflict {
            kind: GroupVersionKind::new("v1", "Secret"),
            key: ObjectKey::namespaced("a", "target"),
            uid: "u".to_owned(),
            path: ".data.x".to_owned(),
            author: author("a", "one"),
            rival,
            stage: Stage::Begins,
        }
    }

    #[test]
    fn description_names_writers_object_and_field() {
        let text = describe(&conflict(Rival::Author(author("a", "two"))), Some("a"));
        let both = "Plugin a/p (controller \"one\") and Plugin a/p (controller \"two\") conflict over .data.x of Secret.v1 a/target";
        assert!(text.starts_with(both), "{text}");

        let text = describe(&conflict(Rival::Author(author("a", "two"))), Some("b"));
        assert!(
            text.starts_with("two controllers of Plugin a/p conflict over"),
            "{text}"
        );

        let text = describe(
            &conflict(Rival::Outside {
                manager: Some("helm".into()),
            }),
            Some("a"),
        );
        assert!(
            text.contains("and a writer with field manager \"helm\" conflict over"),
            "{text}"
        );

        let text = describe(&conflict(Rival::Outside { manager: None }), Some("a"));
        assert!(
            text.contains("and a writer outside this host conflict over"),
            "{text}"
        );
    }

    #[test]
    fn event_shows_other_namespaces_the_plugin_name_only() {
        let other = conflict(Rival::Author(author("b", "secret-controller")));
        for (reader, one, two) in [
            ("a", true, false),
            ("b", false, true),
            ("default", false, false),
        ] {
            let text = describe(&other, Some(reader));
            assert!(
                text.contains("Plugin a/p") && text.contains("Plugin b/p"),
                "{text}"
            );
            let controllers = (
                text.contains("\"one\""),
                text.contains("\"secret-controller\""),
            );
            assert_eq!(controllers, (one, two), "{text}");
        }
    }

    #[test]
    fn description_is_stable_and_bounded() {
        let one = author("a", "one");
        let two = author("b", "two");
        let first = conflict(Rival::Author(two.clone()));
        let second = FieldConflict {
            author: two,
            rival: Rival::Author(one),
            ..first.clone()
        };
        assert_eq!(describe(&first, Some("a")), describe(&second, Some("a")));

        let long = FieldConflict {
            path: "é".repeat(100_000),
            ..first
        };
        assert!(describe(&long, Some("a")).len() < 1024);
    }
}
