//! The stage between an informer and a controller whose plugin maps that kind itself: a controller
//! of its own, whose keys are those of the watched objects, with the rate limiter, the account and
//! the status of the plugin's reconciles.
//!
//! It survives a code swap as the controller's queue does: the new code maps the events that were
//! not mapped yet.

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
    /// The account that is charged.
    pub(super) account: Arc<Account>,
}

/// The input of setting up a stage.
pub(super) struct StageSetup<'a> {
    pub(super) kind: &'a GroupVersionKind,
    pub(super) target: &'a Arc<Controller>,
    /// The rules for the keys of the mapping.
    pub(super) rules: KeyRules,
    pub(super) mapping: &'a Mapping,
    pub(super) limiter: &'a RateLimiter,
    pub(super) health: &'a Arc<Health>,
    /// The budget of the namespace's queues.
    pub(super) budget: &'a Arc<QueueBudget>,
    /// True if failed objects are to be mapped again now.
    pub(super) retries_failed: bool,
}

/// Maps the events of one source of a controller.
pub(super) struct MapStage {
    kind: GroupVersionKind,
    events: Arc<UnmappedEvents>,
    /// The controller of mappings, with the name of the controller that it feeds.
    controller: Arc<Controller>,
}

impl MapStage {
    /// Returns a stage on new code: the one in `before` of the same kind, or else a new one.
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
            // Not the controller itself, which may be stopped and dropped first.
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

    /// Returns a handler of the informer's events. Logs once when events had to be dropped.
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

    /// Changes the number of workers; at least one maps.
    pub(super) fn set_workers(&self, workers: u32) {
        self.controller.set_workers(workers.max(1));
    }

    /// Returns the number of watched objects with events that are not mapped yet.
    pub(super) fn queued(&self) -> usize {
        self.controller.queue().len()
    }

    /// Retries all watched objects that failed to be mapped.
    pub(super) fn retry_failed(&self) {
        self.controller.queue().retry_failed();
    }

    /// Stops the stage once the mappings in flight have ended.
    pub(super) async fn stop(self) {
        self.controller.stop().await;
    }

    /// Stops stages in the background, for at most `grace`.
    pub(super) fn stop_all(stages: Vec<Self>, grace: Duration) {
        for stage in stages {
            tokio::spawn(async move { timeout(grace, stage.stop()).await.is_ok() });
        }
    }
}
