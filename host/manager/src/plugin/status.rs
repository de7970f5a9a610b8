//! The status of a Plugin, computed from facts: a pure function, tested as a table.

use operetta_api::{
    conditions,
    reasons::{self, Reason},
};
use operetta_core::{hot_loop::Summary, object::ObjectKey};

use crate::{
    plugin::{
        crd::{Condition, ControllerStatus, PluginStatus, Usage},
        health::ControllerHealth,
        hosted_plugin::Problems,
        hot_loop,
    },
    problem::Problem,
};

/// The facts that the host knows about a Plugin.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The Plugin's metadata.generation.
    pub generation: i64,
    /// The Plugin's spec.suspend.
    pub suspended: bool,
    /// The problems of its reconcile.
    pub problems: Problems,
    /// The code that is loaded.
    pub loaded: Option<LoadedCode>,
    /// True if it has controllers, including those that wait for their kinds.
    pub running: bool,
    /// The state of its watches.
    pub watches: WatchFacts,
    /// The permission that a failed reconcile was refused, with the command that grants it.
    pub refused: Option<String>,
    /// Its controllers.
    pub controllers: Vec<ControllerFacts>,
    /// The resources that it has used.
    pub usage: Option<Usage>,
    /// The address of the host's admin endpoints.
    pub host: String,
}

/// The code of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadedCode {
    /// The component's digest.
    pub digest: String,
    /// The component's size, in bytes.
    pub size_bytes: usize,
}

/// The state of a plugin's watches.
#[derive(Clone, Debug, Default)]
pub struct WatchFacts {
    /// The kinds that the API server does not serve.
    pub missing_kinds: Vec<String>,
    /// The served kinds that are similar to the missing ones.
    pub similar_kinds: Vec<String>,
    /// The kinds that are not synced yet.
    pub syncing_kinds: Vec<String>,
    /// The watches that the host itself lacks permissions for, with the commands that grant them.
    pub host_forbidden: Vec<String>,
    /// The API server's errors, each with its kind.
    pub errors: Vec<String>,
    /// The permissions without which the plugin sees nothing of a kind, with the commands that grant them.
    pub denied: Vec<String>,
    /// The kinds that the plugin sees only in some namespaces.
    pub partial: Vec<String>,
}

/// The facts that the host knows about one controller.
#[derive(Clone, Debug, Default)]
pub struct ControllerFacts {
    /// Its name in the manifest.
    pub name: String,
    /// The kind that it reconciles.
    pub kind: String,
    /// The number of keys that wait.
    pub queued: usize,
    /// The outcome of its reconciles.
    pub health: ControllerHealth,
    /// Its keys in hot loops.
    pub loops: Summary<ObjectKey>,
}

/// Computes the status; `now` is RFC 3339. A condition that does not change keeps its transition time.
pub fn status(facts: &Facts, previous: &PluginStatus, now: &str) -> PluginStatus {
    let ready = ready(facts);
    let degraded = degraded(facts);
    let summary = degraded.as_ref().unwrap_or(&ready.why).clone();
    let degraded = match degraded {
        Some(problem) => Holds { holds: true, why: problem },
        None => Holds::no(reasons::AS_EXPECTED, "nothing is wrong"),
    };
    let condition = |type_: &str, Holds { holds, why }: Holds| {
        let status = if holds { "True" } else { "False" };
        let before = previous.conditions.iter().find(|before| before.type_ == type_ && before.status == status);
        Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: why.reason.into(),
            message: why.message,
            last_transition_time: before.map_or_else(|| now.to_owned(), |before| before.last_transition_time.clone()),
            observed_generation: Some(facts.generation),
        }
    };
    PluginStatus {
        observed_generation: Some(facts.generation),
        digest: facts.loaded.as_ref().map(|code| code.digest.clone()),
        size_bytes: facts.loaded.as_ref().map(|code| i64::try_from(code.size_bytes).unwrap_or(i64::MAX)),
        reason: Some(summary.reason.into()),
        message: Some(summary.message),
        controllers: facts.controllers.iter().map(controller).collect(),
        usage: facts.usage.clone(),
        conditions: vec![
            condition(conditions::LOADED, loaded(facts)),
            condition(conditions::READY, ready),
            condition(conditions::DEGRADED, degraded),
        ],
        host: Some(facts.host.clone()),
        owner: previous.owner.clone(),
    }
}

/// Reports whether loading and syncing have ended, well or not.
pub fn is_settled(facts: &Facts) -> bool {
    let ready = ready(facts);
    let is_loading = facts.loaded.is_none() && facts.problems.load.is_none() && facts.problems.refusal.is_none();
    ready.holds || facts.suspended || !(is_loading || ready.why.reason == reasons::SYNCING)
}

