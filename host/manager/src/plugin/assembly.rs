//! Assembling a plugin's code with its identity: the API, the gate, the sandbox and the scheduler around one reconciler.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use operetta_api::reasons;
use operetta_core::{
    authz::{
        access_review::ServiceAccount,
        recorded_permissions::{Need, RecordedPermissions},
        refused_calls::RefusedCalls,
    },
    gate::{
        Gate, Shared,
        audit::{Audit, Writer},
        operation::Verb,
        revocation::Revocation,
        throttle::Throttle,
    },
    hot_loop::HotLoops,
    ports::Reconciler,
    recorder::record::Source,
    replicas::Shard,
};
use operetta_kube::{
    authz::required_permissions::RecordingEvents,
    client::object_api::{PluginApi, PluginIdentity, Watched},
    events::recorder::EventRecorder,
};
use operetta_scheduler::{Account, FairReconciler};
use operetta_wasm::{PluginMapper, PluginReconciler};

use crate::{
    plugin::{
        crd::{ConfigSource, Usage, warm_limits},
        fenced::FencedReconciler,
        mapping_stage::Mapping,
        setup::{Setup, SetupError},
        traced::TracedReconciler,
        wiring::WiredController,
    },
    problem::Problem,
};

/// The time that reconciles in flight on replaced code have to end; their later calls are refused.
pub const DRAIN: Duration = Duration::from_secs(1);

/// A plugin's identity and its access to the API server.
pub(super) struct Identity {
    /// The recorder of its Events; kept while the ServiceAccount stays, because it aggregates.
    recorder: Option<Recorder>,
    /// The code that reconciles now.
    current: Option<Generation>,
    /// The API behind the gate.
    pub(super) api: Option<Arc<PluginApi>>,
    /// The recorded permissions of its calls, across code swaps.
    pub(super) recorded: Arc<RecordedPermissions>,
    /// Its calls that RBAC refused, across code swaps.
    pub(super) refused: Arc<RefusedCalls>,
}

impl Identity {
    /// Creates an identity before any code runs. `recorded` has the permissions of the plugin's calls.
    pub(super) fn new(recorded: Arc<RecordedPermissions>) -> Self {
        Self { recorder: None, current: None, api: None, recorded, refused: Arc::default() }
    }

    /// Returns the ServiceAccount of the code that reconciles now.
    pub(super) fn account(&self) -> Option<&ServiceAccount> {
        self.current.as_ref().map(|current| &current.account)
    }
}

/// The recorder of a plugin's Events, and the identity that it writes them under.
struct Recorder {
    account: ServiceAccount,
    revocation: Arc<Revocation>,
    recorder: Arc<EventRecorder>,
}

/// A version of the code, with the gate that its reconciles pass.
struct Generation {
    account: ServiceAccount,
    digest: String,
    gate: Arc<Gate>,
}

impl Generation {
    /// Closes the gate of a replaced version. If the ServiceAccount has changed, it closes at once, because the consent
    /// of the old account is not watched any more. If the code has changed, it closes after [`DRAIN`]. If only the
    /// configuration has changed, it stays open: reconciles in flight end with the old configuration.
    fn retire(self, setup: &Setup<'_>) {
        if self.account != *setup.grants.subject() {
            self.gate.close("the plugin acts as another ServiceAccount now");
        } else if self.digest != setup.component.digest() {
            tokio::spawn(async move {
                tokio::time::sleep(DRAIN).await;
                self.gate.close("the plugin's code was replaced");
            });
        }
    }
}

/// The account and the throttle of a plugin.
#[derive(Clone)]
pub struct Metered {
    /// The account of processor time.
    pub account: Arc<Account>,
    /// The rate limiters and counts of its calls.
    pub throttle: Throttle,
}

impl Metered {
    /// Returns the usage, as the Plugin's status shows it.
    pub fn usage(&self, cached_bytes: u64) -> Usage {
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let meter = &self.throttle.meter;
        Usage {
            cpu_milliseconds: i64::try_from(self.account.usage().polled.as_millis()).unwrap_or(i64::MAX),
            peak_memory_bytes: number(meter.peak_memory_bytes.load(Ordering::Relaxed)),
            calls: number(Verb::ALL.iter().map(|verb| meter.calls(*verb)).sum()),
            cached_bytes: number(cached_bytes),
        }
    }
}

/// A plugin's code, ready to be called.
pub(super) struct Code {
    /// The reconciler, on the plugin's share of the processors.
    pub(super) reconciler: Arc<dyn Reconciler>,
    /// The plugin's own mapping of events, if it has one.
    pub(super) mapping: Option<Mapping>,
}

/// Returns the field manager of a plugin's writes.
fn field_manager(setup: &Setup<'_>) -> String {
    format!("operetta:{}", setup.key)
}

