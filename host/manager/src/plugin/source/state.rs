//! What the host knows of the source of a Plugin's code.

use operetta_core::object::ObjectKey;
use operetta_kube::informer::Subscription;
use operetta_wasm::{LoadError, Plugin as Component};
use tokio::{sync::oneshot, task::JoinSet, time::Instant};

/// The version of a source, with the pins that it was read for.
pub(super) type Version = String;

/// The source of a Plugin's code.
#[derive(Default)]
pub struct SourceState {
    /// The version that was read last.
    pub version: Option<Version>,
    /// The version that is being loaded.
    pub loading: Option<Loading>,
    /// The watch of a source ConfigMap without the label.
    pub(super) watch: Option<SourceWatch>,
    /// The time since when the rest of the source is missing; None if it is complete.
    pub(super) incomplete_since: Option<Instant>,
}

impl SourceState {
    /// Reports whether this version was read last, or is being loaded.
    pub(super) fn has(&self, version: &str) -> bool {
        let loading = self.loading.as_ref();
        let loading = loading.map(|loading| loading.version.as_str());
        [self.version.as_deref(), loading].contains(&Some(version))
    }
}

/// A component that is being loaded in the background: a worker of the Plugin controller does not
/// wait for a compilation.
pub struct Loading {
    pub(super) version: Version,
    /// The ConfigMap that has it, for Events about it.
    pub(super) config_map: Option<ObjectKey>,
    /// The result, after which the Plugin is enqueued.
    pub(super) result: oneshot::Receiver<Result<Component, LoadError>>,
    /// The task; ends with this.
    pub(super) _task: JoinSet<()>,
}

/// The watch of one source ConfigMap.
pub struct SourceWatch {
    pub(super) config_map: String,
    pub(super) subscription: Subscription,
}
