//! Cooperative yielding of workers.

use std::{
    future::poll_fn,
    task::{Context, Poll, Waker},
};

use tokio::task::coop;

/// Moves the task behind all others that wait for the thread, once its budget is used up.
///
/// tokio's `consume_budget` and `yield_now` are not enough: they wake the task after the thread has
/// polled its timers and sockets, and the task is then polled *before* all others. On a runtime
/// that does so after each poll, no other task would run.
pub async fn give_way() {
    poll_fn(
        |cx| match coop::poll_proceed(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(restore) => {
                restore.made_progress();
                Poll::Ready(())
            }
            Poll::Pending => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        },
    )
    .await;
}
