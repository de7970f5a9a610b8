//! The state that the host keeps of one Plugin.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use operetta_core::{
    authz::access_review::ServiceAccount,
    gate::{PluginConfig, revocation::Revocation},
    object::{ObjectKey, kind::GroupVersionKind},
    replicas::Shard,
};
use operetta_kube::informer::Subscription;
use operetta_wasm::{LoadError, Plugin as Component};
use parking_lot::Mutex as SyncMutex;
use tokio::{
    sync::{Mutex, oneshot},
    task::JoinSet,
    time::Instant,
};

use crate::{
    authz::{allowed_code::AllowedCode, consent},
    logs::store::PluginLog,
    plugin::{
        configuration::Configuration,
        crd::Plugin,
        health::Health,
        held_shards::{HeldShard, HeldShards},
        running_shards::RunningShards,
    },
    problem::Problem,
};

/// The reason why a plugin's requests are refused that this replica does not run any more.
pub(super) const ELSEWHERE: &str = "another replica runs the plugin";

/// The state of one Plugin, from its first reconcile until it is gone.
pub struct HostedPlugin {
    /// The Plugin's uid. One with the same name that is created later is another Plugin.
    pub uid: String,
    /// The plugin's log.
    pub log: Arc<PluginLog>,
    /// The health of its controllers.
    pub health: Arc<Health>,
    /// The state of its code. The plugin controller holds the lock for a whole reconcile; others read `running`.
    pub state: Mutex<State>,
    /// The token that permits the plugin to act.
    revocation: SyncMutex<Arc<Revocation>>,
    /// The digest of the code that runs.
    running_digest: SyncMutex<Option<String>>,
    /// The host's token, the parent of `revocation`.
    host: Arc<Revocation>,
    /// The bytes that the host caches for it.
    pub cached_bytes: AtomicU64,
    /// The time of the last write of its status.
    status_written: SyncMutex<Option<Instant>>,
    /// The shards that this replica runs or prepares to run.
    shards: SyncMutex<HeldShards>,
}

impl HostedPlugin {
    /// Creates the state of a Plugin that has not been reconciled yet.
    /// `host` is the parent of the plugin's token.
    pub fn new(uid: &str, log: Arc<PluginLog>, health: Arc<Health>, host: Arc<Revocation>) -> Arc<Self> {
        Arc::new(Self {
            uid: uid.to_owned(),
            log,
            health,
            state: Mutex::default(),
            revocation: SyncMutex::new(host.child()),
            running_digest: SyncMutex::default(),
            host,
            cached_bytes: AtomicU64::new(0),
            status_written: SyncMutex::default(),
            shards: SyncMutex::default(),
        })
    }

    /// Records the shards that this replica runs (true) or prepares to run. It sends nothing more for those that it ran before.
    pub(super) fn set_shards(&self, shards: &[(Shard, bool)]) {
        // First: the lock of the shards is the inner one.
        let plugin = self.revocation();
        self.shards.lock().set(shards, &plugin, ELSEWHERE);
    }

    /// Sends nothing more for these shards: another replica owns them.
    pub(super) fn revoke_shards(&self, shards: &[Shard]) {
        self.shards.lock().revoke(shards, ELSEWHERE);
    }

    /// Sends nothing more for these shards, and forgets them.
    pub(super) fn remove_shards(&self, shards: &[Shard]) {
        self.shards.lock().remove(shards, ELSEWHERE);
    }

    /// Returns the shards that this replica runs or prepares to run.
    pub fn shards(&self) -> Vec<HeldShard> {
        self.shards.lock().all()
    }

    /// Reports whether this replica owns the Plugin, or a shard of it: only then it takes keys and reports.
    pub fn is_acting(&self) -> bool {
        self.shards().iter().any(|held| held.is_acting)
    }

    /// Reports whether this replica owns the first shard: it writes the conditions and the Events.
    pub fn is_leading(&self) -> bool {
        self.shards().iter().any(|held| held.is_acting && held.shard.index() == 0)
    }

    /// Returns the token that permits the plugin to act.
    pub fn revocation(&self) -> Arc<Revocation> {
        self.revocation.lock().clone()
    }

    /// Records the digest of the code that runs from now on.
    pub(super) fn set_running_digest(&self, digest: &str) {
        *self.running_digest.lock() = Some(digest.to_owned());
    }

    /// Reports whether consent allows the code that runs; true if none runs.
    pub(super) fn permits_running_code(&self, allowed: &AllowedCode) -> bool {
        self.running_digest.lock().as_ref().is_none_or(|digest| allowed.permits(digest))
    }

    /// Replaces a revoked token. Reports whether it did: holders of the old token must then be set up again. Call it
    /// before the check that the plugin may act, so that a revocation after that check is not lost.
    pub(super) fn renew_revocation(&self) -> bool {
        let mut revocation = self.revocation.lock();
        let is_revoked = revocation.is_own_revoked();
        if is_revoked {
            *revocation = self.host.child();
            self.shards.lock().renew(&revocation);
        }
        is_revoked
    }

    /// Reports whether the status was written longer ago than `age`, or never.
    pub fn is_status_older(&self, age: Duration) -> bool {
        self.status_written.lock().is_none_or(|at| at.elapsed() >= age)
    }

    /// Forgets the last write of the status: it conflicted with another one.
    pub fn forget_status_write(&self) {
        *self.status_written.lock() = None;
    }

