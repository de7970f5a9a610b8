//! Puts a plugin's code together with its identity: the API, the gate, the sandbox and the
//! scheduler around one reconciler.

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
        permit::RequestPermit,
        throttle::Throttle,
    },
    hot_loop::HotLoops,
    object::{
        ObjectKey,
        bounded_name::{MAX_FIELD_MANAGER, bounded},
    },
    ports::Reconciler,
    recorder::record::Source,
    replicas::Shard,
};
use operetta_kube::{
    authz::required_permissions::RecordingEvents,
    client::object_api::{PluginApi, PluginIdentity, Watched},
    events::recorder::EventRecorder,
    store::overlay::Author,
};
use operetta_scheduler::{Account, FairReconciler};
use operetta_wasm::{
    Component as Loaded, Plugin as Component, PluginMapper, PluginReconciler, ProcessProgram,
};

use crate::{
    plugin::{
        crd::{ConfigSource, ProcessSpec, Usage, warm_limits},
        process::{definition::Definition, inputs, volumes::EmptyDirs},
        setup::{
            Setup, SetupError, mapping_stage::Mapping, reconciler::ShardReconciler,
            warnings::Warnings, wiring::WiredController,
        },
    },
    problem::Problem,
};

/// How long in-flight reconciles may continue on replaced code. After that their calls are refused.
pub const DRAIN: Duration = Duration::from_secs(1);

/// A plugin's identity and its access to the API server.
pub(super) struct Identity {
    /// Records its Events. Replaced only with the ServiceAccount or the permit, because it
    /// aggregates.
    recorder: Option<Recorder>,
    /// The code in use now.
    current: Option<Generation>,
    /// The API behind the gate.
    pub(super) api: Option<Arc<PluginApi>>,
    /// The permissions its calls have used; survives code swaps.
    pub(super) recorded: Arc<RecordedPermissions>,
    /// Its calls that RBAC refused; survives code swaps.
    pub(super) refused: Arc<RefusedCalls>,
    /// Marks its writes in the caches; survives code swaps.
    author: Author,
    /// The API server's warnings about the code, and the code's digest.
    warnings: Option<(String, Arc<Warnings>)>,
}

impl Identity {
    /// Creates an identity without code. `recorded` records the permissions used by the plugin's
    /// calls.
    pub(super) fn new(recorded: Arc<RecordedPermissions>) -> Self {
        Self {
            recorder: None,
            current: None,
            api: None,
            recorded,
            refused: Arc::default(),
            author: Author::unique(),
            warnings: None,
        }
    }

    pub(super) fn account(&self) -> Option<&ServiceAccount> {
        self.current.as_ref().map(|current| &current.account)
    }
}

/// The recorder of a plugin's Events, and the identity it writes them under.
struct Recorder {
    account: ServiceAccount,
    permit: Arc<RequestPermit>,
    recorder: Arc<EventRecorder>,
}

/// A version of the code, with the gate of its reconciles.
struct Generation {
    account: ServiceAccount,
    digest: String,
    gate: Arc<Gate>,
}

impl Generation {
    /// Closes the gate of a replaced version: immediately if the ServiceAccount has changed,
    /// because the old account's consent is no longer watched; after [`DRAIN`] if the code has
    /// changed. If only the configuration has changed, the gate stays open and in-flight reconciles
    /// end with the old configuration.
    fn retire(self, setup: &Setup<'_>) {
        if self.account != *setup.grants.subject() {
            self.gate
                .close("the plugin acts as another ServiceAccount now");
        } else if self.digest != setup.component.digest() {
            tokio::spawn(async move {
                tokio::time::sleep(DRAIN).await;
                self.gate.close("the plugin's code was replaced");
            });
        }
    }
}

/// A plugin's account and throttle.
#[derive(Clone)]
pub struct Metered {
    /// Charged for processor time.
    pub account: Arc<Account>,
    /// Rate limiters and counters of its calls.
    pub throttle: Throttle,
}

impl Metered {
    /// Returns the usage for the Plugin's status.
    pub fn usage(&self, cached_bytes: u64) -> Usage {
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let meter = &self.throttle.meter;
        Usage {
            cpu_milliseconds: i64::try_from(self.account.usage().polled.as_millis())
                .unwrap_or(i64::MAX),
            peak_memory_bytes: number(meter.peak_memory_bytes.load(Ordering::Relaxed)),
            calls: number(Verb::ALL.iter().map(|verb| meter.calls(*verb)).sum()),
            cached_bytes: number(cached_bytes),
        }
    }
}

