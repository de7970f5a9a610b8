//! What the host knows about one Plugin.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use operetta_core::{
    gate::{PluginConfig, finalizers::OwnFinalizers, permit::RequestPermit},
    object::ObjectKey,
    replicas::Shard,
};
use operetta_wasm::Component;
use parking_lot::Mutex as SyncMutex;
use tokio::{sync::Mutex, time::Instant};

use crate::{
    authz::allowed_code::AllowedCode,
    logs::store::PluginLog,
    plugin::{
        config::Configuration,
        crd::Plugin,
        ownership::local_shards::{LocalShard, LocalShards},
        process::sources::Sources,
        setup::{missing_kinds::MissingKinds, running_shards::RunningShards},
        source::state::SourceState,
        status::{
            health::Health,
            throttling::{Throttled, Throttling, Waits},
        },
    },
    problem::Problem,
};

/// Why requests are refused after the plugin has moved to another replica.
pub(super) const ELSEWHERE: &str = "another replica runs the plugin";

/// The state of one Plugin, from its first reconcile until it is deleted.
pub struct HostedPlugin {
    /// The Plugin's uid. A later one with the same name is a different Plugin.
    pub uid: String,
    /// The plugin's log.
    pub log: Arc<PluginLog>,
    /// The health of its controllers.
    pub health: Arc<Health>,
    /// The finalizers that it was seen to put on objects.
    pub finalizers: Arc<OwnFinalizers>,
    /// The state of its code. The Plugin controller locks it during a reconcile; others read
    /// `running`.
    pub state: Mutex<State>,
    /// The plugin's permit to act.
    permit: SyncMutex<Arc<RequestPermit>>,
    /// The running code's digest.
    running_digest: SyncMutex<Option<String>>,
    /// The host's permit, the parent of `permit`.
    host: Arc<RequestPermit>,
    /// How many bytes the host caches for it.
    pub cached_bytes: AtomicU64,
    /// When its status was last written.
    status_written: SyncMutex<Option<Instant>>,
    /// Whether it waits for its quotas.
    throttling: SyncMutex<Throttling>,
    /// The shards that this replica runs or prepares to run.
    shards: SyncMutex<LocalShards>,
}

impl HostedPlugin {
    /// Creates the state of a Plugin before its first reconcile. `host` is the parent of the
    /// plugin's permit.
    pub fn new(
        uid: &str,
        log: Arc<PluginLog>,
        health: Arc<Health>,
        host: Arc<RequestPermit>,
    ) -> Arc<Self> {
        Arc::new(Self {
            uid: uid.to_owned(),
            log,
            health,
            finalizers: Arc::default(),
            state: Mutex::default(),
            permit: SyncMutex::new(host.child()),
            running_digest: SyncMutex::default(),
            host,
            cached_bytes: AtomicU64::new(0),
            status_written: SyncMutex::default(),
            throttling: SyncMutex::default(),
            shards: SyncMutex::default(),
        })
    }

    /// Sets the shards that this replica runs (true) or prepares. Revokes the permits of those it
    /// no longer runs.
    pub(super) fn set_shards(&self, shards: &[(Shard, bool)]) {
        // Get the permit first: the order of locks is `permit`, then `shards`.
        let plugin = self.permit();
        self.shards.lock().set(shards, &plugin, ELSEWHERE);
    }

    /// Revokes the permits of these shards, because another replica owns them.
    pub(super) fn revoke_shards(&self, shards: &[Shard]) {
        self.shards.lock().revoke(shards, ELSEWHERE);
    }

    /// Revokes the permits of these shards, and forgets the shards.
    pub(super) fn remove_shards(&self, shards: &[Shard]) {
        self.shards.lock().remove(shards, ELSEWHERE);
    }

    /// Returns the shards this replica runs or prepares.
    pub fn shards(&self) -> Vec<LocalShard> {
        self.shards.lock().all()
    }

    /// Reports whether this replica owns the Plugin or one of its shards. If not, it takes no keys
    /// and reports nothing.
    pub fn is_owner(&self) -> bool {
        self.shards().iter().any(|local| local.is_owned)
    }

    /// Reports whether this replica owns the first shard, and so writes the conditions and Events.
    pub fn is_leading(&self) -> bool {
        self.shards()
            .iter()
            .any(|local| local.is_owned && local.shard.index() == 0)
    }

    /// Returns the plugin's permit to act.
    pub fn permit(&self) -> Arc<RequestPermit> {
        self.permit.lock().clone()
    }

