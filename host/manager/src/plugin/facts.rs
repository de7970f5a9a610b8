//! Collecting the facts about a Plugin that its status shows.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::Ordering,
};

use operetta_core::{
    authz::access_review::{ServiceAccount, remedy},
    manifest::Controller,
    object::kind::GroupVersionKind,
};
use operetta_kube::{authz::filtered_view::FilteredView, client::object_api::Refusal, informer::Informer};

use crate::{
    plugin::{
        crd::Plugin,
        hosted_plugin::{HostedPlugin, State},
        running::Watching,
        running_shards::RunningShards,
        status::{ControllerFacts, Facts, LoadedCode, WatchFacts},
    },
    problem::Problem,
};

/// Collects the facts about a Plugin. `host` is the address of the admin endpoints.
pub fn facts(plugin: &Plugin, hosted: &HostedPlugin, state: &State, host: &str) -> Facts {
    hosted.health.begin_read();
    let running = state.running.as_ref();
    let refusal = running.and_then(RunningShards::refusal);
    let declared = state.component.iter().flat_map(|component| &component.manifest().controllers);
    let mut refused = None;
    let controllers: Vec<_> = declared
        .map(|controller| {
            let mut facts = controller_facts(controller, hosted, running);
            if let Some(refusal) = &refusal
                && add_remedy(&mut facts, refusal)
            {
                refused = Some(format!("{}: {}", refusal.message, refusal.remedy));
            }
            facts
        })
        .collect();
    let cached_bytes = hosted.cached_bytes.load(Ordering::Relaxed);
    Facts {
        generation: plugin.metadata.generation.unwrap_or_default(),
        suspended: plugin.spec.suspend,
        problems: state.problems.clone(),
        loaded: state
            .component
            .as_ref()
            .map(|component| LoadedCode { digest: component.digest().to_owned(), size_bytes: component.size() }),
        running: running.is_some(),
        watches: watch_facts(state, &controllers),
        refused,
        controllers,
        usage: running.and_then(RunningShards::metered).map(|metered| metered.usage(cached_bytes)),
        host: host.to_owned(),
    }
}

fn controller_facts(
    controller: &Controller,
    hosted: &HostedPlugin,
    running: Option<&RunningShards>,
) -> ControllerFacts {
    let name = &controller.name;
    ControllerFacts {
        name: name.clone(),
        kind: controller.for_.group_version_kind().to_string(),
        queued: running.map_or(0, |running| running.queued(name)),
        health: hosted.health.of(name),
        loops: running.map(|running| running.loops(name)).unwrap_or_default(),
    }
}

/// Adds the command that grants a refused permission to the error of a controller that failed because of it. Reports
/// whether it did.
fn add_remedy(facts: &mut ControllerFacts, refusal: &Refusal) -> bool {
    match &mut facts.health.last_error {
        Some(error) if error.message.contains(&refusal.message) => {
            *error = Problem::new(error.reason, format!("{}: {}", error.message, refusal.remedy));
            true
        }
        _ => false,
    }
}

/// Formats the kinds that may have been meant by missing ones: `Deployment in apps/v1`, and for which one if there are
/// several.
fn similar_kinds(state: &State) -> Vec<String> {
    let several = state.missing.kinds.len() > 1;
    let format = |(missing, similar): (&GroupVersionKind, &GroupVersionKind)| {
        let for_which = if several { format!(" for {missing}") } else { String::new() };
        format!("{} in {}{for_which}", similar.kind, similar.api_version)
    };
    state.missing.similar.iter().map(format).collect()
}

/// The views of sources that the host watches in single namespaces, by kind and selectors.
type ViewsByNamespace<'a> = BTreeMap<(String, &'a String, &'a String), Vec<&'a FilteredView>>;

