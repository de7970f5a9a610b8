//! The stage between an informer and a controller, for kinds the plugin maps itself. It is a
//! controller of its own: its keys are those of the watched objects, and it shares the rate
//! limiter, account and status with the plugin's reconciles.
//!
//! It survives a code swap, just like the controller's queue: the new code maps events that haven't
//! been mapped yet.

use std::{sync::Arc, time::Duration};

use operetta_core::{
    controller::Controller,
    handler::{
        EventHandler,
        event::Event,
        mapping::{KeyRules, MapReconciler},
        unmapped_events::UnmappedEvents,
    },
    manifest::RateLimiter,
    object::kind::GroupVersionKind,
    ports::{Mapper, Reconciler},
    queue::{WorkQueue, budget::QueueBudget},
};
use operetta_kube::informer::Handler;
use operetta_scheduler::{Account, FairReconciler};
use tokio::time::timeout;

use crate::{
    logs::store::PluginLog,
    plugin::{
        setup::enqueue::{DropLog, priority, rate_limiter},
        status::health::{Health, MapHealth},
    },
};

/// A plugin's own mapping of events to keys.
#[derive(Clone)]
pub(super) struct Mapping {
    /// The plugin's code.
    pub(super) mapper: Arc<dyn Mapper>,
    /// Charged for the mapping.
    pub(super) account: Arc<Account>,
}

/// What is needed to set up a stage.
pub(super) struct StageSetup<'a> {
    pub(super) kind: &'a GroupVersionKind,
    pub(super) target: &'a Arc<Controller>,
    /// Which keys a mapping may return.
    pub(super) rules: KeyRules,
    pub(super) mapping: &'a Mapping,
    pub(super) limiter: &'a RateLimiter,
    pub(super) health: &'a Arc<Health>,
    /// The queue budget of the namespace.
    pub(super) budget: &'a Arc<QueueBudget>,
    /// True to map failed objects again now.
    pub(super) retries_failed: bool,
}

/// Maps the events of one of a controller's sources.
pub(super) struct MapStage {
    kind: GroupVersionKind,
    events: Arc<UnmappedEvents>,
    /// Runs the mappings. Has the name of the controller they are for.
    controller: Arc<Controller>,
}

impl MapStage {
    /// Moves the stage for this kind in `before` to new code, or creates one.
    pub(super) fn replace(before: &mut Vec<Self>, setup: StageSetup<'_>) -> Self {
        let StageSetup {
            kind,
            target,
            rules,
            mapping,
            limiter,
            health,
            budget,
            retries_failed,
        } = setup;

        let old = before
            .iter()
            .position(|stage| stage.kind == *kind)
            .map(|at| before.remove(at));
        let events = old.as_ref().map(|old| old.events.clone());
        let events = events.unwrap_or_else(|| UnmappedEvents::new(budget.clone()));
        let enqueue = {
            // Weak, because the controller may be stopped and dropped before the stage.
            let target = Arc::downgrade(target);
            Arc::new(move |event: &Event, key, priority| {
                // A stopped controller needs no keys.
                target
                    .upgrade()
                    .is_none_or(|target| target.enqueue_mapped(event, key, priority))
            })
        };

        let reconciler = Arc::new(MapReconciler::new(
            kind.clone(),
            events.clone(),
            mapping.mapper.clone(),
            rules,
            enqueue,
        ));
        let reconciler: Arc<dyn Reconciler> =
            Arc::new(FairReconciler::new(reconciler, mapping.account.clone()));
        let controller = match old {
            Some(old) => {
                old.controller
                    .queue()
                    .set_rate_limiter(rate_limiter(limiter));
                old.controller.swap(reconciler);
                events.restart();
                if retries_failed {
                    old.controller.queue().retry_failed();
                }
                old.controller
            }
            None => {
                let queue =
                    WorkQueue::with_rate_limiter(rate_limiter(limiter)).within(budget.clone());
                let observer = Arc::new(MapHealth::new(health.clone(), kind.clone()));
                Controller::new(target.name(), queue, reconciler, observer)
            }
        };

        let stage = Self {
            kind: kind.clone(),
            events,
            controller,
        };
        stage.set_workers(target.workers());

        stage
    }

    /// Returns a handler for the informer's events. If events have to be dropped, it logs that
    /// once.
    pub(super) fn handler(&self, handler: EventHandler, log: &Arc<PluginLog>) -> Handler {
        let events = self.events.clone();
        let controller = self.controller.clone();
        let dropped = DropLog::new(&self.kind, log);
        Arc::new(move |event: &Event| {
            if !handler.passes(event) {
                return;
            }
            let priority = priority(event);
            if !events.add(event, priority) {
                dropped.report();
            }
            controller.enqueue(event.object().key().clone(), priority);
        })
    }

    /// Sets the number of workers, at least 1.
    pub(super) fn set_workers(&self, workers: u32) {
        self.controller.set_workers(workers.max(1));
    }

    /// Returns the number of watched objects with unmapped events.
    pub(super) fn queued(&self) -> usize {
        self.controller.queue().len()
    }

    /// Retries all watched objects whose mapping failed.
    pub(super) fn retry_failed(&self) {
        self.controller.queue().retry_failed();
    }

    /// Waits for in-flight mappings, and stops the stage.
    pub(super) async fn stop(self) {
        self.controller.stop().await;
    }

    /// Stops stages in the background, with at most `grace` for in-flight mappings.
    pub(super) fn stop_all(stages: Vec<Self>, grace: Duration) {
        for stage in stages {
            tokio::spawn(async move { timeout(grace, stage.stop()).await.is_ok() });
        }
    }
}
