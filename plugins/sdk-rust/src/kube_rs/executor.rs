//! Runs a future to completion on this thread. Polling a request of the client answers it, so the
//! future rarely waits.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::{Instant, sleep_until};

use crate::Error;

/// How long a reconciler may wait for anything but the API server.
const MAX_WAIT: Duration = Duration::from_secs(10);

thread_local! {
    /// The runtime of the client's queue (tower's `Buffer`) and of tokio's timers.
    static RUNTIME: Option<Runtime> = Builder::new_current_thread().enable_time().build().ok();
    /// How many requests were answered.
    static ANSWERED: Cell<u64> = const { Cell::new(0) };
}

/// Records an answered request, which restarts the deadline of the waiting future.
pub(super) fn record_progress() {
    ANSWERED.with(|answered| answered.set(answered.get() + 1));
}

/// Calls a function within the caller's tokio runtime, or else within this thread's.
pub(super) fn entered<T>(call: impl FnOnce() -> T) -> T {
    if Handle::try_current().is_ok() {
        return call();
    }

    RUNTIME.with(|runtime| {
        let _entered = runtime.as_ref().map(Runtime::enter);
        call()
    })
}

/// Runs a future to completion: `block_on(async { … })?`.
///
/// ```
/// use operetta_sdk::kube_rs::block_on;
///
/// assert_eq!(block_on(async { 1 + 1 })?, 2);
/// # Ok::<(), operetta_sdk::Error>(())
/// ```
///
/// # Errors
/// Returns an error if the future waits ten seconds for something other than the API server, or if
/// it is called within a tokio runtime: a test that reconciles is a plain `#[test]`.
pub fn block_on<F: Future>(future: F) -> Result<F::Output, Error> {
    if Handle::try_current().is_ok() {
        return Err(Error::msg(
            "kube_rs::block_on within a tokio runtime: use a plain #[test], or await the client there",
        ));
    }

    RUNTIME.with(|runtime| {
        let Some(runtime) = runtime else {
            return Err(Error::msg("failed to build a tokio runtime"));
        };

        runtime.block_on(with_deadline(future, MAX_WAIT))
    })
}

async fn with_deadline<F: Future>(future: F, max_wait: Duration) -> Result<F::Output, Error> {
    let mut future = pin!(future);
    loop {
        let before = ANSWERED.get();
        let mut end = pin!(sleep_until(Instant::now() + max_wait));

        let step = poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => end.as_mut().poll(cx).map(|()| None),
        });

        if let Some(output) = step.await {
            return Ok(output);
        }

        if ANSWERED.get() == before {
            return Err(Error::msg(format!(
                "the reconciler waited {} s for something other than the API server: it has no sockets; to wait for time, return \
                 Action::requeue",
                max_wait.as_secs_f32()
            )));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_future_ends_with_error() {
        RUNTIME.with(|runtime| {
            let runtime = runtime.as_ref().expect("a runtime");
            let never = with_deadline(std::future::pending::<()>(), Duration::from_millis(10));
            let error = runtime.block_on(never).expect_err("in vain");

            assert!(
                error
                    .to_string()
                    .starts_with("the reconciler waited 0.01 s"),
                "{error}"
            );
        });
    }

    #[test]
    fn answered_requests_extend_deadline() {
        RUNTIME.with(|runtime| {
            let steps = async {
                for _ in 0..4 {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    record_progress();
                }
            };

            let runtime = runtime.as_ref().expect("a runtime");
            runtime
                .block_on(with_deadline(steps, Duration::from_millis(50)))
                .expect("ends");
        });
    }

    #[tokio::test]
    async fn refuses_to_block_within_runtime() {
        let error = block_on(async {}).expect_err("refused");
        assert!(error.to_string().contains("plain #[test]"), "{error}");
    }
}
