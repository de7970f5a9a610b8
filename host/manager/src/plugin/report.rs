//! What the host tells of a Plugin: its status, Events, and lines of its log.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::Ordering,
    time::Duration,
};

use k8s_openapi::jiff::Timestamp;
use operetta_core::{
    authz::access_review::{ServiceAccount, remedy},
    gate::operation::{Operation, OperationAction, PatchBody, WriteOptions},
    object::{ObjectKey, kind::GroupVersionKind},
    ports::{EventNote, EventSink, EventType, LogLevel, ObjectApi},
    status::{ApiError, ErrorKind},
};
use operetta_kube::{authz::filtered_view::View, informer::Informer};
use serde_json::json;

use crate::plugin::{
    crd::{self, Plugin},
    reconcile::PluginController,
    running::{Running, Watching},
    slot::{Slot, State},
    status::{ControllerFacts, Facts, Problem, same_but_for_counts, status},
};

/// How old the counts in a status may be, and thus how often a plugin that works has its status written.
const COUNTS: Duration = Duration::from_secs(60);

impl PluginController {
    pub(super) fn facts(&self, plugin: &Plugin, slot: &Slot, state: &State) -> Facts {
        let running = state.running.as_ref();
        let refusal = running.and_then(Running::refusal);
        let mut refused = None;
        let declared = state.component.iter().flat_map(|component| &component.manifest().controllers);
        let controllers: Vec<_> = declared
            .map(|controller| {
                let mut health = slot.health.of(&controller.name);
                // What RBAC forbade and the plugin failed for comes with what gives the right.
                if let (Some(error), Some(refusal)) = (&mut health.last_error, &refusal)
                    && error.message.contains(&refusal.message)
                {
                    error.message = Problem::new("", format!("{}: {}", error.message, refusal.remedy)).message;
                    refused = Some(format!("{}: {}", refusal.message, refusal.remedy));
                }
                let loops = running.map(|running| running.loops().look(&controller.name)).unwrap_or_default();
                ControllerFacts {
                    name: controller.name.clone(),
                    kind: controller.for_.group_version_kind().to_string(),
                    queued: running.map_or(0, |running| running.queued(&controller.name)),
                    health,
                    loops,
                }
            })
            .collect();
        let mut facts = Facts {
            generation: plugin.metadata.generation.unwrap_or_default(),
            suspended: plugin.spec.suspend,
            loaded: state.component.as_ref().map(|component| (component.digest().to_owned(), component.size())),
            refusal: state.refusal.clone(),
            load_problem: state.load_problem.clone(),
            config_problem: state.config_problem.clone(),
            setup_problem: state.setup_problem.clone(),
            running: running.is_some(),
            missing_kinds: state.missing.iter().map(ToString::to_string).collect(),
            usage: running
                .and_then(Running::metered)
                .map(|metered| metered.usage(slot.cached_bytes.load(Ordering::Relaxed))),
            refused,
            host: self.host.admin_address(),
            ..Facts::default()
        };
        for of in &controllers {
            let (mut whole, mut parts) = (Vec::new(), Parts::new());
            for Watching { view, part } in running.into_iter().flat_map(|running| running.views(&of.name)) {
                look_at_informer(view.informer(), &mut facts);
                let Informer { resource, scope, .. } = &**view.informer();
                let views = match part {
                    true => parts.entry((resource.kind.to_string(), &scope.labels, &scope.fields)).or_default(),
                    false => &mut whole,
                };
                views.push(view);
            }
            whole.into_iter().for_each(|view| look_at_view(view, &mut facts));
            parts.into_iter().for_each(|((kind, ..), views)| look_at_parts(&kind, &views, &mut facts));
        }
        if running.is_some_and(Running::reads_live) {
            let live =
                "reads of what it does not watch are answered by the API server: its quota of cacheBytes is used up";
            facts.partial.push(live.to_owned());
        }
        facts.controllers = controllers;
        facts
    }

