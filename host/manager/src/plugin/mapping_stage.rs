//! Between an informer and a controller whose plugin maps that kind itself: a controller of its own, whose keys are the
//! watched objects', with the rate limiter, the account and the status of the plugin's reconciles.
//!
//! It outlives a change of the code as the controller's queue does: what was not mapped yet, the new code maps.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use operetta_core::{
    controller::Controller,
    handler::{
        EventHandler,
        event::Event,
        mapping::{KeyRules, MAX_HELD, MapReconciler, Mappings},
    },
    manifest::RateLimiter,
    object::kind::GroupVersionKind,
    ports::{LogLevel, LogRecord, LogSink, Mapper, Reconciler},
    queue::WorkQueue,
};
use operetta_kube::informer::Handler;
use operetta_scheduler::{Account, FairReconciler};

use crate::logs::store::PluginLog;
use crate::plugin::{
    health::{Health, MapHealth},
    running::{priority, rate_limiter},
};

/// How a plugin maps events.
#[derive(Clone)]
pub(super) struct Mapping {
    /// The plugin's code.
    pub(super) mapper: Arc<dyn Mapper>,
    /// Who is charged.
    pub(super) account: Arc<Account>,
}

/// Maps the events of one watch of a controller.
pub(super) struct MapStage {
    /// The watched kind.
    pub(super) kind: GroupVersionKind,
    mappings: Arc<Mappings>,
    /// Named as the one it feeds.
    controller: Arc<Controller>,
}

impl MapStage {
    /// A stage that feeds `target`, or the one of `before` that fed it from the same kind, on new code.
    pub(super) fn take_over(
        before: &mut Vec<Self>,
        kind: &GroupVersionKind,
        target: &Arc<Controller>,
        rules: KeyRules,
        mapping: &Mapping,
        (limiter, health): (&RateLimiter, &Arc<Health>),
    ) -> Self {
        let old = before.iter().position(|stage| stage.kind == *kind).map(|at| before.remove(at));
        let mappings = old.as_ref().map_or_else(|| Mappings::new(kind.clone()), |old| old.mappings.clone());
        let wake = {
            // Not the controller, which may be stopped and dropped first.
            let target = Arc::downgrade(target);
            Arc::new(move |key, priority| {
                if let Some(target) = target.upgrade() {
                    target.enqueue_mapped(key, priority);
                }
            })
        };
        let reconciler = Arc::new(MapReconciler::new(mappings.clone(), mapping.mapper.clone(), rules, wake));
        let reconciler: Arc<dyn Reconciler> = Arc::new(FairReconciler::new(reconciler, mapping.account.clone()));
        let controller = match old {
            Some(old) => {
                old.controller.queue().set_rate_limiter(rate_limiter(limiter));
                old.controller.swap(reconciler);
                old.controller
            }
            None => {
                let queue = WorkQueue::with_rate_limiter(rate_limiter(limiter));
                let observer = Arc::new(MapHealth::new(health.clone(), kind.clone()));
                Controller::new(target.name(), queue, reconciler, observer)
            }
        };
        controller.set_workers(target.workers().max(1));
        Self { kind: kind.clone(), mappings, controller }
    }

    /// Takes the informer's events. What had to be given up is told once in the plugin's log.
    pub(super) fn handler(&self, handler: EventHandler, log: &Arc<PluginLog>) -> Handler {
        let (mappings, controller, log) = (self.mappings.clone(), self.controller.clone(), log.clone());
        let (kind, told) = (self.kind.clone(), AtomicBool::new(false));
        Arc::new(move |event: &Event| {
            if !handler.passes(event) {
                return;
            }
            let priority = priority(event);
            if !mappings.note(event, priority) && !told.swap(true, Ordering::Relaxed) {
                let message = format!(
                    "more than {} MiB of deleted or changed {kind} wait to be mapped: keys that only they name are not woken",
                    MAX_HELD >> 20
                );
                log.write(LogRecord { level: LogLevel::Error, message, fields: vec![], reconcile: None });
            }
            controller.enqueue(event.object().key().clone(), priority);
        })
    }

    /// Watched objects whose events wait.
    pub(super) fn waiting(&self) -> usize {
        self.controller.queue().len()
    }

    /// Ends it, when what it maps is mapped.
    pub(super) async fn stop(self) {
        self.controller.stop().await;
    }
}
