//! Who is told of keys that loop: Warning Events `HotLoop` and `Quarantined` on the object, the plugin's log, and, in
//! `status.rs`, the Plugin's condition. What is told has numbers, and what to do.
//!
//! An Event is read by those who may read Events in the object's namespace: of a plugin of another namespace they are told
//! no more than its name, which the object's managedFields have too.

use std::sync::Arc;

use crate::plugin::{report::note, status::Problem};
use operetta_core::{
    hot_loop::{Looping, SLOWEST, Stage, Summary, delay_of_round},
    object::{ObjectKey, kind::GroupVersionKind},
    ports::{EventSink, EventType},
};

/// What helps.
const REMEDY: &str = "let the plugin write only what differs from what is there, and requeue after 1 s or later";

/// Tells of loops on the objects.
pub struct LoopReporter {
    /// The host's own Events.
    pub events: Arc<dyn EventSink>,
    /// The uid of an object, where it is cached.
    pub known: Box<KnownUid>,
}

/// See [`LoopReporter::known`].
pub type KnownUid = dyn Fn(&GroupVersionKind, &ObjectKey) -> Option<String> + Send + Sync;

impl LoopReporter {
    /// Tells once when a key is slowed, and once when it is quarantined.
    pub fn tell(
        &self,
        plugin: &ObjectKey,
        controller: &str,
        (kind, key): (&GroupVersionKind, &ObjectKey),
        how: &Looping,
    ) {
        let text = event_text(plugin, controller, key.namespace.as_deref(), how);
        let uid = (self.known)(kind, key);
        self.events.emit(note(kind.clone(), key, uid, EventType::Warning, reason(how.stage), text));
    }
}

/// What is told in a namespace; about what has no namespace it is told in `default`.
fn event_text(plugin: &ObjectKey, controller: &str, namespace: Option<&str>, how: &Looping) -> String {
    let own = plugin.namespace.as_deref() == Some(namespace.unwrap_or("default"));
    let controller = if own { format!(" (controller {controller:?})") } else { String::new() };
    format!("Plugin {plugin}{controller} reconciles this object in a loop: {}", told(how))
}

/// One word.
pub fn reason(stage: Stage) -> &'static str {
    match stage {
        Stage::Slowed { .. } => "HotLoop",
        Stage::Quarantined => "Quarantined",
    }
}

/// A loop in one sentence, after what names the object.
pub fn told(how: &Looping) -> String {
    let Looping { stage, runs, by_write, by_requeue, within } = how;
    let so = match stage {
        Stage::Slowed { round } => {
            let now = delay_of_round(*round).as_secs();
            format!("it waits {now} s before the next one, and up to {} s if that goes on", SLOWEST.as_secs())
        }
        Stage::Quarantined => {
            "it is not reconciled any more until somebody else changes what it depends on, the Plugin changes, or 10 minutes \
             are over"
                .to_owned()
        }
    };
    format!(
        "{runs} times in {:.1} s, {by_write} of them for the plugin's own writes and {by_requeue} for its requeues, with no \
         change from outside; {so}; {REMEDY}",
        within.as_secs_f64()
    )
}

/// What the Plugin's status says of a controller's loops, if there are any.
pub fn problem(controller: &str, kind: &str, held: &Summary<ObjectKey>) -> Option<Problem> {
    let (key, how) = held.worst.as_ref()?;
    let others = match (held.slowed + held.quarantined).saturating_sub(1) {
        0 => String::new(),
        others => format!(" ({others} more are held: {} slowed, {} quarantined in all)", held.slowed, held.quarantined),
    };
    let text = format!("controller {controller:?} reconciles {kind} {key} in a loop{others}: {}", told(how));
    Some(Problem::new(reason(how.stage), text))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn looping(stage: Stage) -> Looping {
        Looping { stage, runs: 34, by_write: 30, by_requeue: 4, within: Duration::from_millis(912) }
    }

    #[test]
    fn what_is_told_has_numbers_and_what_to_do() {
        let slowed = told(&looping(Stage::Slowed { round: 3 }));
        for words in
            ["34 times in 0.9 s", "30 of them for the plugin's own writes", "4 for its requeues", "waits 4 s", REMEDY]
        {
            assert!(slowed.contains(words), "{words:?} is not in {slowed}");
        }
        let quarantined = told(&looping(Stage::Quarantined));
        assert!(quarantined.contains("10 minutes") && quarantined.contains(REMEDY), "{quarantined}");
    }

    #[test]
    fn a_status_names_the_worst_key_and_counts_the_others_whatever_they_are_called() {
        let worst = Some((ObjectKey::namespaced("n", "a\nb\u{202e}"), looping(Stage::Quarantined)));
        let one = problem("c", "Foo.g/v1", &Summary { slowed: 0, quarantined: 1, worst: worst.clone() }).expect("one");
        assert_eq!(one.reason, "Quarantined");
        assert!(one.message.starts_with("controller \"c\" reconciles Foo.g/v1 n/a b"), "{}", one.message);
        let more = problem("c", "Foo.g/v1", &Summary { slowed: 3, quarantined: 2, worst }).expect("some");
        assert!(more.message.contains("4 more are held: 3 slowed, 2 quarantined in all"), "{}", more.message);
        assert_eq!(problem("c", "Foo.g/v1", &Summary::default()), None);
    }

    #[test]
    fn readers_of_another_namespace_are_told_the_plugin_s_name_alone() {
        let plugin = ObjectKey::namespaced("team", "p");
        let how = looping(Stage::Slowed { round: 1 });
        let own = event_text(&plugin, "c", Some("team"), &how);
        assert!(
            own.starts_with("Plugin team/p (controller \"c\") reconciles this object in a loop: 34 times"),
            "{own}"
        );
        for reader in [Some("other"), None] {
            let text = event_text(&plugin, "c", reader, &how);
            assert!(text.starts_with("Plugin team/p reconciles this object in a loop: 34 times"), "{text}");
        }
    }
}
