//! What the host has observed of a Plugin, for its status.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::Ordering,
};

use operetta_core::{
    authz::access_review::{ServiceAccount, remedy},
    hot_loop::Summary,
    manifest::{Controller, Namespaces},
    object::{ObjectKey, kind::GroupVersionKind},
    remedy::{Advice, Remedy},
};
use operetta_kube::{
    authz::filtered_view::{FilteredView, ViewState},
    client::object_api::Refusal,
    discovery::{ApiResource, Suggestion},
    informer::{Informer, Scope},
};

use crate::{
    authz::consent::grant_command,
    plugin::{
        crd::{KindFinalizers, Plugin, Usage},
        hosted_plugin::{HostedPlugin, Problems, State},
        process::state::ProcessState,
        setup::{running_shard::Watching, running_shards::RunningShards},
        source::state::Loading,
        status::{health::ControllerHealth, throttling::Waits},
        teardown::{Remaining, undeclared},
    },
    problem::Problem,
    tenancy::quotas::Quotas,
};

/// What the host knows about a Plugin, as the status shows it.
#[derive(Clone, Debug, Default)]
pub struct Observed {
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
    pub watches: ObservedWatches,
    /// The permission that a failed reconcile was refused, with the command that grants it.
    pub refused: Option<Advice>,
    /// Its controllers.
    pub controllers: Vec<ObservedController>,
    /// Its process, if the component is one.
    pub process: Option<ProcessState>,
    /// What it waits for, if it is throttled, or what it may not have of the host's cache.
    pub throttled: Option<String>,
    /// The finalizers that it was seen to set, and doesn't declare. None while its code is not known.
    pub finalizers: Option<Vec<KindFinalizers>>,
    /// The limits that it sets and does not get, because they are above the host's maximum.
    pub reduced_limits: Vec<String>,
    /// True while a version of its code waits for the compiler.
    pub waits_for_compiler: bool,
    /// What waits for it, if it is deleted.
    pub remaining: Option<Remaining>,
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
pub struct ObservedWatches {
    /// The kinds not served by the API server.
    pub missing_kinds: Vec<String>,
    /// The missing kinds that are served in other versions, each with these.
    pub other_versions: Vec<String>,
    /// The served kinds that are similar to the missing ones.
    pub similar_kinds: Vec<String>,
    /// The kinds that are not synced yet.
    pub syncing_kinds: Vec<String>,
    /// What the API server says while it asks to wait, each with its kind.
    pub throttled: Vec<Advice>,
    /// The watches that the host itself lacks permissions for, with the commands that grant them.
    pub host_forbidden: Vec<Advice>,
    /// The API server's errors, each with its kind.
    pub errors: Vec<Advice>,
    /// The `apiVersion`s of the kinds with such an error.
    pub failing_apis: BTreeSet<String>,
    /// The permissions without which the plugin sees nothing of a kind, with the commands that
    /// grant them.
    pub denied: Vec<Advice>,
    /// The kinds that the plugin sees only in some namespaces.
    pub partial: Vec<String>,
}

/// What the host knows about one controller.
#[derive(Clone, Debug, Default)]
pub struct ObservedController {
    /// Its name in the manifest.
    pub name: String,
    /// The kind that it reconciles.
    pub kind: String,
    /// The only namespace whose objects it reconciles; None for all.
    pub namespace: Option<String>,
    /// The number of queued keys.
    pub queued: usize,
    /// The outcome of its reconciles.
    pub health: ControllerHealth,
    /// Its keys in hot loops.
    pub loops: Summary<ObjectKey>,
}

/// Collects what the host knows about a Plugin. `host` is the address of the admin endpoints.
pub fn observe(
    plugin: &Plugin,
    hosted: &HostedPlugin,
    state: &State,
    quotas: &Quotas,
    host: &str,
) -> Observed {
    hosted.health.begin_read();
    let running = state.running.as_ref();
    let refusal = running.and_then(RunningShards::refusal);
    let declared = state
        .component
        .iter()
        .flat_map(|component| &component.manifest().controllers);
    let mut refused = None;

    let controllers: Vec<_> = declared
        .map(|controller| {
            let mut observed = observe_controller(controller, plugin, hosted, running);
            if let Some(refusal) = &refusal
                && add_remedy(&mut observed, refusal)
            {
                refused = Some(Advice::from(&*refusal.message).with(": ", refusal.remedy.clone()));
            }
            observed
        })
        .collect();

    let cached_bytes = hosted.cached_bytes.load(Ordering::Relaxed);
    let metered = running.and_then(RunningShards::metered);
    Observed {
        generation: plugin.metadata.generation.unwrap_or_default(),
        suspended: plugin.spec.suspend,
        problems: state.problems.clone(),
        loaded: state.component.as_ref().map(|component| LoadedCode {
            digest: component.digest().to_owned(),
            size_bytes: component.size(),
        }),
        running: running.is_some(),
        watches: observe_watches(plugin, state, &controllers),
        refused,
        controllers,
        process: running.and_then(RunningShards::process),
        reduced_limits: Vec::new(),
        throttled: throttled(plugin, hosted, running, quotas),
        finalizers: state.component.as_ref().map(|component| {
            let seen = hosted.finalizers.all();
            undeclared(component.manifest(), &plugin.spec, &seen)
        }),
        waits_for_compiler: state
            .source
            .loading
            .as_ref()
            .is_some_and(Loading::waits_for_compiler),
        remaining: None,
        usage: metered.map(|metered| metered.usage(cached_bytes)),
        host: host.to_owned(),
    }
}

/// Says which quotas make a plugin slow.
fn throttled(
    plugin: &Plugin,
    hosted: &HostedPlugin,
    running: Option<&RunningShards>,
    quotas: &Quotas,
) -> Option<String> {
    let running = running?;
    let namespace = plugin.metadata.namespace.as_deref().unwrap_or_default();
    let waits = running
        .metered()
        .and_then(|metered| hosted.throttling(Waits::of(metered)))
        .map(|throttled| throttled.message(quotas, namespace));
    let live = running.reads_live().then(|| {
        let is_own = quotas.plugin.cache_bytes.is_some();
        let path = quotas.path(is_own, namespace, "cacheBytes");
        format!(
            "reads of kinds that it does not watch are answered by the API server, because its cacheBytes quota is used up: use \
             selectors and prune, or raise {path} of the host's configuration"
        )
    });
    let process = running.watches_too_many().then(|| {
        "its process watches more kinds, or namespaces of a kind, than the 100 for which the host has a cache: the API server \
         answers the others; let it watch all namespaces at once"
            .to_owned()
    });

    let all: Vec<String> = [waits, live, process].into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join("; "))
}

