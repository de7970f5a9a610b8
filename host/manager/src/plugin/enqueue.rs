//! Enqueueing keys of events, and the queues' rate limiters.

use std::{sync::Arc, time::Duration};

use operetta_core::{
    controller::Controller,
    handler::{EventHandler, event::Event},
    manifest,
    object::ObjectKey,
    queue::{BucketRateLimiter, ItemExponentialFailureRateLimiter, MaxOfRateLimiter, Priority},
};
use operetta_kube::informer::Handler;

/// Returns a handler that adds the keys of an event to a controller's queue.
pub(super) fn enqueue_on(controller: &Arc<Controller>, handler: EventHandler) -> Handler {
    let controller = controller.clone();
    Arc::new(move |event| {
        for key in handler.keys(event) {
            controller.enqueue_for(event, key, priority(event));
        }
    })
}

/// Returns the priority of an event's keys: initial lists and resyncs wait behind changes.
pub(super) fn priority(event: &Event) -> Priority {
    match event {
        Event::Added { initial: true, .. } => Priority::Low,
        Event::Modified { old, object } if Arc::ptr_eq(old, object) => Priority::Low,
        _ => Priority::Normal,
    }
}

/// Builds the rate limiter that a manifest declares.
pub(super) fn rate_limiter(limiter: &manifest::RateLimiter) -> MaxOfRateLimiter<ObjectKey> {
    let manifest::RateLimiter { base_delay_ms, max_delay_ms, qps, burst } = *limiter;
    let millis = |millis: u32| Duration::from_millis(millis.into());
    MaxOfRateLimiter::new(vec![
        Box::new(ItemExponentialFailureRateLimiter::new(millis(base_delay_ms), millis(max_delay_ms))),
        Box::new(BucketRateLimiter::new(qps, burst)),
    ])
}
