//! The host reconciles Plugins: consent, source, code, controllers, status, in that order, each step only where something
//! changed.
//!
//! A Plugin whose source is gone, or that is gone itself, stops. A source that does not load leaves the code before it at
//! work. A kind that is not served is waited for. Whatever happens, the status says it in one sentence.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use k8s_openapi::{api::core::v1::ConfigMap, jiff::Timestamp};
use operetta_core::{
    grants::ServiceAccount,
    kind::GroupVersionKind,
    object::{Object, ObjectKey},
    operation::{Operation, OperationAction, PatchBody, WriteOptions},
    ports::{EventNote, EventSink, EventType, LogLevel, LogRecord, LogSink, ObjectApi, Reconciler},
    request::{Action, Failure, ReconcileRequest},
    status::{ApiError, ErrorKind},
};
use operetta_kube::{
    informer::{Informer, Scope, Subscription},
    view::View,
};
use operetta_wasm::{LoadError, Origin, Plugin as Component};
use serde_json::json;
use tokio::{sync::Mutex, task::JoinSet};

use super::{
    artifact, consent,
    crd::{self, Plugin},
    health::Health,
    parts::{PartsError, Split},
    running::{Running, Setup, SetupError},
    status::{Facts, Problem, status},
};
use crate::{host::Host, log_store::PluginLog};

/// How long parts of a ConfigMap may take to come before their absence is reported.
const PARTS_COME: Duration = Duration::from_secs(3);

/// All that the host keeps of one Plugin.
pub struct Slot {
    log: Arc<PluginLog>,
    health: Arc<Health>,
    /// Never contended: a key is not reconciled twice at once. It is a lock because others look at `running`.
    pub state: Mutex<State>,
}

/// Where a Plugin stands.
#[derive(Default)]
pub struct State {
    /// uid and resourceVersion of the source that was looked at last, and the key chosen in it.
    source: Option<(String, Option<String>)>,
    /// Tells when a source ConfigMap without the label changes: its name, the informer's subscription.
    source_watch: Option<(String, Subscription)>,
    /// Since when parts of the source are awaited; None while none are.
    incomplete: Option<Instant>,
    component: Option<Arc<Component>>,
    /// Why it may not run here.
    refusal: Option<Problem>,
    load_problem: Option<Problem>,
    setup_problem: Option<Problem>,
    /// The generation and digest that `running` was set up for.
    applied: Option<(i64, String)>,
    /// The controllers, while not suspended.
    pub running: Option<Running>,
    missing: Vec<GroupVersionKind>,
    /// Waits for `missing`; ends with this.
    waiter: JoinSet<()>,
}

/// Core's [`Reconciler`] for Plugins.
pub struct PluginController {
    host: Arc<Host>,
}

impl PluginController {
    /// Reconciles this host's Plugins.
    pub fn new(host: Arc<Host>) -> Arc<Self> {
        Arc::new(Self { host })
    }

    async fn reconcile_plugin(&self, key: &ObjectKey, plugin: &Plugin) -> Result<(), ApiError> {
        let slot = self.host.slot(key);
        let mut state = slot.state.lock().await;
        match self.permit(key, plugin).await? {
            Ok(account) => {
                state.refusal = None;
                self.load(key, plugin, &slot, &mut state).await?;
                if plugin.spec.suspend || state.component.is_none() {
                    self.stop(&slot, &mut state);
                } else {
                    self.set_up(key, plugin, account, &slot, &mut state).await?;
                }
            }
            Err(problem) => {
                if let Some(running) = &state.running {
                    running.close(&problem.message);
                }
                self.stop(&slot, &mut state);
                if state.refusal.as_ref() != Some(&problem) {
                    self.say(&slot, LogLevel::Error, problem.message.clone());
                    self.event(key, None, EventType::Warning, &problem.reason, problem.message.clone());
                }
                state.refusal = Some(problem);
            }
        }
        let facts = self.facts(plugin, &slot, &state);
        drop(state);
        self.write_status(key, &facts).await
    }

    /// As whom the Plugin may act.
    async fn permit(&self, key: &ObjectKey, plugin: &Plugin) -> Result<Result<ServiceAccount, Problem>, ApiError> {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        if let Err(problem) = consent::namespace_takes_part(namespace, self.host.namespace(namespace).await?.as_deref())
        {
            return Ok(Err(problem));
        }
        let account = match consent::named_account(key, plugin.spec.service_account_name.as_deref()) {
            Ok(account) => account,
            Err(problem) => return Ok(Err(problem)),
        };
        let found = self.host.service_account(&account).await?;
        Ok(consent::consents(&account, found.as_deref(), &key.name).map(|()| account))
    }

