//! The records of a plugin's reconciles in the flight recorder, and which of them are traced.

use std::{sync::Arc, time::Duration};

use operetta_core::{
    controller::request::ReconcileRequest,
    object::{Object, ObjectKey, kind::GroupVersionKind},
    recorder::{OpenReconcile, PluginRecorder, Recorder, Triggers, record::Source},
};
use parking_lot::Mutex;

use crate::traces::Traces;

/// The records of one plugin's reconciles.
pub struct PluginRecords {
    recorder: Arc<Recorder>,
    /// The traces of the host; None if none are configured.
    traces: Option<Arc<Traces>>,
    /// Returns an object as it is cached.
    cached: Box<Cached>,
    /// The recorder of the current code; None before there is any.
    current: Mutex<Option<Arc<PluginRecorder>>>,
}

/// A function as in [`PluginRecords::new`].
pub type Cached = dyn Fn(&GroupVersionKind, &ObjectKey) -> Option<Arc<Object>> + Send + Sync;

impl PluginRecords {
    /// Creates the records of a plugin whose code is not known yet. `cached` returns an object as
    /// it is cached.
    pub fn new(recorder: Arc<Recorder>, traces: Option<Arc<Traces>>, cached: Box<Cached>) -> Self {
        Self {
            recorder,
            traces,
            cached,
            current: Mutex::default(),
        }
    }

    /// Reports whether reconciles are recorded or traced.
    pub(super) fn is_recording(&self) -> bool {
        self.recorder.is_on() || self.traces.is_some()
    }

    /// Attributes later reconciles to this code and identity.
    pub(super) fn set_source(&self, plugin: &ObjectKey, source: Source) {
        *self.current.lock() = Some(self.recorder.of_plugin(plugin, source));
    }

    /// Begins the record of a reconcile; None if it is not recorded. `waited` is how long
    /// its key was in the queue.
    pub(super) fn begin(
        &self,
        plugin: &ObjectKey,
        kind: &GroupVersionKind,
        request: &ReconcileRequest,
        triggers: Triggers,
        waited: Option<Duration>,
    ) -> Option<OpenReconcile> {
        let current = self.current.lock().clone()?;
        let trace = self.traces.as_ref().and_then(|traces| {
            let object = (self.cached)(kind, &request.key);
            traces.sample(
                plugin.namespace.as_deref().unwrap_or_default(),
                object.as_deref(),
            )
        });
        if trace.is_none() && !self.recorder.is_on() {
            return None;
        }

        Some(request.begin_record(current, kind, triggers, waited, trace))
    }
}
