//! Runs a future to its end on this thread. A request of the client is answered while its future is polled, so there is
//! hardly ever anything to wait for.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::{Instant, sleep_until};

use crate::Error;

/// How long a reconciler may wait for anything but the API server.
const PATIENCE: Duration = Duration::from_secs(10);

thread_local! {
    /// It runs the client's queue (tower's `Buffer`) and tokio's timers.
    static RUNTIME: Option<Runtime> = Builder::new_current_thread().enable_time().build().ok();
    /// How many requests have been answered.
    static ANSWERED: Cell<u64> = const { Cell::new(0) };
}

/// A request has been answered: whoever waits does not do so in vain.
pub(super) fn progress() {
    ANSWERED.with(|answered| answered.set(answered.get() + 1));
}

/// Calls a function within the tokio runtime of the caller, or else within this thread's.
pub(super) fn entered<T>(call: impl FnOnce() -> T) -> T {
    if Handle::try_current().is_ok() {
        return call();
    }
    RUNTIME.with(|runtime| {
        let _entered = runtime.as_ref().map(Runtime::enter);
        call()
    })
}

/// Runs a future to its end: `block_on(async { … })?`.
///
/// # Errors
/// When the future waits ten seconds for something that is not an answer of the API server, and when it is called within
/// a tokio runtime: a test that reconciles is a plain `#[test]`.
pub fn block_on<F: Future>(future: F) -> Result<F::Output, Error> {
    if Handle::try_current().is_ok() {
        return Err(Error::msg(
            "kube_rs::block_on within a tokio runtime: use a plain #[test], or await the client there",
        ));
    }
    RUNTIME.with(|runtime| {
        let Some(runtime) = runtime else { return Err(Error::msg("no tokio runtime could be made")) };
        runtime.block_on(with_patience(future, PATIENCE))
    })
}

async fn with_patience<F: Future>(future: F, patience: Duration) -> Result<F::Output, Error> {
    let mut future = pin!(future);
    loop {
        let before = ANSWERED.get();
        let mut end = pin!(sleep_until(Instant::now() + patience));
        let step = poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => end.as_mut().poll(cx).map(|()| None),
        });
        if let Some(output) = step.await {
            return Ok(output);
        }
        if ANSWERED.get() == before {
            return Err(Error::msg(format!(
                "the reconciler waited {} s for something that is not the API server; it has no sockets, and for time to \
                 pass it should return Action::requeue",
                patience.as_secs_f32()
            )));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_future_that_never_comes_ends_with_an_error_that_says_so() {
        RUNTIME.with(|runtime| {
            let runtime = runtime.as_ref().expect("a runtime");
            let never = with_patience(std::future::pending::<()>(), Duration::from_millis(10));
            let error = runtime.block_on(never).expect_err("in vain");
            assert!(error.to_string().starts_with("the reconciler waited 0.01 s"), "{error}");
        });
    }

    #[test]
    fn requests_that_are_answered_give_it_more_time() {
        RUNTIME.with(|runtime| {
            let steps = async {
                for _ in 0..4 {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    progress();
                }
            };
            let runtime = runtime.as_ref().expect("a runtime");
            runtime.block_on(with_patience(steps, Duration::from_millis(50))).expect("ends");
        });
    }

    #[tokio::test]
    async fn blocking_within_a_runtime_is_refused() {
        let error = block_on(async {}).expect_err("refused");
        assert!(error.to_string().contains("plain #[test]"), "{error}");
    }
}
