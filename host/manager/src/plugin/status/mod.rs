//! The status of a Plugin: a pure function of what the host has [`observed`].

pub mod health;
pub mod hot_loop;
mod long_run;
pub mod observed;
pub mod records;
pub mod report;
pub mod shards;
pub mod throttling;

use operetta_api::{
    conditions,
    reasons::{self, Reason},
};
use operetta_core::remedy::Advice;

use crate::{
    plugin::{
        crd::{CommandStatus, Condition, ControllerStatus, PluginStatus, RemedyStatus},
        process::state::ProcessState,
        status::observed::{Observed, ObservedController, ObservedWatches},
    },
    problem::Problem,
};

/// Computes the status; `now` is RFC 3339. A condition that does not change keeps its transition
/// time.
pub fn status(observed: &Observed, previous: &PluginStatus, now: &str) -> PluginStatus {
    let ready = ready(observed);
    let degraded = degraded(observed);
    let throttled = throttled(observed);
    let terminating = observed
        .remaining
        .as_ref()
        .map(|remaining| Problem::new(reasons::FINALIZERS_REMAIN, remaining.message()));
    // Nothing is wrong with a deleted or throttled plugin, but the summary says why it is still
    // there or slow.
    let summary = degraded
        .as_ref()
        .or(terminating.as_ref())
        .or((throttled.holds && ready.holds).then_some(&throttled.why))
        .unwrap_or(&ready.why)
        .clone();
    let degraded = match degraded {
        Some(problem) => Holds {
            holds: true,
            why: problem,
        },
        None => Holds::no(reasons::AS_EXPECTED, "nothing is wrong"),
    };

    let loaded = loaded(observed);
    let remedies = remedies([&summary, &loaded.why, &ready.why, &degraded.why]);

    let condition = |type_: &str, Holds { holds, why }: Holds| {
        let status = if holds { "True" } else { "False" };
        let before = previous
            .conditions
            .iter()
            .find(|before| before.type_ == type_ && before.status == status);
        Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: why.reason.into(),
            message: why.message,
            last_transition_time: before.map_or_else(
                || now.to_owned(),
                |before| before.last_transition_time.clone(),
            ),
            observed_generation: Some(observed.generation),
        }
    };

    let mut conditions = vec![
        condition(conditions::LOADED, loaded),
        condition(conditions::READY, ready),
        condition(conditions::DEGRADED, degraded),
    ];
    // Most plugins never wait, and have one condition less.
    let was_throttled = previous
        .conditions
        .iter()
        .any(|before| before.type_ == conditions::THROTTLED);
    if throttled.holds || was_throttled {
        conditions.push(condition(conditions::THROTTLED, throttled));
    }
    if let Some(why) = terminating {
        conditions.push(condition(
            conditions::TERMINATING,
            Holds { holds: true, why },
        ));
    }

    PluginStatus {
        observed_generation: Some(observed.generation),
        digest: observed.loaded.as_ref().map(|code| code.digest.clone()),
        size_bytes: observed
            .loaded
            .as_ref()
            .map(|code| i64::try_from(code.size_bytes).unwrap_or(i64::MAX)),
        reason: Some(summary.reason.into()),
        message: Some(summary.message),
        remedies,
        controllers: observed.controllers.iter().map(controller).collect(),
        process: observed.process.as_ref().map(ProcessState::status),
        finalizers: observed
            .finalizers
            .clone()
            .unwrap_or_else(|| previous.finalizers.clone()),
        usage: observed.usage.clone(),
        conditions,
        host: Some(observed.host.clone()),
        owner: previous.owner.clone(),
    }
}

/// Returns the commands in the messages of problems, each once.
fn remedies<'a>(problems: impl IntoIterator<Item = &'a Problem>) -> Vec<RemedyStatus> {
    let mut remedies: Vec<RemedyStatus> = Vec::new();
    for remedy in problems.into_iter().flat_map(|problem| &problem.remedies) {
        let commands = remedy.commands().iter().map(|command| CommandStatus {
            argv: command.arguments().to_vec(),
        });
        let remedy = RemedyStatus {
            commands: commands.collect(),
        };
        if !remedies.contains(&remedy) {
            remedies.push(remedy);
        }
    }
    remedies
}