fn observe_controller(
    controller: &Controller,
    plugin: &Plugin,
    hosted: &HostedPlugin,
    running: Option<&RunningShards>,
) -> ObservedController {
    let name = &controller.name;
    let is_own = controller.for_.namespaces == Namespaces::Own;
    ObservedController {
        name: name.clone(),
        kind: controller.for_.group_version_kind().to_string(),
        namespace: plugin.metadata.namespace.clone().filter(|_| is_own),
        queued: running.map_or(0, |running| running.queued(name)),
        health: hosted.health.of(name),
        loops: running
            .map(|running| running.loops(name))
            .unwrap_or_default(),
    }
}

/// Adds the command that grants a refused permission to the error of a controller that failed
/// because of it. Reports whether it did.
fn add_remedy(observed: &mut ObservedController, refusal: &Refusal) -> bool {
    match &mut observed.health.last_error {
        Some(error) if error.message.contains(&refusal.message) => {
            *error = Problem::new(
                error.reason,
                error.advice().with(": ", refusal.remedy.clone()),
            );
            true
        }
        _ => false,
    }
}

/// Formats the kinds that may have been meant by missing ones: `Deployment in apps/v1`, and for
/// which one if there are several.
fn similar_kinds(state: &State) -> Vec<String> {
    let several = state.missing.kinds.len() > 1;
    let format = |(missing, suggestion): (&GroupVersionKind, &Suggestion)| {
        let Suggestion::Similar(similar) = suggestion else {
            return None;
        };
        let for_which = if several {
            format!(" for {missing}")
        } else {
            String::new()
        };
        Some(format!(
            "{} in {}{for_which}",
            similar.kind, similar.api_version
        ))
    };
    state.missing.similar.iter().filter_map(format).collect()
}