/// A plugin's code, ready to run.
pub(super) struct Code {
    /// The reconciler, limited to the plugin's share of the processors.
    pub(super) reconciler: Arc<dyn Reconciler>,
    /// The plugin's own mapping of events, if any.
    pub(super) mapping: Option<Mapping>,
}

/// Returns the field manager of a plugin's writes. It is shortened if needed: namespace and name
/// together may exceed the API server's limit for field managers, and every write would be refused.
fn field_manager(plugin: &ObjectKey) -> String {
    bounded(format!("operetta:{plugin}"), MAX_FIELD_MANAGER)
}

/// Prepares the plugin's access to the API server, and records the permissions its configuration
/// needed.
///
/// # Errors
/// When the ServiceAccount's name can't be impersonated.
pub(super) fn connect(
    setup: &Setup<'_>,
    own: &mut Identity,
    controllers: &[WiredController],
    metered: &Metered,
) -> Result<Arc<PluginApi>, SetupError> {
    let cluster = &setup.context.cluster;
    let digest = setup.component.digest();
    let warnings = match &own.warnings {
        Some((of, warnings)) if of == digest => warnings.clone(),
        _ => Warnings::new(setup),
    };
    own.warnings = Some((digest.to_owned(), warnings.clone()));

    let identity = PluginIdentity {
        grants: setup.grants.clone(),
        recorded: own.recorded.clone(),
        refused: own.refused.clone(),
        permit: setup.permit.child(),
        epoch: setup.epoch.map(|epoch| match &setup.context.config.class {
            Some(class) => format!("{class}/{epoch}"),
            None => epoch.to_string(),
        }),
        throttle: metered.throttle.clone(),
        field_manager: field_manager(setup.key),
        author: own.author,
        warnings: Some(warnings),
    };

    let client = match &**setup.component {
        Loaded::Plugin(_) => &cluster.client,
        Loaded::Process(_) => setup.context.process_client(),
    };
    let api = PluginApi::of_plugin(
        client.clone(),
        cluster.discovery.clone(),
        cluster.registry.clone(),
        identity,
    );
    let api = api.map_err(|error| {
        SetupError::Refused(Problem::new(
            reasons::INVALID_SERVICE_ACCOUNT,
            error.status.message,
        ))
    })?;
    let informers = controllers.iter().flat_map(|controller| &controller.wiring);
    let informers = informers.map(|wiring| wiring.informer.clone()).collect();
    api.watch(Watched::new(
        informers,
        setup.component.manifest().indexes.clone(),
    ));

    for (kind, reference) in setup
        .spec
        .config_from
        .iter()
        .filter_map(ConfigSource::chosen)
    {
        let need = Need::resource("get", "", kind.resource(), setup.key.namespace.as_deref());
        own.recorded.note(&need, Some(&reference.name));
    }
    for named in setup.spec.process.iter().flat_map(inputs::named) {
        let namespace = setup.key.namespace.as_deref();
        let need = Need::resource("get", "", named.kind.resource(), namespace);
        own.recorded.note(&need, Some(named.name));
    }

    Ok(api)
}

/// What outlives a version of the code.
#[derive(Clone, Copy)]
pub(super) struct Assembly<'a> {
    pub(super) metered: &'a Metered,
    pub(super) loops: &'a Arc<HotLoops>,
}

/// Describes the process of a program, with a gate of its own, through which its requests pass.
pub(super) fn define(
    setup: &Setup<'_>,
    program: &Arc<ProcessProgram>,
    identity: &mut Identity,
    api: Arc<PluginApi>,
    Assembly { metered, loops }: Assembly<'_>,
) -> Definition {
    let recorder = recorder(identity, setup, &api);
    let events = Arc::new(RecordingEvents::new(recorder, identity.recorded.clone()));
    let (_, gate_limits) = setup.context.config.limits(&setup.spec.limits);
    let shared = shared(setup, &api, metered, loops);

    identity.api = Some(api.clone());
    let gate = Gate::new(
        api.clone(),
        events,
        setup.log.clone(),
        setup.config.clone(),
        gate_limits,
        shared,
    );

    // They say how the Plugin ends. The process doesn't see them, so it needn't be started again.
    let spec = ProcessSpec {
        finalizers: Vec::new(),
        ..setup.spec.process.clone().unwrap_or_default()
    };
    Definition {
        program: program.clone(),
        empty_dirs: EmptyDirs::of(&spec, || gate.memory()),
        spec,
        sources: setup.sources.clone(),
        plugin: setup.key.clone(),
        uid: setup.uid.to_owned(),
        labels: setup.metadata.labels.clone().unwrap_or_default(),
        annotations: setup.metadata.annotations.clone().unwrap_or_default(),
        service_account: setup.grants.subject().clone(),
        memory_bytes: setup
            .context
            .config
            .process_memory_bytes(&setup.spec.limits),
        permit: setup.permit.clone(),
        gate,
        api,
        account: metered.account.clone(),
        tls: setup.context.process_tls.clone(),
        log: setup.log.clone(),
    }
}