    fn stop(&self, slot: &Slot, state: &mut State) {
        if let Some(running) = state.running.take() {
            running.stop(self.host.shutdown_time());
        }
        (state.applied, state.setup_problem) = (None, None);
        state.missing.clear();
        state.waiter = JoinSet::new();
        slot.health.reset();
    }

    /// Makes `state.component` what the source holds.
    async fn load(&self, key: &ObjectKey, plugin: &Plugin, slot: &Slot, state: &mut State) -> Result<(), ApiError> {
        let source = &plugin.spec.source.config_map;
        let at = ObjectKey { namespace: key.namespace.clone(), name: source.name.clone() };
        let Some(found) = self.source_metadata(key, &at, state).await else {
            let message = format!(
                "ConfigMap {:?} does not exist in namespace {:?}",
                at.name,
                at.namespace.as_deref().unwrap_or("")
            );
            (state.component, state.source) = (None, None);
            self.refuse(key, &at, slot, state, Problem::new("SourceNotFound", message));
            return Ok(());
        };
        let parts = self.host.versions_of_parts(&at).await;
        let pin = plugin.spec.digest.as_deref();
        let version =
            format!("{}/{}{parts} {}", found.header.uid, found.header.resource_version, pin.unwrap_or_default());
        let version = (version, source.key.clone());
        if state.source.as_ref() == Some(&version) {
            return Ok(());
        }
        let config_map = match self.host.config_map(&at).await {
            Ok(config_map) => config_map,
            // Deleted since: its event comes.
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let config_map = match self.join_parts(config_map).await? {
            Ok(whole) => whole,
            Err(error @ PartsError::Incomplete { .. })
                if state.incomplete.is_none_or(|since| since.elapsed() < PARTS_COME) =>
            {
                // `kubectl apply` sends one after another: that is nothing to report.
                state.incomplete.get_or_insert_with(Instant::now);
                tracing::debug!(plugin = %key, %error, "waiting for parts");
                self.host.look_at_after(key, PARTS_COME);
                return Ok(());
            }
            Err(error) => {
                (state.source, state.incomplete) = (Some(version), None);
                self.refuse(key, &at, slot, state, Problem::new(error.reason(), error.to_string()));
                return Ok(());
            }
        };
        state.incomplete = None;
        let limit = self.host.config.max_wasm_bytes;
        let bytes = match artifact::component(&config_map, source.key.as_deref(), limit) {
            Ok(bytes) => bytes,
            Err(error) => {
                state.source = Some(version);
                self.refuse(key, &at, slot, state, Problem::new(error.reason(), error.to_string()));
                return Ok(());
            }
        };
        let digest = operetta_wasm::inspect(&bytes).digest;
        if let Some(pin) = pin.filter(|pin| *pin != digest) {
            let message = format!("the component's digest is {digest}, and spec.digest is {pin}: it is not run");
            state.source = Some(version);
            self.refuse(key, &at, slot, state, Problem::new("DigestMismatch", message));
            return Ok(());
        }
        if state.component.as_ref().is_some_and(|component| component.digest() == digest) {
            (state.source, state.load_problem) = (Some(version), None);
            return Ok(());
        }
        if state.component.is_none() {
            // Compiling takes seconds: say so meanwhile.
            state.load_problem = None;
            self.write_status(key, &self.facts(plugin, slot, state)).await?;
        }
        match Component::load(&self.host.engine, bytes, &self.host.config.load_limits(), slot.log.clone()).await {
            Ok(component) => {
                self.host.metrics.loaded("loaded");
                let provenance = component.provenance();
                self.host.metrics.obtained(&provenance);
                let how = match provenance.origin {
                    Origin::Cache => "its code was in the cache".to_owned(),
                    Origin::Here | Origin::Worker => format!("compiled in {:.1} s", provenance.took.as_secs_f32()),
                };
                let note = format!("loaded {digest}, {how}");
                self.say(slot, LogLevel::Info, note.clone());
                self.event(key, plugin.metadata.uid.clone(), EventType::Normal, "Loaded", note);
                state.component = Some(Arc::new(component));
                (state.source, state.load_problem) = (Some(version), None);
            }
            Err(LoadError::Busy(message)) => return Err(ApiError::new(ErrorKind::Unavailable, message)),
            Err(error) => {
                self.host.metrics.loaded(error.reason());
                state.source = Some(version);
                self.refuse(key, &at, slot, state, Problem::new(error.reason(), error.to_string()));
            }
        }
        Ok(())
    }

    /// The ConfigMap with the bytes of all its parts.
    async fn join_parts(&self, first: ConfigMap) -> Result<Result<ConfigMap, PartsError>, ApiError> {
        let split = match Split::of(&first) {
            Ok(Some(split)) => split,
            Ok(None) => return Ok(Ok(first)),
            Err(error) => return Ok(Err(error)),
        };
        let mut rest = Vec::new();
        for name in split.names() {
            let at = ObjectKey { namespace: first.metadata.namespace.clone(), name };
            rest.push(match self.host.config_map(&at).await {
                Ok(part) => Some(part),
                Err(error) if error.kind == ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            });
        }
        Ok(split.join(first, rest))
    }

    /// The source's metadata, from the informer of labelled ConfigMaps or from one of its own.
    async fn source_metadata(&self, key: &ObjectKey, at: &ObjectKey, state: &mut State) -> Option<Arc<Object>> {
        let labelled = self.host.labelled_config_maps();
        labelled.synced().await;
        if let Some(found) = labelled.cache.get(at) {
            state.source_watch = None;
            return Some(found);
        }
        if state.source_watch.as_ref().is_none_or(|(name, _)| *name != at.name) {
            let scope = Scope {
                namespace: at.namespace.clone(),
                fields: format!("metadata.name={}", at.name),
                metadata_only: true,
                ..Scope::everything()
            };
            let informer = self.host.registry.informer(&labelled.resource, scope);
            let (host, plugin) = (self.host.clone(), key.clone());
            let subscription = informer.subscribe(Arc::new(move |_| host.look_at(&plugin)), None);
            state.source_watch = Some((at.name.clone(), subscription));
        }
        let (_, subscription) = state.source_watch.as_ref()?;
        subscription.informer().synced().await;
        subscription.informer().cache.get(at)
    }

    /// Makes `state.running` what the code's manifest and the spec say.
    async fn set_up(
        &self,
        key: &ObjectKey,
        plugin: &Plugin,
        account: ServiceAccount,
        slot: &Slot,
        state: &mut State,
    ) -> Result<(), ApiError> {
        let Some(component) = state.component.clone() else { return Ok(()) };
        let generation = plugin.metadata.generation.unwrap_or_default();
        let wanted = (generation, component.digest().to_owned());
        if state.applied.as_ref() == Some(&wanted) && state.missing.is_empty() {
            return Ok(());
        }
        if state.applied.as_ref() != Some(&wanted) {
            slot.health.reset();
        }
        let setup = Setup {
            host: &self.host,
            key,
            spec: &plugin.spec,
            component: &component,
            log: &slot.log,
            health: &slot.health,
            grants: self.host.grants.of(account),
        };
        let running = state.running.get_or_insert_default();
        match running.update(&setup).await {
            Ok(missing) => {
                (state.applied, state.setup_problem) = (Some(wanted), None);
                self.wait_for(key, missing, state);
            }
            Err(SetupError::Refused(problem)) => {
                self.stop(slot, state);
                self.say(slot, LogLevel::Error, problem.message.clone());
                (state.applied, state.setup_problem) = (Some(wanted), Some(problem));
            }
            Err(SetupError::Unavailable(error)) => return Err(error),
        }
        Ok(())
    }

    fn wait_for(&self, key: &ObjectKey, missing: Vec<GroupVersionKind>, state: &mut State) {
        // Those that have found their kind are no reason not to wait: it may be gone again.
        while state.waiter.try_join_next().is_some() {}
        if state.missing == missing && state.waiter.len() == missing.len() {
            return;
        }
        state.waiter = JoinSet::new();
        state.missing.clone_from(&missing);
        for kind in missing {
            let (host, key) = (self.host.clone(), key.clone());
            state.waiter.spawn(async move {
                host.discovery.wait_for(&kind).await;
                host.look_at(&key);
            });
        }
    }

    fn facts(&self, plugin: &Plugin, slot: &Slot, state: &State) -> Facts {
        let refusal = state.running.as_ref().and_then(Running::refusal);
        let declared = state.component.iter().flat_map(|component| &component.manifest().controllers);
        let controllers: Vec<_> = declared
            .map(|controller| {
                let mut health = slot.health.of(&controller.name);
                // What RBAC forbade and the plugin failed for comes with what gives the right.
                if let (Some(error), Some(refusal)) = (&mut health.last_error, &refusal)
                    && error.message.contains(&refusal.message)
                {
                    error.message = Problem::new("", format!("{}: {}", error.message, refusal.remedy)).message;
                }
                (controller.name.clone(), controller.for_.group_version_kind().to_string(), health)
            })
            .collect();
        let mut facts = Facts {
            generation: plugin.metadata.generation.unwrap_or_default(),
            suspended: plugin.spec.suspend,
            loaded: state.component.as_ref().map(|component| (component.digest().to_owned(), component.size())),
            refusal: state.refusal.clone(),
            load_problem: state.load_problem.clone(),
            setup_problem: state.setup_problem.clone(),
            missing_kinds: state.missing.iter().map(ToString::to_string).collect(),
            host: self.host.admin_address(),
            ..Facts::default()
        };
        for view in
            state.running.iter().flat_map(|running| controllers.iter().flat_map(|(name, ..)| running.views(name)))
        {
            look_at_informer(view.informer(), &mut facts);
            look_at_view(view, &mut facts);
        }
        facts.controllers = controllers;
        facts
    }

    async fn write_status(&self, key: &ObjectKey, facts: &Facts) -> Result<(), ApiError> {
        // Not what this reconcile began with: it may have written since.
        let kept = self.host.plugins().cache.get(key).and_then(|kept| serde_json::from_str::<Plugin>(kept.json()).ok());
        let Some(kept) = kept else { return Ok(()) };
        let before = kept.status.unwrap_or_default();
        let now = status(facts, &before, &Timestamp::now().to_string());
        if now == before {
            return Ok(());
        }
        let body = PatchBody::Merge(json!({"status": now}).to_string());
        let (subresource, options) = (Some("status".to_owned()), WriteOptions::default());
        let action = OperationAction::Patch { key: key.clone(), subresource, body, force: false, options };
        let kind = GroupVersionKind::new(crd::API_VERSION, crd::KIND);
        match self.host.api.call(Operation { kind, action }).await {
            Err(error) if error.kind != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Keeps why the newest source was not loaded, and tells it once: in the log and as Events.
    fn refuse(&self, key: &ObjectKey, source: &ObjectKey, slot: &Slot, state: &mut State, problem: Problem) {
        if state.load_problem.as_ref() == Some(&problem) {
            return;
        }
        self.say(slot, LogLevel::Error, format!("not loaded: {}", problem.message));
        self.event(key, None, EventType::Warning, &problem.reason, problem.message.clone());
        if problem.reason != "SourceNotFound" {
            let regarding = GroupVersionKind::new("v1", "ConfigMap");
            let uid = self.host.labelled_config_maps().cache.get(source).map(|found| found.header.uid.clone());
            self.host.recorder.emit(note(
                regarding,
                source,
                uid,
                EventType::Warning,
                &problem.reason,
                problem.message.clone(),
            ));
        }
        state.load_problem = Some(problem);
    }

    fn event(&self, key: &ObjectKey, uid: Option<String>, event_type: EventType, reason: &str, text: String) {
        let uid = uid.or_else(|| self.host.plugins().cache.get(key).map(|plugin| plugin.header.uid.clone()));
        let regarding = GroupVersionKind::new(crd::API_VERSION, crd::KIND);
        self.host.recorder.emit(note(regarding, key, uid, event_type, reason, text));
    }

    fn say(&self, slot: &Slot, level: LogLevel, message: String) {
        slot.log.write(LogRecord { level, message, fields: vec![], reconcile: None });
    }
}

fn look_at_informer(informer: &Informer, facts: &mut Facts) {
    let state = informer.state().borrow().clone();
    let kind = informer.resource.kind.to_string();
    if let Some(error) = state.error {
        let error = format!("{kind}: {error}");
        if !facts.watch_errors.contains(&error) {
            facts.watch_errors.push(error);
        }
    } else if !state.synced && !facts.syncing_kinds.contains(&kind) {
        facts.syncing_kinds.push(kind);
    }
}

fn look_at_view(view: &View, facts: &mut Facts) {
    let state = view.state().borrow().clone();
    let kind = view.informer().resource.kind.to_string();
    let add = |to: &mut Vec<String>, text: String| {
        if !to.contains(&text) {
            to.push(text);
        }
    };
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

impl Slot {
    /// A Plugin that was not looked at yet.
    pub fn new(log: Arc<PluginLog>, health: Arc<Health>) -> Arc<Self> {
        Arc::new(Self { log, health, state: Mutex::default() })
    }
}

#[async_trait]
impl Reconciler for PluginController {
    async fn reconcile(&self, request: &ReconcileRequest) -> Result<Action, Failure> {
        let retry = |error: ApiError| Failure::Retry(error.to_string());
        let plugin = match self.host.plugins().cache.get(&request.key) {
            Some(object) if !object.header.deleting => object,
            _ => {
                self.host.forget(&request.key).await;
                return Ok(Action::Done);
            }
        };
        let plugin: Plugin = serde_json::from_str(plugin.json())
            .map_err(|error| Failure::Terminal(format!("Plugin {} is not as its CRD says: {error}", request.key)))?;
        self.reconcile_plugin(&request.key, &plugin).await.map_err(retry)?;
        Ok(Action::Done)
    }
}
