//! All that the host keeps of one Plugin.

use std::{
    sync::{Arc, Mutex as StdMutex, PoisonError, atomic::AtomicU64},
    time::{Duration, Instant},
};

use operetta_core::object::kind::GroupVersionKind;
use operetta_kube::informer::Subscription;
use operetta_wasm::Plugin as Component;
use tokio::{sync::Mutex, task::JoinSet};

use crate::logs::store::PluginLog;
use crate::plugin::{configuration::Configuration, health::Health, running::Running, status::Problem};

/// What is kept of a Plugin from when it was first looked at until it is gone.
pub struct Slot {
    /// Where it logs.
    pub log: Arc<PluginLog>,
    /// How its reconciles go.
    pub health: Arc<Health>,
    /// Never contended: a key is not reconciled twice at once. It is a lock because others look at `running`.
    pub state: Mutex<State>,
    /// Bytes that the host caches for it.
    pub cached_bytes: AtomicU64,
    /// When its status was written last.
    written: StdMutex<Option<Instant>>,
}

/// Why a plugin's controllers have to stop for a while.
pub(super) struct HeldBack {
    pub(super) why: Problem,
    pub(super) since: Instant,
    /// The generation and digest that have to: others are tried at once.
    pub(super) of: (i64, String),
}

impl Slot {
    /// A Plugin that was not looked at yet.
    pub fn new(log: Arc<PluginLog>, health: Arc<Health>) -> Arc<Self> {
        let (state, cached_bytes, written) = (Mutex::default(), AtomicU64::new(0), StdMutex::default());
        Arc::new(Self { log, health, state, cached_bytes, written })
    }

    /// Whether its status was last written so long ago, or never.
    pub fn is_status_older(&self, than: Duration) -> bool {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.is_none_or(|at| at.elapsed() >= than)
    }

    /// Its status is being written.
    pub fn status_written(&self) {
        *self.written.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}

/// Where a Plugin stands.
#[derive(Default)]
pub struct State {
    /// The version of the source that was looked at last.
    pub(super) source: Option<String>,
    /// Tells when a source ConfigMap without the label changes: its name, the informer's subscription.
    pub(super) source_watch: Option<(String, Subscription)>,
    /// Since when parts of the source are awaited; None while none are.
    pub(super) incomplete: Option<Instant>,
    pub(super) component: Option<Arc<Component>>,
    /// What the ConfigMaps and Secrets of `spec.configFrom` hold.
    pub(super) configuration: Configuration,
    /// Why it may not run here.
    pub(super) refusal: Option<Problem>,
    pub(super) load_problem: Option<Problem>,
    pub(super) config_problem: Option<Problem>,
    pub(super) setup_problem: Option<Problem>,
    /// The generation, digest and configuration that `running` was set up for.
    pub(super) applied: Option<(i64, String, Arc<str>)>,
    pub(super) held_back: Option<HeldBack>,
    /// The controllers, while not suspended.
    pub running: Option<Running>,
    /// Kinds that are not served: what reconciles or watches them does not run.
    pub missing: Vec<GroupVersionKind>,
    /// Rights that it lacks and an Event has told of.
    pub(super) told_denied: Vec<String>,
    /// Waits for `missing`; ends with this.
    pub(super) waiter: JoinSet<()>,
}

impl State {
    /// What runs has to stop for a while, from the next look at the Plugin on.
    pub fn hold_back(&mut self, why: Problem) {
        if let Some((generation, digest, _)) = &self.applied {
            let of = (*generation, digest.clone());
            self.held_back = Some(HeldBack { why, since: Instant::now(), of });
        }
    }
}
