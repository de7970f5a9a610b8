//! Shutting a queue down, with or without draining it first.

use std::{hash::Hash, pin::pin};

use super::WorkQueue;

impl<K: Clone + Eq + Hash + Send + 'static> WorkQueue<K> {
    /// Shuts the queue down: later adds are ignored and running delays dropped. Consumers get the
    /// remaining keys, then None. Also ends a waiting [`Self::shut_down_with_drain`].
    pub fn shut_down(&self) {
        self.begin_shut_down(false);
        self.inner.drained.notify_waiters();
    }

    /// Like [`Self::shut_down`], but waits until every remaining key has been processed.
    /// client-go's documentation promises the same, but [its code] waits only for the keys being
    /// processed at the moment. A key added during its processing, before this call, is processed
    /// once more; later adds are ignored.
    ///
    /// Waits forever if nobody calls [`Self::get`] and [`Self::done`]; [`Self::shut_down`] ends the
    /// wait.
    ///
    /// [its code]: https://github.com/kubernetes/client-go/blob/v0.36.2/util/workqueue/queue.go#L339
    pub async fn shut_down_with_drain(&self) {
        self.begin_shut_down(true);
        let mut woken = pin!(self.inner.drained.notified());
        loop {
            woken.as_mut().enable();
            {
                let shared = self.lock();
                if shared.state.is_drained() || !shared.drain {
                    return;
                }
            }
            woken.as_mut().await;
            woken.set(self.inner.drained.notified());
        }
    }

    /// Whether the queue is shutting down or has shut down.
    pub fn shutting_down(&self) -> bool {
        self.lock().state.is_shutting_down()
    }

    fn begin_shut_down(&self, drain: bool) {
        let mut shared = self.lock();
        shared.state.shut_down();
        shared.count();
        shared.drain = drain;
        drop(shared);
        self.inner.ready.notify_waiters();
    }
}
