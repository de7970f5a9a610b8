//! What a reconciler is asked, and what it answers when all went well.

use std::time::Duration;

use crate::ObjectKey;

/// A key that is to be brought to its desired state. It is never an event: read the object, which may be gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The controller's name.
    pub controller: String,
    /// The object's key; its kind is the one of the controller's `for`.
    pub key: ObjectKey,
    /// How often in a row reconciling this key has failed: 0 the first time.
    pub retries: u32,
    /// Unique for each reconcile, as in logs and traces.
    pub reconcile_id: String,
}

impl Request {
    /// The request of a test: the first reconcile of a key.
    pub fn new(controller: impl Into<String>, key: impl Into<ObjectKey>) -> Self {
        Self { controller: controller.into(), key: key.into(), retries: 0, reconcile_id: String::new() }
    }
}

/// What happens to the key after a reconcile that worked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Action(pub(crate) Next);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Next {
    Done,
    Requeue,
    RequeueAfterMs(u32),
}

impl Action {
    /// Nothing more, until something changes. The retries are forgotten.
    pub const fn done() -> Self {
        Self(Next::Done)
    }

    /// Again, after the rate limiter's delay, which grows each time (controller-runtime's `Result{Requeue: true}`).
    pub const fn requeue() -> Self {
        Self(Next::Requeue)
    }

    /// Again after this time, to the millisecond, at most 49 days. The retries are forgotten; an event comes earlier.
    pub fn requeue_after(delay: Duration) -> Self {
        let milliseconds = delay.as_nanos().div_ceil(1_000_000);
        Self(Next::RequeueAfterMs(milliseconds.try_into().unwrap_or(u32::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_rounded_up_to_a_millisecond_and_capped() {
        for (delay, milliseconds) in [
            (Duration::ZERO, 0),
            (Duration::from_nanos(1), 1),
            (Duration::from_secs(5), 5_000),
            (Duration::from_secs(u64::MAX), u32::MAX),
        ] {
            assert_eq!(Action::requeue_after(delay), Action(Next::RequeueAfterMs(milliseconds)));
        }
    }
}
