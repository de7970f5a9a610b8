//! What a Plugin's status says, from what the host knows: a pure function, so that it is tested as a table.

use crate::plugin::{
    crd::{Condition, ControllerStatus, PluginStatus, Usage},
    health::ControllerHealth,
    hot_loop,
};
use operetta_core::{hot_loop::Summary, object::ObjectKey};

/// Something is wrong: one word for machines, one sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// CamelCase.
    pub reason: String,
    /// One sentence.
    pub message: String,
}

impl Problem {
    /// A problem of a reason and a sentence. Line breaks, characters that control a terminal and endless texts have no place
    /// in a status.
    pub fn new(reason: impl Into<String>, message: impl Into<String>) -> Self {
        let mut message: String = message.into().split_whitespace().collect::<Vec<_>>().join(" ");
        if message.contains(char::is_control) {
            message = message.replace(char::is_control, "\u{fffd}");
        }
        if message.len() > 1024 {
            message.truncate(message.floor_char_boundary(1024));
            message.push('…');
        }
        Self { reason: reason.into(), message }
    }
}

/// What the host knows about a Plugin.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// metadata.generation.
    pub generation: i64,
    /// spec.suspend.
    pub suspended: bool,
    /// Why it may not run here at all.
    pub refusal: Option<Problem>,
    /// The code that is loaded: digest and size in bytes.
    pub loaded: Option<(String, usize)>,
    /// Why the newest source was not loaded.
    pub load_problem: Option<Problem>,
    /// Why its configuration cannot be had.
    pub config_problem: Option<Problem>,
    /// Why its controllers cannot be set up, whatever the kinds.
    pub setup_problem: Option<Problem>,
    /// Whether it has controllers, those that wait for their kinds included.
    pub running: bool,
    /// Kinds that are not served.
    pub missing_kinds: Vec<String>,
    /// Kinds whose first list is not there yet.
    pub syncing_kinds: Vec<String>,
    /// What the host itself may not watch, with the commands that let it.
    pub out_of_reach: Vec<String>,
    /// What the API server said against watches, with the kind.
    pub watch_errors: Vec<String>,
    /// Rights that it lacks to see anything of a kind, with the commands that give them.
    pub denied: Vec<String>,
    /// What RBAC forbade a reconcile that failed for it, with the commands that give the right.
    pub refused: Option<String>,
    /// Kinds of which it sees a part only, with the namespaces.
    pub partial: Vec<String>,
    /// Its controllers.
    pub controllers: Vec<ControllerFacts>,
    /// What it has used.
    pub usage: Option<Usage>,
    /// Where the host answers.
    pub host: String,
}

/// What the host knows about one controller.
#[derive(Clone, Debug, Default)]
pub struct ControllerFacts {
    /// Its name in the manifest.
    pub name: String,
    /// The kind that it reconciles.
    pub kind: String,
    /// Keys that wait.
    pub queued: usize,
    /// How its reconciles go.
    pub health: ControllerHealth,
    /// Its keys that loop.
    pub loops: Summary<ObjectKey>,
}

/// The status; `now` is RFC 3339. A condition that does not change keeps its time.
pub fn status(facts: &Facts, previous: &PluginStatus, now: &str) -> PluginStatus {
    let (loaded, ready, degraded) = (loaded(facts), ready(facts), degraded(facts));
    let (summary, degraded) = match degraded {
        Some(problem) => (problem.clone(), (true, problem)),
        None => (ready.1.clone(), (false, Problem::new("AsExpected", "nothing is wrong"))),
    };
    let condition = |type_: &str, (holds, why): (bool, Problem)| {
        let status = if holds { "True" } else { "False" };
        let before = previous.conditions.iter().find(|before| before.type_ == type_ && before.status == status);
        Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: why.reason,
            message: why.message,
            last_transition_time: before.map_or_else(|| now.to_owned(), |before| before.last_transition_time.clone()),
            observed_generation: Some(facts.generation),
        }
    };
    PluginStatus {
        observed_generation: Some(facts.generation),
        digest: facts.loaded.as_ref().map(|(digest, _)| digest.clone()),
        size_bytes: facts.loaded.as_ref().map(|(_, size)| i64::try_from(*size).unwrap_or(i64::MAX)),
        reason: Some(summary.reason),
        message: Some(summary.message),
        controllers: facts.controllers.iter().map(controller).collect(),
        usage: facts.usage.clone(),
        conditions: vec![condition("Loaded", loaded), condition("Ready", ready), condition("Degraded", degraded)],
        host: Some(facts.host.clone()),
    }
}

/// Whether two statuses differ at most in what changes with every reconcile.
pub fn same_but_for_counts(one: &PluginStatus, other: &PluginStatus) -> bool {
    let without = |status: &PluginStatus| {
        let mut status = status.clone();
        status.usage = None;
        for controller in &mut status.controllers {
            (controller.reconciles, controller.errors, controller.queued) = (0, 0, 0);
        }
        status
    };
    without(one) == without(other)
}

