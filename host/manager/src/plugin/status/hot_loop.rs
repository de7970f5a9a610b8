//! Reports of hot loops: Warning Events `HotLoop` and `Quarantined` on the object, lines in the
//! plugin's log, and the Plugin's condition. Each report has numbers and advice.
//!
//! Everybody who may read Events in the object's namespace can read these. Of a plugin in another
//! namespace, an Event shows only the name, which the object's managedFields show as well.

use std::sync::Arc;

use operetta_api::reasons::{self, Reason};
use operetta_core::{
    hot_loop::{Looping, SLOWEST, Stage, Summary, delay_of_round},
    object::{ObjectKey, kind::GroupVersionKind},
    ports::EventSink,
};

use crate::{events::Regarding, problem::Problem};

/// The advice in every report.
const REMEDY: &str = "write only if something differs, and requeue after 1 s or more";

/// The object of a key in a hot loop.
#[derive(Clone, Copy)]
pub struct LoopingObject<'a> {
    /// The kind that the controller reconciles.
    pub kind: &'a GroupVersionKind,
    /// The key.
    pub key: &'a ObjectKey,
}

/// Reports hot loops as Events on the objects.
pub struct LoopReporter {
    /// The sink of the host's own Events.
    pub events: Arc<dyn EventSink>,
    /// Returns the uid of a cached object.
    pub cached_uid: Box<CachedUid>,
}

/// A function as in [`LoopReporter::cached_uid`].
pub type CachedUid = dyn Fn(&GroupVersionKind, &ObjectKey) -> Option<String> + Send + Sync;

impl LoopReporter {
    /// Reports on an object that its reconcile has failed and is not retried. Only in the plugin's
    /// own namespace: elsewhere the host would lend a plugin its right to write Events with any
    /// text.
    pub fn report_terminal(
        &self,
        plugin: &ObjectKey,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        message: &str,
    ) {
        if key.namespace != plugin.namespace {
            return;
        }
        let regarding = Regarding {
            kind: kind.clone(),
            key: key.clone(),
            uid: (self.cached_uid)(kind, key),
        };
        let problem = Problem::new(
            reasons::TERMINAL_ERROR,
            format!("Plugin {plugin}: {message}"),
        );
        self.events
            .emit(regarding.warning(problem.reason, problem.message));
    }

    /// Reports that a key is slowed, or that it is quarantined.
    pub fn report(
        &self,
        plugin: &ObjectKey,
        controller: &str,
        object: LoopingObject<'_>,
        how: &Looping,
    ) {
        let LoopingObject { kind, key } = object;
        let text = event_text(plugin, controller, key.namespace.as_deref(), how);
        let uid = (self.cached_uid)(kind, key);
        let regarding = Regarding {
            kind: kind.clone(),
            key: key.clone(),
            uid,
        };
        self.events.emit(regarding.warning(reason(how.stage), text));
    }
}

/// Builds an Event's text for readers of a namespace. Events about cluster-scoped objects are in
/// `default`.
fn event_text(
    plugin: &ObjectKey,
    controller: &str,
    namespace: Option<&str>,
    how: &Looping,
) -> String {
    let own = plugin.namespace.as_deref() == Some(namespace.unwrap_or("default"));
    let controller = if own {
        format!(" (controller {controller:?})")
    } else {
        String::new()
    };
    format!(
        "Plugin {plugin}{controller} reconciles this object in a loop: {}",
        describe(how)
    )
}

/// Returns the Event's and the condition's reason.
pub fn reason(stage: Stage) -> Reason {
    match stage {
        Stage::Slowed { .. } => reasons::HOT_LOOP,
        Stage::Quarantined => reasons::QUARANTINED,
    }
}

/// Describes a loop in a clause that follows the object's name.
pub fn describe(how: &Looping) -> String {
    let Looping {
        stage,
        runs,
        by_write,
        by_requeue,
        within,
    } = how;

    let consequence = match stage {
        Stage::Slowed { round } => {
            let now = delay_of_round(*round).as_secs();
            format!("the next reconcile is delayed by {now} s, and by up to {} s if the loop continues", SLOWEST.as_secs())
        }
        Stage::Quarantined => {
            "it is quarantined until another writer changes it or an object that triggers it, the Plugin changes, or 10 \
             minutes pass"
                .to_owned()
        }
    };

    format!(
        "{runs} times in {:.1} s, {by_write} of them triggered by the plugin's own writes and {by_requeue} by its requeues, \
         without a change by anybody else; {consequence}; {REMEDY}",
        within.as_secs_f64()
    )
}

/// Returns the problem that the Plugin's status shows for a controller's loops.
pub fn problem(controller: &str, kind: &str, loops: &Summary<ObjectKey>) -> Option<Problem> {
    let (key, how) = loops.worst.as_ref()?;
    let others = match (loops.slowed + loops.quarantined).saturating_sub(1) {
        0 => String::new(),
        others => {
            format!(
                " ({others} more; in total {} slowed and {} quarantined)",
                loops.slowed, loops.quarantined
            )
        }
    };
    let text = format!(
        "controller {controller:?} reconciles {kind} {key} in a loop{others}: {}",
        describe(how)
    );
    Some(Problem::new(reason(how.stage), text))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn looping(stage: Stage) -> Looping {
        Looping {
            stage,
            runs: 34,
            by_write: 30,
            by_requeue: 4,
            within: Duration::from_millis(912),
        }
    }

    #[test]
    fn description_has_numbers_and_advice() {
        let slowed = describe(&looping(Stage::Slowed { round: 3 }));
        for words in [
            "34 times in 0.9 s",
            "30 of them triggered by the plugin's own writes",
            "4 by its requeues",
            "by 4 s",
            REMEDY,
        ] {
            assert!(slowed.contains(words), "{words:?} is not in {slowed}");
        }

        let quarantined = describe(&looping(Stage::Quarantined));
        assert!(
            quarantined.contains("10 minutes") && quarantined.contains(REMEDY),
            "{quarantined}"
        );
    }

    #[test]
    fn problem_names_the_worst_key_and_counts_the_others() {
        let worst = Some((
            ObjectKey::namespaced("n", "a\nb\u{202e}"),
            looping(Stage::Quarantined),
        ));
        let one = problem(
            "c",
            "Foo.g/v1",
            &Summary {
                slowed: 0,
                quarantined: 1,
                worst: worst.clone(),
            },
        )
        .expect("one");
        assert_eq!(one.reason, "Quarantined");
        assert!(
            one.message
                .starts_with("controller \"c\" reconciles Foo.g/v1 n/a b"),
            "{}",
            one.message
        );

        let more = problem(
            "c",
            "Foo.g/v1",
            &Summary {
                slowed: 3,
                quarantined: 2,
                worst,
            },
        )
        .expect("some");
        assert!(
            more.message
                .contains("4 more; in total 3 slowed and 2 quarantined"),
            "{}",
            more.message
        );
        assert_eq!(problem("c", "Foo.g/v1", &Summary::default()), None);
    }

    #[test]
    fn event_shows_other_namespaces_the_plugin_name_only() {
        let plugin = ObjectKey::namespaced("team", "p");
        let how = looping(Stage::Slowed { round: 1 });
        let own = event_text(&plugin, "c", Some("team"), &how);
        assert!(
            own.starts_with(
                "Plugin team/p (controller \"c\") reconciles this object in a loop: 34 times"
            ),
            "{own}"
        );

        for reader in [Some("other"), None] {
            let text = event_text(&plugin, "c", reader, &how);
            assert!(
                text.starts_with("Plugin team/p reconciles this object in a loop: 34 times"),
                "{text}"
            );
        }
    }
}
