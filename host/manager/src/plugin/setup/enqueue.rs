//! Enqueues the keys of events.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use operetta_core::{
    controller::Controller,
    handler::{EventHandler, backlog::Backlog, event::Event, unmapped_events::MAX_OLD_STATES},
    manifest,
    object::{ObjectKey, kind::GroupVersionKind},
    ports::{LogLevel, LogRecord, LogSink},
    queue::{BucketRateLimiter, ItemExponentialFailureRateLimiter, MaxOfRateLimiter, Priority},
};
use operetta_kube::informer::Handler;

use crate::logs::store::PluginLog;

/// Returns a handler that adds an event's keys to a controller's queue, however full that is. It is
/// for events of the objects the controller reconciles.
pub(super) fn enqueue_on(controller: &Arc<Controller>, handler: EventHandler) -> Handler {
    let controller = controller.clone();
    Arc::new(move |event| {
        for key in handler.keys(event) {
            controller.enqueue_for(event, key, priority(event));
        }
    })
}

/// Returns a handler that adds keys named by other objects to a controller's queue, as far as it
/// has room: see [`Backlog`].
pub(super) fn enqueue_named(
    backlog: &Arc<Backlog>,
    kind: &GroupVersionKind,
    log: &Arc<PluginLog>,
) -> Handler {
    let backlog = backlog.clone();
    let dropped = DropLog::new(kind, log);
    Arc::new(move |event: &Event| {
        if !backlog.enqueue(event, priority(event)) {
            dropped.report();
        }
    })
}

/// Logs once that old states of objects were dropped because too many are queued.
pub(super) struct DropLog {
    kind: GroupVersionKind,
    log: Arc<PluginLog>,
    is_reported: AtomicBool,
}

impl DropLog {
    pub(super) fn new(kind: &GroupVersionKind, log: &Arc<PluginLog>) -> Self {
        Self {
            kind: kind.clone(),
            log: log.clone(),
            is_reported: AtomicBool::new(false),
        }
    }

    /// Logs it, unless that has been done.
    pub(super) fn report(&self) {
        if self.is_reported.swap(true, Ordering::Relaxed) {
            return;
        }
        let message = format!(
            "more than {} MiB of old {} states wait for the mapping: dropping states, whose keys are not enqueued",
            MAX_OLD_STATES >> 20,
            self.kind
        );
        self.log.write(LogRecord {
            level: LogLevel::Error,
            message,
            fields: vec![],
            reconcile: None,
        });
    }
}

/// Returns the priority of an event's keys: initial lists and resyncs come after changes.
pub(super) fn priority(event: &Event) -> Priority {
    match event {
        Event::Added { initial: true, .. } => Priority::Low,
        Event::Modified { .. } if event.is_resync() => Priority::Low,
        _ => Priority::Normal,
    }
}

pub(super) fn rate_limiter(limiter: &manifest::RateLimiter) -> MaxOfRateLimiter<ObjectKey> {
    let manifest::RateLimiter {
        base_delay_ms,
        max_delay_ms,
        qps,
        burst,
    } = *limiter;
    let millis = |millis: u32| Duration::from_millis(millis.into());
    MaxOfRateLimiter::new(vec![
        Box::new(ItemExponentialFailureRateLimiter::new(
            millis(base_delay_ms),
            millis(max_delay_ms),
        )),
        Box::new(BucketRateLimiter::new(qps, burst)),
    ])
}