fn controller(ControllerFacts { name, kind, queued, health, loops: _ }: &ControllerFacts) -> ControllerStatus {
    ControllerStatus {
        name: name.clone(),
        for_: kind.clone(),
        reconciles: i64::try_from(health.reconciles).unwrap_or(i64::MAX),
        errors: i64::try_from(health.errors).unwrap_or(i64::MAX),
        queued: i64::try_from(*queued).unwrap_or(i64::MAX),
        failing: i32::try_from(health.failing).unwrap_or(i32::MAX),
        last_error: health.last_error.as_ref().map(|error| error.message.clone()),
    }
}

fn loaded(facts: &Facts) -> (bool, Problem) {
    match (&facts.loaded, &facts.load_problem) {
        (Some((digest, _)), _) => (true, Problem::new("Loaded", format!("{digest} is loaded"))),
        (None, Some(problem)) => (false, problem.clone()),
        (None, None) if facts.refusal.is_some() => {
            (false, Problem::new("NotPermitted", "the component is not loaded: it may not run here"))
        }
        (None, None) => (false, Problem::new("Loading", "the component is being loaded")),
    }
}

fn ready(facts: &Facts) -> (bool, Problem) {
    let no = |reason: &str, message: String| (false, Problem::new(reason, message));
    if facts.suspended {
        return no("Suspended", "spec.suspend is true".to_owned());
    }
    if let Some(problem) = &facts.refusal {
        return (false, problem.clone());
    }
    if facts.loaded.is_none() {
        return no("NotLoaded", loaded(facts).1.message);
    }
    if let Some(problem) = facts.config_problem.as_ref().filter(|_| !facts.running).or(facts.setup_problem.as_ref()) {
        return (false, problem.clone());
    }
    if !facts.missing_kinds.is_empty() {
        let kinds = facts.missing_kinds.join(", ");
        return no("KindNotFound", format!("waiting for the API server to serve {kinds} (is the CRD installed?)"));
    }
    if !facts.denied.is_empty() {
        return no("Forbidden", facts.denied.join("; "));
    }
    if !facts.out_of_reach.is_empty() {
        return no("HostForbidden", facts.out_of_reach.join("; "));
    }
    if !facts.watch_errors.is_empty() {
        return no("WatchFailing", facts.watch_errors.join("; "));
    }
    if !facts.syncing_kinds.is_empty() {
        return no("Syncing", format!("waiting for the first list of {}", facts.syncing_kinds.join(", ")));
    }
    let names: Vec<&str> = facts.controllers.iter().map(|controller| controller.name.as_str()).collect();
    let partial = facts.partial.iter().map(|partial| format!("; {partial}")).collect::<String>();
    (true, Problem::new("Running", format!("controllers: {}{partial}", names.join(", "))))
}