/// Formats the missing kinds of which other versions are served.
fn other_versions(state: &State) -> Vec<String> {
    let format = |(missing, suggestion): (&GroupVersionKind, &Suggestion)| {
        let Suggestion::Versions(versions) = suggestion else {
            return None;
        };
        let group = match missing.group() {
            "" => "the core group",
            group => group,
        };
        Some(format!(
            "it serves {} of {group} in {}, not in {}",
            missing.kind,
            versions.join(", "),
            missing.version()
        ))
    };
    state.missing.similar.iter().filter_map(format).collect()
}

/// The views of sources that the host watches in single namespaces, by kind and selectors.
type ViewsByNamespace<'a> = BTreeMap<(String, &'a String, &'a String), Vec<&'a FilteredView>>;

fn observe_watches(
    plugin: &Plugin,
    state: &State,
    controllers: &[ObservedController],
) -> ObservedWatches {
    let missing_kinds = state
        .missing
        .kinds
        .iter()
        .map(ToString::to_string)
        .collect();
    let mut observed = ObservedWatches {
        missing_kinds,
        other_versions: other_versions(state),
        similar_kinds: similar_kinds(state),
        ..ObservedWatches::default()
    };
    let Some(running) = &state.running else {
        return observed;
    };

    for missing in running.missing_rights() {
        add(&mut observed.denied, missing);
    }
    for controller in controllers {
        let mut whole = Vec::new();
        let mut by_namespace = ViewsByNamespace::new();

        for Watching { view, part } in running.views(&controller.name) {
            add_informer(view.informer(), plugin, &mut observed);
            let Informer {
                resource, scope, ..
            } = &**view.informer();

            if *part {
                let source = (resource.kind.to_string(), &scope.labels, &scope.fields);
                by_namespace.entry(source).or_default().push(view);
            } else {
                whole.push(view);
            }
        }

        whole
            .into_iter()
            .for_each(|view| add_view(view, &mut observed));
        by_namespace
            .into_iter()
            .for_each(|((kind, ..), views)| add_views_by_namespace(&kind, &views, &mut observed));
    }

    observed
}

fn add_informer(informer: &Informer, plugin: &Plugin, observed: &mut ObservedWatches) {
    let state = informer.state().borrow().clone();
    let kind = informer.resource.kind.to_string();

    match state.error {
        Some(error) if state.forbidden => add(
            &mut observed.host_forbidden,
            host_forbidden(&informer.resource, &informer.scope, plugin, &error),
        ),
        Some(error) if state.throttled => {
            add(&mut observed.throttled, format!("{kind}: {error}").into());
        }
        Some(error) => {
            let api_version = &informer.resource.kind.api_version;
            observed.failing_apis.insert(api_version.clone());
            add(&mut observed.errors, format!("{kind}: {error}").into());
        }
        None if !state.synced => add(&mut observed.syncing_kinds, kind),
        None => {}
    }
}

/// Describes what the host itself may not watch, with the command that grants it.
fn host_forbidden(resource: &ApiResource, scope: &Scope, plugin: &Plugin, error: &str) -> Advice {
    let namespace = scope.namespace.as_deref();
    let location = match namespace {
        Some(namespace) => format!(" in namespace {namespace:?}, nor in all namespaces"),
        None => String::new(),
    };
    let message = format!(
        "the host itself may not list and watch {}{location}: {error}",
        resource.kind
    );
    let named = error
        .split_once("User \"system:serviceaccount:")
        .and_then(|(_, rest)| rest.split_once('"'));
    let Some((home, name)) = named.and_then(|(account, _)| account.split_once(':')) else {
        return message.into();
    };

    // A grant mirrors the names that were served when it was made.
    if let Some(renamed) = resource.renamed()
        && let Some(grant) = grant_anew(plugin, home, name)
    {
        let message = format!("{message}; {renamed}: an administrator grants it anew");
        return Advice::from(message).with(" with ", Some(grant));
    }

    let account = ServiceAccount {
        namespace: home.to_owned(),
        name: name.to_owned(),
    };
    let remedy = remedy(
        &account,
        "list,watch",
        (resource.kind.group(), &resource.plural),
        namespace,
    );
    Advice::from(message).with(": ", remedy)
}

