//! Cooperative yielding of the workers.

use std::{
    future::poll_fn,
    task::{Context, Poll, Waker},
};

use tokio::task::coop;

/// Goes behind those who wait for the thread, if the task's budget is used up.
///
/// tokio's `consume_budget` and `yield_now` wake the task when the thread has looked at its timers and sockets, and then
/// poll it *before* all others: on a runtime that looks after each poll nobody else is polled any more.
pub async fn give_way() {
    poll_fn(|cx| match coop::poll_proceed(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(restore) => {
            restore.made_progress();
            Poll::Ready(())
        }
        Poll::Pending => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}