    /// Records that the status is being written now.
    pub fn record_status_write(&self) {
        *self.status_written.lock() = Some(Instant::now());
    }
}

/// A Plugin that is being reconciled: its key, its object, and the state that the host keeps of it.
#[derive(Clone, Copy)]
pub struct PluginRef<'a> {
    /// The Plugin's key.
    pub key: &'a ObjectKey,
    /// The Plugin as it was read.
    pub object: &'a Plugin,
    /// The state of the Plugin.
    pub hosted: &'a HostedPlugin,
}

/// The consent under which a Plugin runs.
pub struct Consent {
    /// The ServiceAccount that it acts as.
    pub(super) account: ServiceAccount,
    /// The code that consent allows.
    pub(super) code: AllowedCode,
    /// True if consent must name digests.
    pub(super) needs_digest: bool,
}

impl Consent {
    /// Checks that code of this digest may run as the Plugin of this name.
    pub(super) fn check_code(&self, plugin: &ObjectKey, digest: &str) -> Result<(), Problem> {
        consent::check_code(&self.account, &plugin.name, &self.code, digest, self.needs_digest)
    }

    /// Returns a text that changes with the allowed code.
    pub(super) fn version(&self) -> String {
        format!("{}{}", u8::from(self.needs_digest), self.code.version())
    }
}

/// The state of a Plugin's code and controllers.
#[derive(Default)]
pub struct State {
    /// The source of the code.
    pub(super) source: SourceState,
    /// The code that is loaded.
    pub(super) component: Option<Arc<Component>>,
    /// The contents of the ConfigMaps and Secrets in `spec.configFrom`.
    pub(super) configuration: Configuration,
    /// The problems that the status shows.
    pub(super) problems: Problems,
    /// The version that `running` was set up for.
    pub(super) applied: Option<Applied>,
    /// The reason why the controllers are stopped for a while.
    pub(super) held_back: Option<HeldBack>,
    /// The controllers of the shards, while not suspended.
    pub running: Option<RunningShards>,
    /// The kinds that the API server does not serve.
    pub missing: MissingKinds,
    /// The missing permissions that an Event has reported.
    pub(super) reported_denials: Vec<String>,
}

/// The source of a Plugin's code.
#[derive(Default)]
pub(super) struct SourceState {
    /// The version that was read last.
    pub(super) version: Option<String>,
    /// The version that is being loaded.
    pub(super) loading: Option<Loading>,
    /// The watch of a source ConfigMap without the label.
    pub(super) watch: Option<SourceWatch>,
    /// The time since when the rest of the source is missing; None if it is complete.
    pub(super) incomplete_since: Option<Instant>,
}

impl SourceState {
    /// Reports whether this version was read last, or is being loaded.
    pub(super) fn has(&self, version: &str) -> bool {
        let loading = self.loading.as_ref().map(|loading| loading.version.as_str());
        [self.version.as_deref(), loading].contains(&Some(version))
    }
}

/// A component that is being loaded in the background: a worker of the Plugin controller does not wait for a compilation.
pub(super) struct Loading {
    /// The version of the source.
    pub(super) version: String,
    /// The ConfigMap that holds it, for Events about it.
    pub(super) config_map: Option<ObjectKey>,
    /// The result, after which the Plugin is enqueued.
    pub(super) result: oneshot::Receiver<Result<Component, LoadError>>,
    /// The task; ends with this.
    pub(super) _task: JoinSet<()>,
}

/// A watch of one source ConfigMap.
pub(super) struct SourceWatch {
    pub(super) config_map: String,
    pub(super) subscription: Subscription,
}

/// The problems of a Plugin, one for each step of its reconcile.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    /// Missing consent: the Plugin may not run here at all.
    pub refusal: Option<Problem>,
    /// The newest source was not loaded.
    pub load: Option<Problem>,
    /// The configuration cannot be read.
    pub config: Option<Problem>,
    /// The controllers cannot be set up.
    pub setup: Option<Problem>,
}

/// The generation, code and configuration that controllers were set up for.
#[derive(PartialEq, Eq)]
pub(super) struct Applied {
    pub(super) generation: i64,
    pub(super) digest: String,
    pub(super) config: PluginConfig,
}

/// The reason why a plugin's controllers are stopped for a while.
pub(super) struct HeldBack {
    pub(super) problem: Problem,
    pub(super) since: Instant,
    /// The generation that is stopped; another one starts at once.
    pub(super) generation: i64,
    /// The digest that is stopped; another one starts at once.
    pub(super) digest: String,
}

/// The kinds that a plugin's controllers need and the API server does not serve.
#[derive(Default)]
pub struct MissingKinds {
    /// The kinds, sorted.
    pub kinds: Vec<GroupVersionKind>,
    /// The ServiceAccount that looked for similar kinds.
    pub(super) account: Option<ServiceAccount>,
    /// The similar served kind for each missing kind.
    pub(super) similar: BTreeMap<GroupVersionKind, GroupVersionKind>,
    /// The tasks that wait for them; they end with this.
    pub(super) waiters: JoinSet<()>,
}

impl State {
    /// Stops the controllers for a while, from the next reconcile of the Plugin on.
    pub fn hold_back(&mut self, problem: Problem) {
        if let Some(Applied { generation, digest, .. }) = &self.applied {
            self.held_back =
                Some(HeldBack { problem, since: Instant::now(), generation: *generation, digest: digest.clone() });
        }
    }
}
