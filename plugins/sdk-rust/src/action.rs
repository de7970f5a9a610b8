//! The request of a reconcile, and its result.

use std::time::Duration;

use crate::ObjectKey;

/// A request to reconcile one key (controller-runtime's `reconcile.Request`). It carries no event:
/// read the object, which may not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The controller's name.
    pub controller: String,
    /// The key of an object of the controller's kind.
    pub key: ObjectKey,
    /// The number of consecutive failures of this key; 0 at first.
    pub retries: u32,
    /// The unique id of the reconcile, as in logs and traces.
    pub reconcile_id: String,
}

impl Request {
    /// Returns the request of a key's first reconcile, for tests.
    pub fn new(controller: impl Into<String>, key: impl Into<ObjectKey>) -> Self {
        Self {
            controller: controller.into(),
            key: key.into(),
            retries: 0,
            reconcile_id: String::new(),
        }
    }
}

/// The next step for a key after a reconcile that succeeded.
///
/// ```
/// # use std::time::Duration;
/// # use operetta_sdk::Action;
/// let poll = Action::requeue_after(Duration::from_secs(30));
/// assert_ne!(poll, Action::done());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Action(pub(crate) Next);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Next {
    Done,
    Requeue,
    RequeueAfterMs(u32),
}

impl Action {
    /// Waits for the next event, and resets the failures of the key.
    pub const fn done() -> Self {
        Self(Next::Done)
    }

    /// Requeues the key after the rate limiter's delay, which grows each time (controller-runtime's
    /// `Result{Requeue: true}`).
    pub const fn requeue() -> Self {
        Self(Next::Requeue)
    }

    /// Requeues the key after this time, rounded up to a millisecond and at most 49 days, and
    /// resets its failures. An event may enqueue it earlier.
    pub fn requeue_after(delay: Duration) -> Self {
        let milliseconds = delay.as_nanos().div_ceil(1_000_000);
        Self(Next::RequeueAfterMs(
            milliseconds.try_into().unwrap_or(u32::MAX),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_delay_up_to_milliseconds_and_caps_it() {
        for (delay, milliseconds) in [
            (Duration::ZERO, 0),
            (Duration::from_nanos(1), 1),
            (Duration::from_secs(5), 5_000),
            (Duration::from_secs(u64::MAX), u32::MAX),
        ] {
            assert_eq!(
                Action::requeue_after(delay),
                Action(Next::RequeueAfterMs(milliseconds))
            );
        }
    }
}
