//! The end of a queue: at once, or after what is left has been processed.

use std::{hash::Hash, pin::pin};

use super::WorkQueue;

impl<K: Clone + Eq + Hash + Send + 'static> WorkQueue<K> {
    /// Shuts the queue down: later adds are ignored and running delays are dropped. Consumers get
    /// the remaining keys, then None. Ends a waiting [`Self::shut_down_with_drain`].
    pub fn shut_down(&self) {
        self.begin_shut_down(false);
        self.inner.drained.notify_waiters();
    }

    /// Shuts down as [`Self::shut_down`] does, then waits until every key that is left has been
    /// processed: client-go's documentation promises that, while its code waits only for the keys
    /// being processed at the moment. A key that was added while being processed, before the call,
    /// is processed once more; later adds are ignored.
    ///
    /// Waits forever when nobody calls [`Self::get`] and [`Self::done`]; [`Self::shut_down`] ends
    /// it.
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

    /// Reports whether the queue is shutting down or has shut down.
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
