//! The state that the host keeps of one Plugin.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use operetta_core::{
    gate::{PluginConfig, permit::RequestPermit},
    object::ObjectKey,
    replicas::Shard,
};
use operetta_wasm::Plugin as Component;
use parking_lot::Mutex as SyncMutex;
use tokio::{sync::Mutex, time::Instant};

use crate::{
    authz::allowed_code::AllowedCode,
    logs::store::PluginLog,
    plugin::{
        config::Configuration,
        crd::Plugin,
        ownership::local_shards::{LocalShard, LocalShards},
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

/// The state of one Plugin, from its first reconcile until it is gone.
pub struct HostedPlugin {
    /// The Plugin's uid. One with the same name that is created later is another Plugin.
    pub uid: String,
    /// The plugin's log.
    pub log: Arc<PluginLog>,
    /// The health of its controllers.
    pub health: Arc<Health>,
    /// The state of its code. The plugin controller holds the lock for a whole reconcile; others
    /// read `running`.
    pub state: Mutex<State>,
    /// The token that permits the plugin to act.
    permit: SyncMutex<Arc<RequestPermit>>,
    /// The digest of the running code.
    running_digest: SyncMutex<Option<String>>,
    /// The host's token, the parent of `permit`.
    host: Arc<RequestPermit>,
    /// The bytes that the host caches for it.
    pub cached_bytes: AtomicU64,
    /// The time of the last write of its status.
    status_written: SyncMutex<Option<Instant>>,
    /// Whether it waits for its quotas.
    throttling: SyncMutex<Throttling>,
    /// The shards that this replica runs or prepares to run.
    shards: SyncMutex<LocalShards>,
}

impl HostedPlugin {
    /// Creates the state of a Plugin that has not been reconciled yet.
    /// `host` is the parent of the plugin's token.
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

    /// Records the shards that this replica runs (true) or prepares to run. Revokes the tokens of
    /// those that it no longer runs.
    pub(super) fn set_shards(&self, shards: &[(Shard, bool)]) {
        // First: the lock of the shards is the inner one.
        let plugin = self.permit();
        self.shards.lock().set(shards, &plugin, ELSEWHERE);
    }

    /// Revokes the tokens of these shards: another replica owns them.
    pub(super) fn revoke_shards(&self, shards: &[Shard]) {
        self.shards.lock().revoke(shards, ELSEWHERE);
    }

    /// Revokes the tokens of these shards, and forgets them.
    pub(super) fn remove_shards(&self, shards: &[Shard]) {
        self.shards.lock().remove(shards, ELSEWHERE);
    }

    /// Returns the shards that this replica runs or prepares to run.
    pub fn shards(&self) -> Vec<LocalShard> {
        self.shards.lock().all()
    }

    /// Reports whether this replica owns the Plugin, or a shard of it. Otherwise it takes no keys
    /// and reports nothing.
    pub fn is_owner(&self) -> bool {
        self.shards().iter().any(|local| local.is_owned)
    }

    /// Reports whether this replica owns the first shard: it writes the conditions and the Events.
    pub fn is_leading(&self) -> bool {
        self.shards()
            .iter()
            .any(|local| local.is_owned && local.shard.index() == 0)
    }

    /// Returns the token that permits the plugin to act.
    pub fn permit(&self) -> Arc<RequestPermit> {
        self.permit.lock().clone()
    }

    /// Records the digest of the running code.
    pub(super) fn set_running_digest(&self, digest: &str) {
        *self.running_digest.lock() = Some(digest.to_owned());
    }

    /// Reports whether consent allows the running code; true if none runs.
    pub(super) fn permits_running_code(&self, allowed: &AllowedCode) -> bool {
        self.running_digest
            .lock()
            .as_ref()
            .is_none_or(|digest| allowed.permits(digest))
    }

    /// Replaces a revoked token. Reports whether it did: holders of the old token must then be set
    /// up again. Call it before the check that the plugin may act, so that a revocation after that
    /// check is not lost.
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

/// The state of a Plugin's code and controllers.
#[derive(Default)]
pub struct State {
    pub(super) source: SourceState,
    /// The code that is loaded.
    pub(super) component: Option<Arc<Component>>,
    /// The contents of the ConfigMaps and Secrets in `spec.configFrom`.
    pub(super) configuration: Configuration,
    /// The problems in the status.
    pub(super) problems: Problems,
    /// The version that `running` was set up for.
    pub(super) applied: Option<Applied>,
    /// Why the controllers are stopped for a while.
    pub(super) paused: Option<Pause>,
    /// The controllers of the shards, while not suspended.
    pub running: Option<RunningShards>,
    /// The kinds not served by the API server.
    pub missing: MissingKinds,
    /// The missing permissions that an Event has reported.
    pub(super) reported_denials: Vec<String>,
    /// True if an Event has reported that it is throttled.
    pub(super) reported_throttling: bool,
}

impl State {
    /// Pauses the controllers from the next reconcile of the Plugin on.
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
    /// The API server could not be asked for something that the last reconcile of the Plugin
    /// needed. The reconcile is retried.
    pub unavailable: Option<Problem>,
}

/// The generation, code and configuration that controllers were set up for.
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
    /// The paused generation; another one starts at once.
    pub(super) generation: i64,
    /// The paused digest; other code starts at once.
    pub(super) digest: String,
}
