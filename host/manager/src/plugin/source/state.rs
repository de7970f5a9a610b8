//! What the host knows about the source of a Plugin's code.

use std::sync::Arc;

use operetta_core::object::ObjectKey;
use operetta_kube::informer::Subscription;
use operetta_wasm::{Component, LoadError, LoadStage};
use parking_lot::Mutex;
use tokio::{sync::oneshot, task::JoinSet, time::Instant};

/// A source's version, including the digests allowed when it was read.
pub(super) type Version = String;

/// The source of a Plugin's code.
#[derive(Default)]
pub struct SourceState {
    /// The version last read.
    pub version: Option<Version>,
    /// The version being loaded.
    pub loading: Option<Loading>,
    /// Watches a source ConfigMap without the label.
    pub(super) watch: Option<SourceWatch>,
    /// Since when the rest of the source has been missing; None if it is complete.
    pub(super) incomplete_since: Option<Instant>,
}

impl SourceState {
    /// Reports whether this version was read last or is being loaded.
    pub(super) fn has(&self, version: &str) -> bool {
        let loading = self.loading.as_ref();
        let loading = loading.map(|loading| loading.version.as_str());
        [self.version.as_deref(), loading].contains(&Some(version))
    }
}

/// A component being loaded in the background, so that no worker of the Plugin controller has to
/// wait for a compilation.
pub struct Loading {
    pub(super) version: Version,
    /// The ConfigMap it is from, for Events about it.
    pub(super) config_map: Option<ObjectKey>,
    /// Where the component is now.
    pub(super) stage: Arc<Mutex<LoadStage>>,
    /// The result. The Plugin is enqueued when it is there.
    pub(super) result: oneshot::Receiver<Result<Component, LoadError>>,
    /// Dropping this aborts the task.
    pub(super) _task: JoinSet<()>,
}

impl Loading {
    /// Reports whether the component waits for the compiler. The Plugin is enqueued when it begins
    /// or ends to.
    pub fn waits_for_compiler(&self) -> bool {
        *self.stage.lock() == LoadStage::Waiting
    }
}

/// Watches one source ConfigMap.
pub struct SourceWatch {
    pub(super) config_map: String,
    pub(super) subscription: Subscription,
}