/// Reports whether two statuses differ at most in counts, which change with every reconcile.
pub fn is_same_but_for_counts(one: &PluginStatus, other: &PluginStatus) -> bool {
    let without = |status: &PluginStatus| {
        let mut status = status.clone();
        status.usage = None;
        let replicas = status.owner.replicas.iter_mut();
        let of_replicas = replicas.flat_map(|replica| {
            replica.usage = None;
            &mut replica.controllers
        });
        for controller in of_replicas.chain(&mut status.controllers) {
            controller.reconciles = 0;
            controller.errors = 0;
            controller.queued = 0;
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

/// The value of a condition, with its reason and message.
struct Holds {
    holds: bool,
    why: Problem,
}

impl Holds {
    fn yes(reason: Reason, message: impl Into<String>) -> Self {
        Self { holds: true, why: Problem::new(reason, message) }
    }

    fn no(reason: Reason, message: impl Into<String>) -> Self {
        Self { holds: false, why: Problem::new(reason, message) }
    }
}

fn loaded(facts: &Facts) -> Holds {
    match (&facts.loaded, &facts.problems.load) {
        (Some(code), _) => Holds::yes(reasons::LOADED, format!("{} is loaded", code.digest)),
        (None, Some(problem)) => Holds { holds: false, why: problem.clone() },
        (None, None) if facts.problems.refusal.is_some() => {
            Holds::no(reasons::NOT_PERMITTED, "the component is not loaded: the Plugin may not run here")
        }
        (None, None) => Holds::no(reasons::LOADING, "the component is being loaded"),
    }
}

fn ready(facts: &Facts) -> Holds {
    if facts.suspended {
        return Holds::no(reasons::SUSPENDED, "spec.suspend is true");
    }
    if let Some(problem) = &facts.problems.refusal {
        return Holds { holds: false, why: problem.clone() };
    }
    if facts.loaded.is_none() {
        return Holds::no(reasons::NOT_LOADED, loaded(facts).why.message);
    }
    let config_problem = facts.problems.config.as_ref().filter(|_| !facts.running);
    if let Some(problem) = config_problem.or(facts.problems.setup.as_ref()) {
        return Holds { holds: false, why: problem.clone() };
    }
    let watches = &facts.watches;
    if !watches.missing_kinds.is_empty() {
        let kinds = watches.missing_kinds.join(", ");
        let similar = match &watches.similar_kinds[..] {
            [] => String::new(),
            similar => format!(" did you mean {}?", similar.join(", ")),
        };
        let message = format!("waiting for the API server to serve {kinds} (is the CRD installed?{similar})");
        return Holds::no(reasons::KIND_NOT_FOUND, message);
    }
    if let Some(why) = watch_problem(watches) {
        return Holds { holds: false, why };
    }
    if !watches.syncing_kinds.is_empty() {
        return Holds::no(
            reasons::SYNCING,
            format!("waiting for the first list of {}", watches.syncing_kinds.join(", ")),
        );
    }
    let names: Vec<&str> = facts.controllers.iter().map(|controller| controller.name.as_str()).collect();
    let partial = watches.partial.iter().map(|partial| format!("; {partial}")).collect::<String>();
    Holds::yes(reasons::RUNNING, format!("controllers: {}{partial}", names.join(", ")))
}

/// Returns the problem of the watches that a person has to solve.
fn watch_problem(watches: &WatchFacts) -> Option<Problem> {
    let problems = [
        (reasons::FORBIDDEN, &watches.denied),
        (reasons::HOST_FORBIDDEN, &watches.host_forbidden),
        (reasons::WATCH_FAILING, &watches.errors),
    ];
    let (reason, messages) = problems.into_iter().find(|(_, messages)| !messages.is_empty())?;
    Some(Problem::new(reason, messages.join("; ")))
}

fn degraded(facts: &Facts) -> Option<Problem> {
    let problems = &facts.problems;
    if let Some(problem) = &problems.refusal {
        return Some(problem.clone());
    }
    if let Some(problem) = &problems.load {
        let message = match &facts.loaded {
            Some(code) => format!("{}; still running {}", problem.message, code.digest),
            None => problem.message.clone(),
        };
        return Some(Problem::new(problem.reason, message));
    }
    if facts.suspended {
        return None;
    }
    if let Some(problem) = &problems.config {
        let still = if facts.running { "; still running with the previous configuration" } else { "" };
        return Some(Problem::new(problem.reason, format!("{}{still}", problem.message)));
    }
    if let Some(problem) = &problems.setup {
        return Some(problem.clone());
    }
    if let Some(problem) = watch_problem(&facts.watches) {
        return Some(problem);
    }
    let failing = facts.controllers.iter().find(|controller| controller.health.degraded);
    let failing = failing.and_then(|controller| controller.health.last_error.clone());
    let looping = |of: &ControllerFacts| hot_loop::problem(&of.name, &of.kind, &of.loops);
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
        let loaded = Some(LoadedCode { digest: "sha256:a".into(), size_bytes: 10 });
        Facts { generation: 3, loaded, running: true, controllers, ..Facts::default() }
    }

    #[test]
    fn each_state_has_its_conditions_and_reason() {
        let failing = ControllerHealth {
            failing: 1,
            last_error: Some(Problem::new(reasons::RECONCILE_TRAPPED, "it trapped")),
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
        let not_wasm = || Some(Problem::new(reasons::NOT_WASM, "no wasm"));
        let table: Vec<(Facts, [&str; 3], &str)> = vec![
            (running(), ["True", "True", "False"], "Running"),
            (Facts::default(), ["False", "False", "False"], "NotLoaded"),
            (
                Facts { problems: Problems { load: not_wasm(), ..Problems::default() }, ..Facts::default() },
                ["False", "False", "True"],
                "NotWasm",
            ),
            (
                Facts { problems: Problems { load: not_wasm(), ..Problems::default() }, ..running() },
                ["True", "True", "True"],
                "NotWasm",
            ),
            (
                Facts { problems: Problems { refusal: not_wasm(), ..Problems::default() }, ..running() },
                ["True", "False", "True"],
                "NotWasm",
            ),
            (
                Facts { problems: Problems { refusal: not_wasm(), ..Problems::default() }, ..Facts::default() },
                ["False", "False", "True"],
                "NotWasm",
            ),
            (
                Facts { watches: WatchFacts { denied: vec!["no".into()], ..WatchFacts::default() }, ..running() },
                ["True", "False", "True"],
                "Forbidden",
            ),
            (
                Facts { watches: WatchFacts { partial: vec!["only a".into()], ..WatchFacts::default() }, ..running() },
                ["True", "True", "False"],
                "Running",
            ),
            (Facts { suspended: true, ..running() }, ["True", "False", "False"], "Suspended"),
            (
                Facts {
                    watches: WatchFacts { missing_kinds: vec!["Foo".into()], ..WatchFacts::default() },
                    ..running()
                },
                ["True", "False", "False"],
                "KindNotFound",
            ),
            (
                Facts {
                    watches: WatchFacts { syncing_kinds: vec!["Foo".into()], ..WatchFacts::default() },
                    ..running()
                },
                ["True", "False", "False"],
                "Syncing",
            ),
            (
                Facts {
                    watches: WatchFacts { host_forbidden: vec!["nowhere".into()], ..WatchFacts::default() },
                    ..running()
                },
                ["True", "False", "True"],
                "HostForbidden",
            ),
            (
                Facts { watches: WatchFacts { errors: vec!["gone".into()], ..WatchFacts::default() }, ..running() },
                ["True", "False", "True"],
                "WatchFailing",
            ),
            (Facts { controllers: vec![failing], ..running() }, ["True", "True", "True"], "ReconcileTrapped"),
            (Facts { controllers: vec![looping], ..running() }, ["True", "True", "True"], "Quarantined"),
            (Facts { controllers: vec![both], ..running() }, ["True", "True", "True"], "ReconcileTrapped"),
            (
                Facts { problems: Problems { config: not_wasm(), ..Problems::default() }, ..running() },
                ["True", "True", "True"],
                "NotWasm",
            ),
            (
                Facts { problems: Problems { config: not_wasm(), ..Problems::default() }, running: false, ..running() },
                ["True", "False", "True"],
                "NotWasm",
            ),
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
    fn missing_kind_is_reported_with_the_similar_one() {
        let message = |similar: &[&str]| {
            let watches = WatchFacts {
                missing_kinds: vec!["Deploymnt.apps/v1".into()],
                similar_kinds: similar.iter().copied().map(str::to_owned).collect(),
                ..WatchFacts::default()
            };
            status(&Facts { watches, ..running() }, &PluginStatus::default(), "t").message.unwrap_or_default()
        };
        let waiting = "waiting for the API server to serve Deploymnt.apps/v1 (is the CRD installed?";
        assert_eq!(message(&[]), format!("{waiting})"));
        assert_eq!(message(&["Deployment in apps/v1"]), format!("{waiting} did you mean Deployment in apps/v1?)"));
    }

    #[test]
    fn unchanged_condition_keeps_its_transition_time() {
        let first = status(&running(), &PluginStatus::default(), "t1");
        let second = status(&running(), &first, "t2");
        assert_eq!(first, second);
        let third = status(&Facts { suspended: true, ..running() }, &second, "t3");
        let times: Vec<_> = third.conditions.iter().map(|condition| condition.last_transition_time.as_str()).collect();
        assert_eq!(times, ["t1", "t3", "t1"]);
    }

    #[test]
    fn counts_alone_do_not_change_the_status() {
        let before = status(&running(), &PluginStatus::default(), "t");
        let mut busy = running();
        busy.controllers[0].health.reconciles = 7;
        busy.usage = Some(Usage { calls: 3, ..Usage::default() });
        let counted = status(&busy, &before, "t");
        assert!(counted != before && is_same_but_for_counts(&counted, &before));
        let failing = status(
            &Facts { watches: WatchFacts { denied: vec!["no".into()], ..WatchFacts::default() }, ..busy },
            &before,
            "t",
        );
        assert!(!is_same_but_for_counts(&failing, &before));
    }
}
