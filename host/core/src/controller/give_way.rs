//! Cooperative yielding of workers.

use std::{
    future::poll_fn,
    task::{Context, Poll, Waker},
};

use tokio::task::coop;

/// Moves the task to the back of the thread's queue once its coop budget is used up.
///
/// tokio's `consume_budget` and `yield_now` don't do that: they wake the task after the thread has
/// polled its timers and sockets, and then poll it *before* all others. On a runtime polling those
/// after every task, no other task would ever run.
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