/// Prepares the plugin's access to the API server, and records what the host has read for it already.
///
/// # Errors
/// When the ServiceAccount's name cannot be impersonated.
pub(super) fn connect(
    setup: &Setup<'_>,
    own: &Identity,
    controllers: &[WiredController],
    metered: &Metered,
) -> Result<Arc<PluginApi>, SetupError> {
    let cluster = &setup.context.cluster;
    let identity = PluginIdentity {
        grants: setup.grants.clone(),
        recorded: own.recorded.clone(),
        refused: own.refused.clone(),
        revocation: setup.revocation.child(),
        epoch: setup.epoch,
        throttle: metered.throttle.clone(),
        field_manager: field_manager(setup),
    };
    let api =
        PluginApi::of_plugin(cluster.client.clone(), cluster.discovery.clone(), cluster.registry.clone(), identity);
    let api =
        api.map_err(|error| SetupError::Refused(Problem::new(reasons::INVALID_SERVICE_ACCOUNT, error.status.message)))?;
    let informers = controllers.iter().flat_map(|controller| &controller.wiring);
    let informers = informers.map(|wiring| wiring.informer.clone()).collect();
    api.watch(Watched::new(informers, setup.component.manifest().indexes.clone()));
    for (kind, reference) in setup.spec.config_from.iter().filter_map(ConfigSource::chosen) {
        let need = Need::resource("get", "", kind.resource(), setup.key.namespace.as_deref());
        own.recorded.note(&need, Some(&reference.name));
    }
    Ok(api)
}

/// The parts that outlive a version of the code.
#[derive(Clone, Copy)]
pub(super) struct Assembly<'a> {
    /// The account of the plugin.
    pub(super) metered: &'a Metered,
    /// The hot loops of the shard.
    pub(super) loops: &'a Arc<HotLoops>,
}

/// Puts the gate and the scheduler around the plugin's code. Replaces the gate of `identity`.
pub(super) fn instantiate(
    setup: &Setup<'_>,
    shard: Shard,
    identity: &mut Identity,
    api: Arc<PluginApi>,
    Assembly { metered, loops }: Assembly<'_>,
) -> Code {
    let recorder = recorder(identity, setup, &api);
    let events = Arc::new(RecordingEvents::new(recorder, identity.recorded.clone()));
    let (call_limits, gate_limits) = setup.context.config.limits(&setup.spec.limits);
    let shared = shared(setup, &api, metered, loops);
    identity.api = Some(api.clone());
    let mapping_gate = Gate::mapping(setup.log.clone(), setup.config.clone(), gate_limits.clone(), shared.clone());
    let gate = Gate::new(api, events, setup.log.clone(), setup.config.clone(), gate_limits, shared);
    let digest = setup.component.digest().to_owned();
    let current = Generation { account: setup.grants.subject().clone(), digest, gate: gate.clone() };
    if let Some(before) = identity.current.replace(current) {
        before.retire(setup);
    }
    let mapper = PluginMapper::new(setup.component.clone(), mapping_gate, &call_limits);
    let mut reconciler = PluginReconciler::new(setup.component.clone(), gate, call_limits);
    if let Some(warm) = &setup.spec.runtime.warm {
        reconciler = reconciler.keep_warm(warm_limits(warm));
    }
    let account = metered.account.clone();
    let fair = FairReconciler::new(Arc::new(reconciler), account.clone());
    let traced = TracedReconciler::new(setup.key.clone(), shard, Arc::new(fair));
    Code {
        mapping: mapper.map(|mapper| Mapping { mapper: Arc::new(mapper), account }),
        reconciler: Arc::new(FencedReconciler::new(setup.revocation.clone(), Arc::new(traced))),
    }
}

fn shared(setup: &Setup<'_>, api: &Arc<PluginApi>, metered: &Metered, loops: &Arc<HotLoops>) -> Shared {
    setup.health.set_source(Source {
        digest: setup.component.digest().to_owned(),
        service_account: setup.grants.subject().user(),
    });
    let writer = Writer {
        plugin: setup.key.clone(),
        digest: setup.component.digest().to_owned(),
        service_account: setup.grants.subject().user(),
        field_manager: field_manager(setup),
    };
    let sink = setup.context.audit.clone();
    Shared {
        throttle: metered.throttle.clone(),
        audit: Some(Audit { writer, sink, conflicts: setup.context.conflicts.clone() }),
        loops: Some(loops.clone()),
        objects: Some(api.clone()),
        long_runs: Some(setup.health.clone()),
        memory: Some(setup.context.tenants.memory(setup.key.namespace.as_deref().unwrap_or_default())),
        revocation: api.wire().revocation().clone(),
        nondeterminism: None,
    }
}

/// Returns the recorder of the plugin's Events; a new one when it acts as another ServiceAccount, or acts again after its
/// right to act was revoked.
fn recorder(identity: &mut Identity, setup: &Setup<'_>, api: &PluginApi) -> Arc<EventRecorder> {
    let account = setup.grants.subject();
    match &identity.recorder {
        Some(kept) if kept.account == *account && Arc::ptr_eq(&kept.revocation, &setup.revocation) => {
            kept.recorder.clone()
        }
        _ => {
            let wire = api.wire().clone().permitted_by(setup.revocation.clone());
            let recorder = EventRecorder::start(wire, setup.key.name.clone());
            identity.recorder = Some(Recorder {
                account: account.clone(),
                revocation: setup.revocation.clone(),
                recorder: recorder.clone(),
            });
            recorder
        }
    }
}