fn watch_facts(state: &State, controllers: &[ControllerFacts]) -> WatchFacts {
    let missing_kinds = state.missing.kinds.iter().map(ToString::to_string).collect();
    let mut facts = WatchFacts { missing_kinds, similar_kinds: similar_kinds(state), ..WatchFacts::default() };
    let Some(running) = &state.running else { return facts };
    for (permission, remedy) in running.missing_rights() {
        add(&mut facts.denied, format!("{permission}: {remedy}"));
    }
    for controller in controllers {
        let mut whole = Vec::new();
        let mut by_namespace = ViewsByNamespace::new();
        for Watching { view, part } in running.views(&controller.name) {
            add_informer(view.informer(), &mut facts);
            let Informer { resource, scope, .. } = &**view.informer();
            if *part {
                let source = (resource.kind.to_string(), &scope.labels, &scope.fields);
                by_namespace.entry(source).or_default().push(view);
            } else {
                whole.push(view);
            }
        }
        whole.into_iter().for_each(|view| add_view(view, &mut facts));
        by_namespace.into_iter().for_each(|((kind, ..), views)| add_views_by_namespace(&kind, &views, &mut facts));
    }
    if running.reads_live() {
        let live =
            "reads of kinds that it does not watch are answered by the API server: its cacheBytes quota is used up";
        facts.partial.push(live.to_owned());
    }
    facts
}

fn add_informer(informer: &Informer, facts: &mut WatchFacts) {
    let state = informer.state().borrow().clone();
    let kind = informer.resource.kind.to_string();
    match state.error {
        Some(error) if state.forbidden => add(&mut facts.host_forbidden, host_forbidden(informer, &error)),
        Some(error) => add(&mut facts.errors, format!("{kind}: {error}")),
        None if !state.synced => add(&mut facts.syncing_kinds, kind),
        None => {}
    }
}

/// Describes what the host itself may not watch, with the command that grants it.
fn host_forbidden(informer: &Informer, error: &str) -> String {
    let resource = &informer.resource;
    let namespace = informer.scope.namespace.as_deref();
    let location = match namespace {
        Some(namespace) => format!(" in namespace {namespace:?}, nor in all namespaces"),
        None => String::new(),
    };
    let message = format!("the host itself may not list and watch {}{location}: {error}", resource.kind);
    let named = error.split_once("User \"system:serviceaccount:").and_then(|(_, rest)| rest.split_once('"'));
    let Some((home, name)) = named.and_then(|(account, _)| account.split_once(':')) else { return message };
    let account = ServiceAccount { namespace: home.to_owned(), name: name.to_owned() };
    let remedy = remedy(&account, "list,watch", (resource.kind.group(), &resource.plural), namespace);
    format!("{message}: {remedy}")
}

/// Adds the facts about a kind that the host may watch only in some namespaces.
fn add_views_by_namespace(kind: &str, views: &[&FilteredView], facts: &mut WatchFacts) {
    let states: Vec<_> = views.iter().map(|view| (view, view.state().borrow().clone())).collect();
    let seen: BTreeSet<&str> = states
        .iter()
        .filter(|(_, state)| state.whole)
        .filter_map(|(view, _)| view.informer().scope.namespace.as_deref())
        .collect();
    if let Some(error) = states.iter().find_map(|(_, state)| state.error.clone()) {
        add(&mut facts.errors, error);
    } else if states.iter().any(|(_, state)| !state.asked) {
        add(&mut facts.syncing_kinds, kind.to_owned());
    } else if let (true, Some((view, _))) = (seen.is_empty(), states.first()) {
        add_denial(view, facts);
    } else {
        let namespaces = seen.into_iter().collect::<Vec<_>>().join(", ");
        let partial = format!("sees {kind} in these namespaces only: {namespaces} (the host may not watch all)");
        add(&mut facts.partial, partial);
    }
}

fn add_view(view: &FilteredView, facts: &mut WatchFacts) {
    let state = view.state().borrow().clone();
    let kind = view.informer().resource.kind.to_string();
    if let Some(error) = state.error {
        add(&mut facts.errors, error);
    } else if !state.asked {
        add(&mut facts.syncing_kinds, kind);
    } else if !state.whole && state.visible.is_empty() {
        add_denial(view, facts);
    } else if !state.whole {
        let namespaces = state.visible.into_iter().collect::<Vec<_>>().join(", ");
        add(&mut facts.partial, format!("sees {kind} in these namespaces only: {namespaces}"));
    }
}

fn add_denial(view: &FilteredView, facts: &mut WatchFacts) {
    let (permission, remedy) = view.needs();
    add(&mut facts.denied, format!("{permission}: {remedy}"));
}

fn add(to: &mut Vec<String>, text: String) {
    if !to.contains(&text) {
        to.push(text);
    }
}