fn degraded(facts: &Facts) -> Option<Problem> {
    if let Some(problem) = &facts.refusal {
        return Some(problem.clone());
    }
    if let Some(problem) = &facts.load_problem {
        let message = match &facts.loaded {
            Some((digest, _)) => format!("{}; {digest} goes on", problem.message),
            None => problem.message.clone(),
        };
        return Some(Problem::new(problem.reason.clone(), message));
    }
    if facts.suspended {
        return None;
    }
    if let Some(problem) = &facts.config_problem {
        let goes_on = if facts.running { "; the configuration before goes on" } else { "" };
        return Some(Problem::new(problem.reason.clone(), format!("{}{goes_on}", problem.message)));
    }
    if let Some(problem) = &facts.setup_problem {
        return Some(problem.clone());
    }
    if !facts.denied.is_empty() {
        return Some(Problem::new("Forbidden", facts.denied.join("; ")));
    }
    if !facts.out_of_reach.is_empty() {
        return Some(Problem::new("HostForbidden", facts.out_of_reach.join("; ")));
    }
    if !facts.watch_errors.is_empty() {
        return Some(Problem::new("WatchFailing", facts.watch_errors.join("; ")));
    }
    let failing = facts.controllers.iter().find(|controller| controller.health.degraded);
    let looping = |of: &ControllerFacts| hot_loop::problem(&of.name, &of.kind, &of.loops);
    let failing = failing.and_then(|controller| controller.health.last_error.clone());
    failing.or_else(|| facts.controllers.iter().find_map(looping))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use operetta_core::hot_loop::{Looping, Stage};

    use super::*;

    fn running() -> Facts {
        let controllers =
            vec![ControllerFacts { name: "c".into(), kind: "Pod.v1".into(), ..ControllerFacts::default() }];
        let loaded = Some(("sha256:a".into(), 10));
        Facts { generation: 3, loaded, running: true, controllers, ..Facts::default() }
    }

    #[test]
    fn each_state_has_its_conditions_and_one_word_why() {
        let failing = ControllerHealth {
            failing: 1,
            last_error: Some(Problem::new("ReconcileTrapped", "it trapped")),
            degraded: true,
            ..ControllerHealth::default()
        };
        let failing = ControllerFacts { health: failing, ..running().controllers[0].clone() };
        let stage = Stage::Quarantined;
        let how = Looping { stage, runs: 44, by_write: 44, by_requeue: 0, within: Duration::from_secs(300) };
        let worst = Some((ObjectKey::namespaced("n", "a"), how));
        let loops = Summary { slowed: 0, quarantined: 1, worst };
        let looping = ControllerFacts { loops: loops.clone(), ..running().controllers[0].clone() };
        let both = ControllerFacts { loops, ..failing.clone() };
        let not_wasm = || Some(Problem::new("NotWasm", "no wasm"));
        let table: Vec<(Facts, [&str; 3], &str)> = vec![
            (running(), ["True", "True", "False"], "Running"),
            (Facts::default(), ["False", "False", "False"], "NotLoaded"),
            (Facts { load_problem: not_wasm(), ..Facts::default() }, ["False", "False", "True"], "NotWasm"),
            (Facts { load_problem: not_wasm(), ..running() }, ["True", "True", "True"], "NotWasm"),
            (Facts { refusal: not_wasm(), ..running() }, ["True", "False", "True"], "NotWasm"),
            (Facts { refusal: not_wasm(), ..Facts::default() }, ["False", "False", "True"], "NotWasm"),
            (Facts { denied: vec!["no".into()], ..running() }, ["True", "False", "True"], "Forbidden"),
            (Facts { partial: vec!["only a".into()], ..running() }, ["True", "True", "False"], "Running"),
            (Facts { suspended: true, ..running() }, ["True", "False", "False"], "Suspended"),
            (Facts { missing_kinds: vec!["Foo".into()], ..running() }, ["True", "False", "False"], "KindNotFound"),
            (Facts { syncing_kinds: vec!["Foo".into()], ..running() }, ["True", "False", "False"], "Syncing"),
            (Facts { out_of_reach: vec!["nowhere".into()], ..running() }, ["True", "False", "True"], "HostForbidden"),
            (Facts { watch_errors: vec!["gone".into()], ..running() }, ["True", "False", "True"], "WatchFailing"),
            (Facts { controllers: vec![failing], ..running() }, ["True", "True", "True"], "ReconcileTrapped"),
            (Facts { controllers: vec![looping], ..running() }, ["True", "True", "True"], "Quarantined"),
            (Facts { controllers: vec![both], ..running() }, ["True", "True", "True"], "ReconcileTrapped"),
            (Facts { config_problem: not_wasm(), ..running() }, ["True", "True", "True"], "NotWasm"),
            (Facts { config_problem: not_wasm(), running: false, ..running() }, ["True", "False", "True"], "NotWasm"),
        ];
        for (facts, conditions, reason) in table {
            let status = status(&facts, &PluginStatus::default(), "t");
            let found: Vec<_> = status.conditions.iter().map(|condition| condition.status.as_str()).collect();
            assert_eq!(
                (found.as_slice(), status.reason.as_deref()),
                (conditions.as_slice(), Some(reason)),
                "{facts:?}"
            );
        }
    }

    #[test]
    fn a_condition_keeps_its_time_until_it_changes() {
        let first = status(&running(), &PluginStatus::default(), "t1");
        let second = status(&running(), &first, "t2");
        assert_eq!(first, second);
        let third = status(&Facts { suspended: true, ..running() }, &second, "t3");
        let times: Vec<_> = third.conditions.iter().map(|condition| condition.last_transition_time.as_str()).collect();
        assert_eq!(times, ["t1", "t3", "t1"]);
    }

    #[test]
    fn counts_alone_are_no_reason_to_write_at_once() {
        let before = status(&running(), &PluginStatus::default(), "t");
        let mut busy = running();
        busy.controllers[0].health.reconciles = 7;
        busy.usage = Some(Usage { calls: 3, ..Usage::default() });
        let counted = status(&busy, &before, "t");
        assert!(counted != before && same_but_for_counts(&counted, &before));
        let failing = status(&Facts { denied: vec!["no".into()], ..busy }, &before, "t");
        assert!(!same_but_for_counts(&failing, &before));
    }

    #[test]
    fn a_problem_is_one_sentence_on_one_line() {
        assert_eq!(Problem::new("R", "a\n  b\tc").message, "a b c");
        assert!(Problem::new("R", "é".repeat(2000)).message.len() < 1030);
    }
}
