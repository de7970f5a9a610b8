//! Who is told of controllers that fight: Warning Events `FightingControllers` on the object and on each Plugin in the fight,
//! metrics, and the host's log.
//!
//! An Event is read by those who may read Events in its namespace. Those of the object's may know who writes the object: its
//! managedFields tell. Those of a Plugin's may know what that Plugin writes. Neither is told more of a plugin of another
//! namespace than its name, and nobody the values: the object may be a Secret.

use std::sync::Arc;

use operetta_core::{
    conflict::{Author, Fight, FightSink, Rival, Stage},
    object::{ObjectKey, kind::GroupVersionKind},
    ports::{EventSink, EventType},
};
use operetta_kube::informer::registry::InformerRegistry;

use crate::{
    metrics::Metrics,
    plugin::{crd, report::note},
};

/// The reason of the Events.
const REASON: &str = "FightingControllers";
/// Characters of a path or a manager in an Event.
const MAX_TEXT: usize = 256;

/// Tells of fights.
pub struct FightReporter {
    /// The host's own Events.
    pub events: Arc<dyn EventSink>,
    /// Where they are counted.
    pub metrics: Arc<Metrics>,
    /// One has the Plugins.
    pub informers: Arc<InformerRegistry>,
}

impl FightSink for FightReporter {
    fn fight(&self, fight: &Fight) {
        self.metrics.fight(fight);
        if fight.stage == Stage::Lasts {
            return;
        }
        tracing::warn!(target: "fights", kind = %fight.kind, object = %fight.key, "{}", told(fight, None));
        let tell = |kind: GroupVersionKind, key: &ObjectKey, uid: Option<String>| {
            // Events about what has no namespace are in `default`.
            let reader = key.namespace.as_deref().unwrap_or("default");
            self.events.emit(note(kind, key, uid, EventType::Warning, REASON, told(fight, Some(reader))));
        };
        tell(fight.kind.clone(), &fight.key, Some(fight.uid.clone()));
        let plugins = GroupVersionKind::new(crd::API_VERSION, crd::KIND);
        let other = match &fight.rival {
            Rival::Author(other) => Some(&other.plugin).filter(|other| **other != fight.author.plugin),
            Rival::Outside { .. } => None,
        };
        for plugin in std::iter::once(&fight.author.plugin).chain(other) {
            let known = self.informers.of_kind(&plugins).into_iter().find_map(|informer| informer.cache.get(plugin));
            tell(plugins.clone(), plugin, known.map(|plugin| plugin.uid().to_owned()));
        }
    }
}

/// What is told in a namespace; all there is to tell for None. The same as long as the fight lasts, so that its Events become
/// one with a count.
fn told(fight: &Fight, reader: Option<&str>) -> String {
    let own = |author: &Author| reader.is_none_or(|reader| author.plugin.namespace.as_deref() == Some(reader));
    let name = |author: &Author| {
        let controller = if own(author) { format!(" (controller {:?})", author.controller) } else { String::new() };
        format!("Plugin {}{controller}", author.plugin)
    };
    let author = &fight.author;
    let who = match &fight.rival {
        Rival::Author(other) if other.plugin == author.plugin && !own(author) => {
            format!("two controllers of Plugin {}", author.plugin)
        }
        // In the same order, whoever of them wrote last.
        Rival::Author(other) => format!("{} and {}", name(author.min(other)), name(author.max(other))),
        Rival::Outside { manager: Some(manager) } => {
            format!("{} and whoever writes as field manager {:?}", name(author), shown(manager))
        }
        Rival::Outside { manager: None } => format!("{} and a writer outside this host", name(author)),
    };
    let (path, kind, key) = (shown(&fight.path), &fight.kind, &fight.key);
    format!(
        "{who} fight over {path} of {kind} {key}: each sets it back to a value of its own when the other has \
         changed it; leave the field to one of them"
    )
}

fn shown(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn author(namespace: &str, controller: &str) -> Author {
        Author { plugin: ObjectKey::namespaced(namespace, "p"), controller: controller.to_owned() }
    }

    fn fight(rival: Rival) -> Fight {
        Fight {
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
    fn both_writers_the_object_and_the_field_are_named() {
        let text = told(&fight(Rival::Author(author("a", "two"))), Some("a"));
        let both = "Plugin a/p (controller \"one\") and Plugin a/p (controller \"two\") fight over .data.x of Secret.v1 a/target";
        assert!(text.starts_with(both), "{text}");
        let text = told(&fight(Rival::Author(author("a", "two"))), Some("b"));
        assert!(text.starts_with("two controllers of Plugin a/p fight over"), "{text}");
        let text = told(&fight(Rival::Outside { manager: Some("helm".into()) }), Some("a"));
        assert!(text.contains("and whoever writes as field manager \"helm\" fight over"), "{text}");
        let text = told(&fight(Rival::Outside { manager: None }), Some("a"));
        assert!(text.contains("and a writer outside this host fight over"), "{text}");
    }

    #[test]
    fn whoever_reads_one_namespace_learns_of_a_plugin_of_another_its_name_only() {
        let other = fight(Rival::Author(author("b", "secret-controller")));
        for (reader, one, two) in [("a", true, false), ("b", false, true), ("default", false, false)] {
            let text = told(&other, Some(reader));
            assert!(text.contains("Plugin a/p") && text.contains("Plugin b/p"), "{text}");
            let controllers = (text.contains("\"one\""), text.contains("\"secret-controller\""));
            assert_eq!(controllers, (one, two), "{text}");
        }
    }

    #[test]
    fn the_text_is_the_same_whoever_of_the_two_wrote_last_and_is_never_endless() {
        let (one, two) = (author("a", "one"), author("b", "two"));
        let first = fight(Rival::Author(two.clone()));
        let second = Fight { author: two, rival: Rival::Author(one), ..first.clone() };
        assert_eq!(told(&first, Some("a")), told(&second, Some("a")));
        let long = Fight { path: "é".repeat(100_000), ..first };
        assert!(told(&long, Some("a")).len() < 1024);
    }
}