    /// Records the digest of the running code.
    pub(super) fn set_running_digest(&self, digest: &str) {
        *self.running_digest.lock() = Some(digest.to_owned());
    }

    /// Reports whether consent allows the running code; true if there is none.
    pub(super) fn permits_running_code(&self, allowed: &AllowedCode) -> bool {
        self.running_digest
            .lock()
            .as_ref()
            .is_none_or(|digest| allowed.permits(digest))
    }

    /// Replaces a revoked permit, and reports whether it did. If so, everything with the old permit
    /// must be set up again. Call this before checking whether the plugin may act: a revocation
    /// after that check must not get lost.
    pub(super) fn renew_revocation(&self) -> bool {
        let mut permit = self.permit.lock();
        let is_revoked = permit.is_own_revoked();
        if is_revoked {
            *permit = self.host.child();
            self.shards.lock().renew(&permit);
        }
        is_revoked
    }

    /// Judges the waits so far, see [`Throttling::observe`].
    pub(super) fn throttling(&self, waits: Waits) -> Option<Throttled> {
        self.throttling.lock().observe(Instant::now(), waits)
    }

    /// Reports whether the status was written longer ago than `age`, or never.
    pub fn is_status_older(&self, age: Duration) -> bool {
        self.status_written
            .lock()
            .is_none_or(|at| at.elapsed() >= age)
    }

    /// Forgets the last write of the status, after a conflict.
    pub fn forget_status_write(&self) {
        *self.status_written.lock() = None;
    }

    /// Records that the status is being written now.
    pub fn record_status_write(&self) {
        *self.status_written.lock() = Some(Instant::now());
    }
}

/// A Plugin being reconciled: its key, its object and its state.
#[derive(Clone, Copy)]
pub struct PluginRef<'a> {
    /// The Plugin's key.
    pub key: &'a ObjectKey,
    /// The Plugin as it was read.
    pub object: &'a Plugin,
    /// What the host knows about it.
    pub hosted: &'a HostedPlugin,
}

/// The state of a Plugin's code and controllers.
#[derive(Default)]
pub struct State {
    pub(super) source: SourceState,
    /// The loaded code.
    pub(super) component: Option<Arc<Component>>,
    /// The contents of the ConfigMaps and Secrets in `spec.configFrom`.
    pub(super) configuration: Configuration,
    /// The contents of the ConfigMaps and Secrets in `spec.process`.
    pub(super) sources: Sources,
    /// The problems shown in the status.
    pub(super) problems: Problems,
    /// What `running` was set up for.
    pub(super) applied: Option<Applied>,
    /// Why the controllers are stopped for a while.
    pub(super) paused: Option<Pause>,
    /// The controllers of the shards, unless suspended.
    pub running: Option<RunningShards>,
    /// The kinds the API server doesn't serve.
    pub missing: MissingKinds,
    /// The missing permissions already reported in an Event.
    pub(super) reported_denials: Vec<String>,
    /// True if an Event has reported that it is throttled.
    pub(super) reported_throttling: bool,
    /// Since when the Plugin is known to be deleted.
    pub(super) deleted_since: Option<Instant>,
}

impl State {
    /// Pauses the controllers as soon as the Plugin is reconciled.
    pub fn pause(&mut self, problem: Problem) {
        if let Some(Applied {
            generation, digest, ..
        }) = &self.applied
        {
            self.paused = Some(Pause {
                problem,
                since: Instant::now(),
                generation: *generation,
                digest: digest.clone(),
            });
        }
    }
}

/// A Plugin's problems, one for each step of its reconcile.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    /// Consent is missing: the Plugin may not run here at all.
    pub refusal: Option<Problem>,
    /// The newest version of the source couldn't be loaded.
    pub load: Option<Problem>,
    /// The configuration, or what a process gets of ConfigMaps and Secrets, can't be read.
    pub config: Option<Problem>,
    /// The controllers can't be set up.
    pub setup: Option<Problem>,
    /// The API server didn't respond when the last reconcile of the Plugin needed it. The reconcile
    /// is retried.
    pub unavailable: Option<Problem>,
}

/// What the controllers were set up for.
#[derive(PartialEq, Eq)]
pub(super) struct Applied {
    pub(super) generation: i64,
    pub(super) digest: String,
    pub(super) config: PluginConfig,
}

/// Why a plugin's controllers are stopped for a while.
pub(super) struct Pause {
    pub(super) problem: Problem,
    pub(super) since: Instant,
    /// Ends the pause when it changes.
    pub(super) generation: i64,
    /// Ends the pause when it changes.
    pub(super) digest: String,
}