/// Wraps the plugin's code in the gate and the scheduler, and replaces the gate of `identity`.
pub(super) fn instantiate(
    setup: &Setup<'_>,
    component: &Arc<Component>,
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
    let mapping_gate = Gate::mapping(
        setup.log.clone(),
        setup.config.clone(),
        gate_limits.clone(),
        shared.clone(),
    );
    let gate = Gate::new(
        api,
        events,
        setup.log.clone(),
        setup.config.clone(),
        gate_limits,
        shared,
    );

    let digest = setup.component.digest().to_owned();
    let current = Generation {
        account: setup.grants.subject().clone(),
        digest,
        gate: gate.clone(),
    };
    if let Some(before) = identity.current.replace(current) {
        before.retire(setup);
    }

    let tenant = setup.key.namespace.as_deref().unwrap_or_default();
    let mapper = PluginMapper::new(component.clone(), mapping_gate, &call_limits)
        .map(|mapper| mapper.for_tenant(tenant));
    let mut reconciler =
        PluginReconciler::new(component.clone(), gate, call_limits).for_tenant(tenant);
    if let Some(warm) = &setup.spec.runtime.warm {
        reconciler = reconciler.keep_warm(warm_limits(warm));
    }

    let account = metered.account.clone();
    let reconciler = ShardReconciler {
        plugin: setup.key.clone(),
        shard,
        token: setup.permit.clone(),
        sandbox: FairReconciler::new(Arc::new(reconciler), account.clone()),
    };

    Code {
        reconciler: Arc::new(reconciler),
        mapping: mapper.map(|mapper| Mapping {
            mapper: Arc::new(mapper),
            account,
        }),
    }
}

fn shared(
    setup: &Setup<'_>,
    api: &Arc<PluginApi>,
    metered: &Metered,
    loops: &Arc<HotLoops>,
) -> Shared {
    setup.health.set_source(Source {
        digest: setup.component.digest().to_owned(),
        service_account: setup.grants.subject().user(),
    });
    let writer = Writer {
        plugin: setup.key.clone(),
        digest: setup.component.digest().to_owned(),
        service_account: setup.grants.subject().user(),
        field_manager: field_manager(setup.key),
    };
    let sink = setup.context.audit.clone();

    Shared {
        throttle: metered.throttle.clone(),
        audit: Some(Audit {
            writer,
            sink,
            conflicts: setup.context.conflicts.clone(),
        }),
        loops: Some(loops.clone()),
        finalizers: Some(setup.finalizers.clone()),
        objects: Some(api.clone()),
        long_runs: Some(setup.health.clone()),
        memory: Some(
            setup
                .context
                .tenants
                .memory(setup.key.namespace.as_deref().unwrap_or_default()),
        ),
        permit: api.api_client().permit().clone(),
        nondeterminism: None,
    }
}

/// Returns the recorder of the plugin's Events, or a new one if the ServiceAccount or the permit
/// has changed.
fn recorder(identity: &mut Identity, setup: &Setup<'_>, api: &PluginApi) -> Arc<EventRecorder> {
    let account = setup.grants.subject();
    match &identity.recorder {
        Some(kept) if kept.account == *account && Arc::ptr_eq(&kept.permit, &setup.permit) => {
            kept.recorder.clone()
        }
        _ => {
            let api_client = api.api_client().clone().permitted_by(setup.permit.clone());
            let recorder = EventRecorder::start(api_client, setup.key.name.clone());
            identity.recorder = Some(Recorder {
                account: account.clone(),
                permit: setup.permit.clone(),
                recorder: recorder.clone(),
            });
            recorder
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_manager_is_one_that_the_api_server_accepts() {
        let of = |namespace: usize, name: usize| {
            let (namespace, name) = ("n".repeat(namespace), "p".repeat(name));
            field_manager(&ObjectKey::namespaced(namespace, name))
        };
        assert_eq!(of(1, 1), "operetta:n/p");
        for (namespace, name) in [(50, 75), (63, 253)] {
            let manager = of(namespace, name);
            assert!(manager.len() <= 128, "{manager}");
            assert_ne!(manager, of(namespace, name - 1), "plugins are told apart");
        }
    }
}