/// Returns the command that grants the host, a ServiceAccount in `home`, what the plugin's may do now.
fn grant_anew(plugin: &Plugin, home: &str, host: &str) -> Option<Remedy> {
    let account = ServiceAccount {
        namespace: plugin.metadata.namespace.clone()?,
        name: plugin.spec.service_account_name.clone()?,
    };
    grant_command(&account, &format!("system:serviceaccount:{home}:{host}"))
}

/// Adds what is known about a kind that the host may watch only in some namespaces.
fn add_views_by_namespace(kind: &str, views: &[&FilteredView], observed: &mut ObservedWatches) {
    let states: Vec<_> = views
        .iter()
        .map(|view| (view, view.state().borrow().clone()))
        .collect();
    let seen: BTreeSet<&str> = states
        .iter()
        .filter(|(_, state)| state.whole)
        .filter_map(|(view, _)| view.informer().scope.namespace.as_deref())
        .collect();

    if let Some((_, state)) = states.iter().find(|(_, state)| state.error.is_some()) {
        add_review_error(state, observed);
    } else if states.iter().any(|(_, state)| !state.asked) {
        add(&mut observed.syncing_kinds, kind.to_owned());
    } else if let (true, Some((view, _))) = (seen.is_empty(), states.first()) {
        add_denial(view, observed);
    } else {
        let namespaces = seen.into_iter().collect::<Vec<_>>().join(", ");
        let partial = format!(
            "sees {kind} in these namespaces only: {namespaces} (the host may not watch all)"
        );
        add(&mut observed.partial, partial);
    }
}

/// Adds why the API server could not be asked for the permissions of a view.
fn add_review_error(state: &ViewState, observed: &mut ObservedWatches) {
    let errors = if state.throttled {
        &mut observed.throttled
    } else {
        &mut observed.errors
    };
    add(errors, state.error.clone().unwrap_or_default().into());
}

fn add_view(view: &FilteredView, observed: &mut ObservedWatches) {
    let state = view.state().borrow().clone();
    let kind = view.informer().resource.kind.to_string();

    if state.error.is_some() {
        add_review_error(&state, observed);
    } else if !state.asked {
        add(&mut observed.syncing_kinds, kind);
    } else if !state.whole && state.visible.is_empty() {
        add_denial(view, observed);
    } else if !state.whole {
        let namespaces = state.visible.into_iter().collect::<Vec<_>>().join(", ");
        add(
            &mut observed.partial,
            format!("sees {kind} in these namespaces only: {namespaces}"),
        );
    }
}

fn add_denial(view: &FilteredView, observed: &mut ObservedWatches) {
    add(&mut observed.denied, view.needs());
}

fn add<T: PartialEq>(to: &mut Vec<T>, new: T) {
    if !to.contains(&new) {
        to.push(new);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn grant_of_a_kind_with_another_name_is_made_anew() {
        let plugin: Plugin = serde_json::from_value(json!({
            "apiVersion": "operetta.dev/v1alpha1", "kind": "Plugin",
            "metadata": {"name": "p", "namespace": "team"},
            "spec": {"source": {"configMap": {"name": "code"}}, "serviceAccountName": "account"},
        }))
        .expect("a Plugin");
        let mut resource = ApiResource {
            kind: GroupVersionKind::new("example.com/v1", "Gadget"),
            plural: "gizmos".to_owned(),
            namespaced: true,
            subresources: Vec::new(),
            watchable: true,
            former_plural: None,
        };
        let error = r#"gizmos.example.com is forbidden: User "system:serviceaccount:operetta-system:operetta" cannot list"#;
        let said = |resource: &ApiResource| {
            host_forbidden(resource, &Scope::everything(), &plugin, error).text
        };

        let never_renamed = said(&resource);
        assert!(
            never_renamed.contains("kubectl create clusterrole"),
            "{never_renamed}"
        );
        resource.former_plural = Some("gadgets".to_owned());
        let renamed = said(&resource);
        assert!(
            renamed.contains("was served as gadgets before")
                && renamed.ends_with("anew with operetta grant account -n team"),
            "{renamed}"
        );
    }
}