/// Reports whether loading and syncing have ended, well or not.
pub fn is_settled(observed: &Observed) -> bool {
    let ready = ready(observed);
    let is_loading = observed.loaded.is_none()
        && observed.problems.load.is_none()
        && observed.problems.refusal.is_none();
    // The set-up is tried again.
    let is_pending = observed.problems.unavailable.is_some();
    ready.holds
        || observed.suspended
        || !(is_loading || is_pending || ready.why.reason == reasons::SYNCING)
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

fn controller(
    ObservedController {
        name,
        kind,
        namespace,
        queued,
        health,
        loops: _,
    }: &ObservedController,
) -> ControllerStatus {
    ControllerStatus {
        name: name.clone(),
        for_: kind.clone(),
        namespace: namespace.clone(),
        reconciles: i64::try_from(health.reconciles).unwrap_or(i64::MAX),
        errors: i64::try_from(health.errors).unwrap_or(i64::MAX),
        queued: i64::try_from(*queued).unwrap_or(i64::MAX),
        failing: i32::try_from(health.failing).unwrap_or(i32::MAX),
        last_error: health
            .last_error
            .as_ref()
            .map(|error| error.message.clone()),
    }
}

/// The value of a condition, with its reason and message.
struct Holds {
    holds: bool,
    why: Problem,
}

impl Holds {
    fn yes(reason: Reason, message: impl Into<Advice>) -> Self {
        Self {
            holds: true,
            why: Problem::new(reason, message),
        }
    }

    fn no(reason: Reason, message: impl Into<Advice>) -> Self {
        Self {
            holds: false,
            why: Problem::new(reason, message),
        }
    }
}

/// What a component waits for that waits for the compiler.
const COMPILER_BUSY: &str = "waits for the compiler: the host compiles one component of a namespace at a time, and of all \
                             namespaces one of less than 1 MiB and one larger";

fn loaded(observed: &Observed) -> Holds {
    match (&observed.loaded, &observed.problems.load) {
        (Some(code), _) if observed.waits_for_compiler => Holds::yes(
            reasons::LOADED,
            format!("{} is loaded; a newer version {COMPILER_BUSY}", code.digest),
        ),
        (Some(code), _) => Holds::yes(reasons::LOADED, format!("{} is loaded", code.digest)),
        (None, Some(problem)) => Holds {
            holds: false,
            why: problem.clone(),
        },
        (None, None) if observed.problems.refusal.is_some() => Holds::no(
            reasons::NOT_PERMITTED,
            "the component is not loaded: the Plugin may not run here",
        ),
        (None, None) if observed.waits_for_compiler => {
            Holds::no(reasons::LOADING, format!("the component {COMPILER_BUSY}"))
        }
        (None, None) => Holds::no(reasons::LOADING, "the component is being loaded"),
    }
}

fn ready(observed: &Observed) -> Holds {
    if observed.suspended {
        return Holds::no(reasons::SUSPENDED, "spec.suspend is true");
    }
    if let Some(problem) = &observed.problems.refusal {
        return Holds {
            holds: false,
            why: problem.clone(),
        };
    }

    // What runs already goes on.
    let unavailable = observed.problems.unavailable.as_ref();
    if let Some(problem) = unavailable.filter(|_| !observed.running) {
        return Holds {
            holds: false,
            why: problem.clone(),
        };
    }

    if observed.loaded.is_none() {
        return Holds::no(reasons::NOT_LOADED, loaded(observed).why.advice());
    }
    let config_problem = observed
        .problems
        .config
        .as_ref()
        .filter(|_| !observed.running);
    if let Some(problem) = config_problem.or(observed.problems.setup.as_ref()) {
        return Holds {
            holds: false,
            why: problem.clone(),
        };
    }

    let watches = &observed.watches;
    if !watches.missing_kinds.is_empty() {
        let kinds = watches.missing_kinds.join(", ");
        let similar = match &watches.similar_kinds[..] {
            [] => String::new(),
            similar => format!(" did you mean {}?", similar.join(", ")),
        };
        let hint = match &watches.other_versions[..] {
            [] => format!("is the CRD installed?{similar}"),
            versions => format!(
                "{}; serve that version again in its CustomResourceDefinition, or update the plugin{}",
                versions.join("; "),
                match similar.is_empty() {
                    true => String::new(),
                    false => format!(";{similar}"),
                }
            ),
        };
        let message = format!("waiting for the API server to serve {kinds} ({hint})");
        return Holds::no(reasons::KIND_NOT_FOUND, message);
    }

    if let Some(why) = watch_problem(watches) {
        return Holds { holds: false, why };
    }
    if !watches.throttled.is_empty() {
        return Holds::no(
            reasons::SYNCING,
            format!(
                "the API server asks to wait: {}",
                Advice::join(&watches.throttled, "; ")
            ),
        );
    }
    if !watches.syncing_kinds.is_empty() {
        return Holds::no(
            reasons::SYNCING,
            format!(
                "waiting for the first list of {}",
                watches.syncing_kinds.join(", ")
            ),
        );
    }

    let reduced = observed
        .reduced_limits
        .iter()
        .map(|reduced| format!("; {reduced}"))
        .collect::<String>();
    match &observed.process {
        Some(process) if process.is_running() => {
            return match process.unready() {
                None => Holds::yes(reasons::RUNNING, format!("the process runs{reduced}")),
                Some(why) => Holds::no(reasons::PROCESS_NOT_READY, why),
            };
        }
        Some(process) => {
            let why = process.waits();
            let why = why.unwrap_or_else(|| "the process does not run on this replica".to_owned());
            return Holds::no(reasons::PROCESS_ENDED, why);
        }
        None => {}
    }

    let names: Vec<&str> = observed
        .controllers
        .iter()
        .map(|controller| controller.name.as_str())
        .collect();
    let partial = watches
        .partial
        .iter()
        .map(|partial| format!("; {partial}"))
        .collect::<String>();

    Holds::yes(
        reasons::RUNNING,
        format!("controllers: {}{partial}{reduced}", names.join(", ")),
    )
}

fn throttled(observed: &Observed) -> Holds {
    match &observed.throttled {
        Some(message) if !observed.suspended => Holds::yes(reasons::THROTTLED, message.as_str()),
        _ => Holds::no(reasons::AS_EXPECTED, "it waits for no quota"),
    }
}

/// Returns the problem of the watches that a person has to solve.
fn watch_problem(watches: &ObservedWatches) -> Option<Problem> {
    let problems = [
        (reasons::FORBIDDEN, &watches.denied),
        (reasons::HOST_FORBIDDEN, &watches.host_forbidden),
        (reasons::WATCH_FAILING, &watches.errors),
    ];
    let (reason, all) = problems.into_iter().find(|(_, all)| !all.is_empty())?;
    Some(Problem::new(reason, Advice::join(all, "; ")))
}

fn degraded(observed: &Observed) -> Option<Problem> {
    let problems = &observed.problems;
    if let Some(problem) = &problems.refusal {
        return Some(problem.clone());
    }
    if let Some(problem) = &problems.load {
        return Some(match &observed.loaded {
            Some(code) => problem.and(&format!("; still running {}", code.digest)),
            None => problem.clone(),
        });
    }

    if observed.suspended {
        return None;
    }
    if let Some(problem) = &problems.config {
        let still = if observed.running {
            "; still running with the previous configuration"
        } else {
            ""
        };
        return Some(problem.and(still));
    }

    if let Some(problem) = &problems.setup {
        return Some(problem.clone());
    }
    // An API server that asks to wait is not broken.
    let unavailable = problems.unavailable.as_ref();
    if let Some(problem) = unavailable.filter(|problem| problem.reason != reasons::SYNCING) {
        let still = if observed.running {
            "; still running what was set up before"
        } else {
            ""
        };
        return Some(Problem::new(
            problem.reason,
            format!("{}{still}", problem.message),
        ));
    }
    if let Some(problem) = watch_problem(&observed.watches) {
        return Some(problem);
    }

    if let Some(why) = observed.process.as_ref().and_then(ProcessState::waits) {
        return Some(Problem::new(reasons::PROCESS_ENDED, why));
    }

    let failing = observed
        .controllers
        .iter()
        .find(|controller| controller.health.degraded);
    let failing = failing.and_then(|controller| controller.health.last_error.clone());
    let looping = |of: &ObservedController| hot_loop::problem(&of.name, &of.kind, &of.loops);
    failing.or_else(|| observed.controllers.iter().find_map(looping))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use operetta_core::{
        hot_loop::{Looping, Stage, Summary},
        object::ObjectKey,
    };

    use super::*;
    use crate::plugin::{
        crd::{KindFinalizers, Usage},
        hosted_plugin::Problems,
        status::health::ControllerHealth,
        status::observed::LoadedCode,
    };

    fn running() -> Observed {
        let controllers = vec![ObservedController {
            name: "c".into(),
            kind: "Pod.v1".into(),
            ..ObservedController::default()
        }];
        let loaded = Some(LoadedCode {
            digest: "sha256:a".into(),
            size_bytes: 10,
        });
        Observed {
            generation: 3,
            loaded,
            running: true,
            controllers,
            ..Observed::default()
        }
    }

    #[test]
    fn finalizers_are_kept_until_the_code_is_known() {
        let finalizers = vec![KindFinalizers {
            api_version: "example.com/v1".to_owned(),
            kind: "Foo".to_owned(),
            finalizers: vec!["example.com/cleanup".to_owned()],
        }];
        let before = PluginStatus {
            finalizers: finalizers.clone(),
            ..PluginStatus::default()
        };
        assert_eq!(status(&running(), &before, "t").finalizers, finalizers);

        let declared = Observed {
            finalizers: Some(Vec::new()),
            ..running()
        };
        assert!(status(&declared, &before, "t").finalizers.is_empty());
    }

    #[test]
    fn component_that_waits_for_the_compiler_says_so() {
        let loads = Observed {
            waits_for_compiler: true,
            ..Observed::default()
        };
        let now = status(&loads, &PluginStatus::default(), "t0");
        assert_eq!(now.reason.as_deref(), Some("NotLoaded"));
        let message = now.message.unwrap_or_default();
        assert!(
            message.starts_with("the component waits for the compiler"),
            "{message}"
        );

        let updated = Observed {
            waits_for_compiler: true,
            ..running()
        };
        let now = status(&updated, &PluginStatus::default(), "t0");
        let loaded = &now.conditions[0];
        assert_eq!(loaded.status, "True");
        assert!(
            loaded
                .message
                .contains("sha256:a is loaded; a newer version waits"),
            "{}",
            loaded.message
        );
    }

    #[test]
    fn throttled_plugin_is_ready_and_says_what_it_waits_for() {
        let throttled = Observed {
            throttled: Some("it waits".to_owned()),
            ..running()
        };
        let of = |status: &PluginStatus| -> Vec<String> {
            let conditions = status.conditions.iter();
            conditions
                .map(|one| format!("{}={}", one.type_, one.status))
                .collect()
        };

        let before = status(&running(), &PluginStatus::default(), "t0");
        assert_eq!(of(&before), ["Loaded=True", "Ready=True", "Degraded=False"]);
        let now = status(&throttled, &before, "t1");
        assert_eq!(
            of(&now)[1..],
            ["Ready=True", "Degraded=False", "Throttled=True"]
        );
        assert_eq!(
            (now.reason.as_deref(), now.message.as_deref()),
            (Some("Throttled"), Some("it waits"))
        );

        let after = status(&running(), &now, "t2");
        assert_eq!(of(&after)[3], "Throttled=False");
        assert_eq!(after.reason.as_deref(), Some("Running"));
    }

    #[test]
    fn controller_of_one_namespace_names_it() {
        let mut observed = running();
        let all = status(&observed, &PluginStatus::default(), "t0");
        assert_eq!(all.controllers[0].namespace, None);

        observed.controllers[0].namespace = Some("team".to_owned());
        let own = status(&observed, &all, "t1");
        assert_eq!(own.controllers[0].namespace.as_deref(), Some("team"));
        assert!(!is_same_but_for_counts(&all, &own));
    }

    #[test]
    fn each_state_has_its_conditions_and_reason() {
        let failing = ControllerHealth {
            failing: 1,
            last_error: Some(Problem::new(reasons::RECONCILE_TRAPPED, "it trapped")),
            degraded: true,
            ..ControllerHealth::default()
        };
        let failing = ObservedController {
            health: failing,
            ..running().controllers[0].clone()
        };
        let stage = Stage::Quarantined;
        let how = Looping {
            stage,
            runs: 44,
            by_write: 44,
            by_requeue: 0,
            within: Duration::from_secs(300),
        };
        let worst = Some((ObjectKey::namespaced("n", "a"), how));

        let loops = Summary {
            slowed: 0,
            quarantined: 1,
            worst,
        };
        let looping = ObservedController {
            loops: loops.clone(),
            ..running().controllers[0].clone()
        };
        let both = ObservedController {
            loops,
            ..failing.clone()
        };
        let not_wasm = || Some(Problem::new(reasons::NOT_WASM, "no wasm"));
        let unavailable = |reason| Some(Problem::new(reason, "service unavailable"));

        let table: Vec<(Observed, [&str; 3], &str)> = vec![
            (running(), ["True", "True", "False"], "Running"),
            (
                Observed::default(),
                ["False", "False", "False"],
                "NotLoaded",
            ),
            (
                Observed {
                    problems: Problems {
                        load: not_wasm(),
                        ..Problems::default()
                    },
                    ..Observed::default()
                },
                ["False", "False", "True"],
                "NotWasm",
            ),
            (
                Observed {
                    problems: Problems {
                        load: not_wasm(),
                        ..Problems::default()
                    },
                    ..running()
                },
                ["True", "True", "True"],
                "NotWasm",
            ),
            (
                Observed {
                    problems: Problems {
                        unavailable: unavailable(reasons::API_UNAVAILABLE),
                        ..Problems::default()
                    },
                    running: false,
                    ..running()
                },
                ["True", "False", "True"],
                "APIUnavailable",
            ),
            (
                Observed {
                    problems: Problems {
                        unavailable: unavailable(reasons::API_UNAVAILABLE),
                        ..Problems::default()
                    },
                    ..Observed::default()
                },
                ["False", "False", "True"],
                "APIUnavailable",
            ),
            (
                Observed {
                    problems: Problems {
                        unavailable: unavailable(reasons::API_UNAVAILABLE),
                        ..Problems::default()
                    },
                    ..running()
                },
                ["True", "True", "True"],
                "APIUnavailable",
            ),
            (
                Observed {
                    problems: Problems {
                        unavailable: unavailable(reasons::SYNCING),
                        ..Problems::default()
                    },
                    running: false,
                    ..running()
                },
                ["True", "False", "False"],
                "Syncing",
            ),
            (
                Observed {
                    watches: ObservedWatches {
                        throttled: vec!["Foo.x/v1: storage is (re)initializing".into()],
                        syncing_kinds: vec!["Bar".into()],
                        ..ObservedWatches::default()
                    },
                    ..running()
                },
                ["True", "False", "False"],
                "Syncing",
            ),
            (
                Observed {
                    problems: Problems {
                        refusal: not_wasm(),
                        ..Problems::default()
                    },
                    ..running()
                },
                ["True", "False", "True"],
                "NotWasm",
            ),
            (
                Observed {
                    problems: Problems {
                        refusal: not_wasm(),
                        ..Problems::default()
                    },
                    ..Observed::default()
                },
                ["False", "False", "True"],
                "NotWasm",
            ),
            (
                Observed {
                    watches: ObservedWatches {
                        denied: vec!["no".into()],
                        ..ObservedWatches::default()
                    },
                    ..running()
                },
                ["True", "False", "True"],
                "Forbidden",
            ),
            (
                Observed {
                    watches: ObservedWatches {
                        partial: vec!["only a".into()],
                        ..ObservedWatches::default()
                    },
                    ..running()
                },
                ["True", "True", "False"],
                "Running",
            ),
            (
                Observed {
                    suspended: true,
                    ..running()
                },
                ["True", "False", "False"],
                "Suspended",
            ),
            (
                Observed {
                    watches: ObservedWatches {
                        missing_kinds: vec!["Foo".into()],
                        ..ObservedWatches::default()
                    },
                    ..running()
                },
                ["True", "False", "False"],
                "KindNotFound",
            ),
            (
                Observed {
                    watches: ObservedWatches {
                        syncing_kinds: vec!["Foo".into()],
                        ..ObservedWatches::default()
                    },
                    ..running()
                },
                ["True", "False", "False"],
                "Syncing",
            ),
            (
                Observed {
                    watches: ObservedWatches {
                        host_forbidden: vec!["nowhere".into()],
                        ..ObservedWatches::default()
                    },
                    ..running()
                },
                ["True", "False", "True"],
                "HostForbidden",
            ),
            (
                Observed {
                    watches: ObservedWatches {
                        errors: vec!["gone".into()],
                        ..ObservedWatches::default()
                    },
                    ..running()
                },
                ["True", "False", "True"],
                "WatchFailing",
            ),
            (
                Observed {
                    controllers: vec![failing],
                    ..running()
                },
                ["True", "True", "True"],
                "ReconcileTrapped",
            ),
            (
                Observed {
                    controllers: vec![looping],
                    ..running()
                },
                ["True", "True", "True"],
                "Quarantined",
            ),
            (
                Observed {
                    controllers: vec![both],
                    ..running()
                },
                ["True", "True", "True"],
                "ReconcileTrapped",
            ),
            (
                Observed {
                    problems: Problems {
                        config: not_wasm(),
                        ..Problems::default()
                    },
                    ..running()
                },
                ["True", "True", "True"],
                "NotWasm",
            ),
            (
                Observed {
                    problems: Problems {
                        config: not_wasm(),
                        ..Problems::default()
                    },
                    running: false,
                    ..running()
                },
                ["True", "False", "True"],
                "NotWasm",
            ),
        ];
        for (observed, conditions, reason) in table {
            let status = status(&observed, &PluginStatus::default(), "t");
            let found: Vec<_> = status
                .conditions
                .iter()
                .map(|condition| condition.status.as_str())
                .collect();
            assert_eq!(
                (found.as_slice(), status.reason.as_deref()),
                (conditions.as_slice(), Some(reason)),
                "{observed:?}"
            );
        }
    }

    #[test]
    fn missing_kind_is_reported_with_the_similar_one() {
        let message = |similar: &[&str]| {
            let watches = ObservedWatches {
                missing_kinds: vec!["Deploymnt.apps/v1".into()],
                similar_kinds: similar.iter().copied().map(str::to_owned).collect(),
                ..ObservedWatches::default()
            };
            status(
                &Observed {
                    watches,
                    ..running()
                },
                &PluginStatus::default(),
                "t",
            )
            .message
            .unwrap_or_default()
        };

        let waiting =
            "waiting for the API server to serve Deploymnt.apps/v1 (is the CRD installed?";
        assert_eq!(message(&[]), format!("{waiting})"));
        assert_eq!(
            message(&["Deployment in apps/v1"]),
            format!("{waiting} did you mean Deployment in apps/v1?)")
        );
    }

    #[test]
    fn version_that_is_not_served_is_reported_with_those_that_are() {
        let watches = ObservedWatches {
            missing_kinds: vec!["Foo.example.com/v1alpha1".into()],
            other_versions: vec!["it serves Foo of example.com in v1, not in v1alpha1".into()],
            ..ObservedWatches::default()
        };
        let observed = Observed {
            watches,
            ..running()
        };
        let now = status(&observed, &PluginStatus::default(), "t");
        assert_eq!(now.reason.as_deref(), Some("KindNotFound"));
        assert_eq!(
            now.message.as_deref(),
            Some(
                "waiting for the API server to serve Foo.example.com/v1alpha1 (it serves Foo of example.com in v1, not in v1alpha1; \
                 serve that version again in its CustomResourceDefinition, or update the plugin)"
            )
        );
    }

    #[test]
    fn unchanged_condition_keeps_its_transition_time() {
        let first = status(&running(), &PluginStatus::default(), "t1");
        let second = status(&running(), &first, "t2");
        assert_eq!(first, second);

        let third = status(
            &Observed {
                suspended: true,
                ..running()
            },
            &second,
            "t3",
        );
        let times: Vec<_> = third
            .conditions
            .iter()
            .map(|condition| condition.last_transition_time.as_str())
            .collect();
        assert_eq!(times, ["t1", "t3", "t1"]);
    }

    #[test]
    fn counts_alone_do_not_change_the_status() {
        let before = status(&running(), &PluginStatus::default(), "t");
        let mut busy = running();
        busy.controllers[0].health.reconciles = 7;
        busy.usage = Some(Usage {
            calls: 3,
            ..Usage::default()
        });

        let counted = status(&busy, &before, "t");
        assert!(counted != before && is_same_but_for_counts(&counted, &before));

        let failing = status(
            &Observed {
                watches: ObservedWatches {
                    denied: vec!["no".into()],
                    ..ObservedWatches::default()
                },
                ..busy
            },
            &before,
            "t",
        );
        assert!(!is_same_but_for_counts(&failing, &before));
    }
}