    pub(super) async fn write_status(&self, key: &ObjectKey, slot: &Slot, facts: &Facts) -> Result<(), ApiError> {
        if facts.running {
            self.host.look_at_after(key, COUNTS);
        }
        // Not what this reconcile began with: it may have written since.
        let kept = self.host.plugins().cache.get(key).and_then(|kept| serde_json::from_str::<Plugin>(kept.json()).ok());
        let Some(kept) = kept else { return Ok(()) };
        let before = kept.status.unwrap_or_default();
        let now = status(facts, &before, &Timestamp::now().to_string());
        if now == before {
            return Ok(());
        }
        if same_but_for_counts(&now, &before) && !slot.is_status_older(COUNTS) {
            return Ok(());
        }
        slot.status_written();
        let body = PatchBody::Merge(json!({"status": now}).to_string());
        let (subresource, options) = (Some("status".to_owned()), WriteOptions::default());
        let action = OperationAction::Patch { key: key.clone(), subresource, body, force: false, options };
        let kind = GroupVersionKind::new(crd::API_VERSION, crd::KIND);
        match self.host.api.call(Operation { kind, action }).await {
            Err(error) if error.kind != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Tells once of each right that is missing.
    pub(super) fn tell_denied(&self, key: &ObjectKey, facts: &Facts, state: &mut State) {
        let lacks: Vec<String> = facts.denied.iter().chain(&facts.refused).cloned().collect();
        for right in lacks.iter().filter(|right| !state.told_denied.contains(right)) {
            self.event(key, None, EventType::Warning, "Forbidden", right.clone());
        }
        state.told_denied = lacks;
    }

    /// Keeps why the newest source was not loaded, and tells it once: in the log and as Events.
    pub(super) fn refuse(
        &self,
        key: &ObjectKey,
        config_map: Option<&ObjectKey>,
        slot: &Slot,
        state: &mut State,
        problem: Problem,
    ) {
        if state.load_problem.as_ref() == Some(&problem) {
            return;
        }
        self.warn(key, slot, &problem, "not loaded: ");
        if let Some(at) = config_map {
            let regarding = GroupVersionKind::new("v1", "ConfigMap");
            let uid = self.host.labelled_config_maps().cache.get(at).map(|found| found.uid().to_owned());
            let (reason, message) = (&problem.reason, problem.message.clone());
            self.host.recorder.emit(note(regarding, at, uid, EventType::Warning, reason, message));
        }
        state.load_problem = Some(problem);
    }

    /// Tells of a problem in the Plugin's log and as an Event.
    pub(super) fn warn(&self, key: &ObjectKey, slot: &Slot, problem: &Problem, what: &str) {
        self.say(slot, LogLevel::Error, format!("{what}{}", problem.message));
        self.event(key, None, EventType::Warning, &problem.reason, problem.message.clone());
    }

    pub(super) fn event(
        &self,
        key: &ObjectKey,
        uid: Option<String>,
        event_type: EventType,
        reason: &str,
        text: String,
    ) {
        let uid = uid.or_else(|| self.host.plugins().cache.get(key).map(|plugin| plugin.uid().to_owned()));
        let regarding = GroupVersionKind::new(crd::API_VERSION, crd::KIND);
        self.host.recorder.emit(note(regarding, key, uid, event_type, reason, text));
    }

    pub(super) fn say(&self, slot: &Slot, level: LogLevel, message: String) {
        slot.log.tell(level, message);
    }
}

fn look_at_informer(informer: &Informer, facts: &mut Facts) {
    let state = informer.state().borrow().clone();
    let kind = informer.resource.kind.to_string();
    match state.error {
        Some(error) if state.forbidden => add(&mut facts.out_of_reach, out_of_reach(informer, &error)),
        Some(error) => add(&mut facts.watch_errors, format!("{kind}: {error}")),
        None if !state.synced => add(&mut facts.syncing_kinds, kind),
        None => {}
    }
}

/// What the host itself may not watch, with the command that lets it.
fn out_of_reach(informer: &Informer, error: &str) -> String {
    let (resource, namespace) = (&informer.resource, informer.scope.namespace.as_deref());
    let place = match namespace {
        Some(namespace) => format!(" in namespace {namespace:?}, nor in all namespaces"),
        None => String::new(),
    };
    let may_not = format!("the host itself may not list and watch {}{place}: {error}", resource.kind);
    let named = error.split_once("User \"system:serviceaccount:").and_then(|(_, rest)| rest.split_once('"'));
    let Some((home, name)) = named.and_then(|(account, _)| account.split_once(':')) else { return may_not };
    let account = ServiceAccount { namespace: home.to_owned(), name: name.to_owned() };
    let remedy = remedy(&account, "list,watch", (resource.kind.group(), &resource.plural), namespace);
    format!("{may_not}: {remedy}")
}

/// The parts of a source by kind and selectors.
type Parts<'a> = BTreeMap<(String, &'a String, &'a String), Vec<&'a View>>;

/// What is seen of a kind that the host may watch in some namespaces only.
fn look_at_parts(kind: &str, views: &[&View], facts: &mut Facts) {
    let states: Vec<_> = views.iter().map(|view| (view, view.state().borrow().clone())).collect();
    let seen: BTreeSet<&str> = states
        .iter()
        .filter(|(_, state)| state.whole)
        .filter_map(|(view, _)| view.informer().scope.namespace.as_deref())
        .collect();
    if let Some(error) = states.iter().find_map(|(_, state)| state.error.clone()) {
        add(&mut facts.watch_errors, error);
    } else if states.iter().any(|(_, state)| !state.asked) {
        add(&mut facts.syncing_kinds, kind.to_owned());
    } else if let (true, Some((view, _))) = (seen.is_empty(), states.first()) {
        let (right, remedy) = view.needs();
        add(&mut facts.denied, format!("{right}: {remedy}"));
    } else {
        let namespaces = seen.into_iter().collect::<Vec<_>>().join(", ");
        let partial = format!("sees {kind} in these namespaces only: {namespaces} (the host may not watch all)");
        add(&mut facts.partial, partial);
    }
}

fn look_at_view(view: &View, facts: &mut Facts) {
    let state = view.state().borrow().clone();
    let kind = view.informer().resource.kind.to_string();
    if let Some(error) = state.error {
        add(&mut facts.watch_errors, error);
    } else if !state.asked {
        add(&mut facts.syncing_kinds, kind);
    } else if !state.whole && state.visible.is_empty() {
        let (right, remedy) = view.needs();
        add(&mut facts.denied, format!("{right}: {remedy}"));
    } else if !state.whole {
        let namespaces = state.visible.into_iter().collect::<Vec<_>>().join(", ");
        add(&mut facts.partial, format!("sees {kind} in these namespaces only: {namespaces}"));
    }
}

fn add(to: &mut Vec<String>, text: String) {
    if !to.contains(&text) {
        to.push(text);
    }
}

/// An Event of the host's own.
pub fn note(
    regarding: GroupVersionKind,
    key: &ObjectKey,
    uid: Option<String>,
    event_type: EventType,
    reason: &str,
    text: String,
) -> EventNote {
    let (reason, action) = (reason.to_owned(), String::new());
    EventNote { regarding, key: key.clone(), uid, event_type, reason, action, note: text }
}
