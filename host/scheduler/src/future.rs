//! A future that is polled only while it has a slot.
//!
//! It gives the slot up while it waits for something else. The inner future has a waker of its own,
//! so we can tell a waiting future from one that spins and merely yields. A future woken during its
//! poll asks for the next slot right away and competes for it before its old slot is granted to
//! anyone else. Otherwise two spinning futures would take turns whatever their weights, because
//! each would be absent whenever the other's slot becomes free.

use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use parking_lot::Mutex;
use pin_project_lite::pin_project;
use tokio::task::coop;

use crate::{Account, Started, state::Ticket};

/// The inner future is waiting for something.
const IDLE: u8 = 0;
/// The inner future is being polled.
const POLLING: u8 = 1;
/// The inner future is about to be polled; further wake-ups change nothing.
const WOKEN: u8 = 2;

/// Polled nanoseconds per unit of a task's coop budget. At this rate tokio's budget of 128 units
/// lasts 256 µs.
const NANOS_PER_UNIT: u64 = 2_000;

/// Units in a task's budget; at least as many as tokio grants.
const BUDGET: u64 = 128;

pin_project! {
    /// A future polled only while it has one of the scheduler's slots. Its polls are charged to an
    /// account. Created by [`Account::run`].
    ///
    /// Cancel safe if the inner future is: dropping it returns its slot or its place in the queue.
    /// Once woken, poll or drop it soon: it may hold a slot.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct Fair<F> {
        slot: PollSlot,
        waker: Waker,
        #[pin]
        future: F,
    }
}

/// A future's poll slot, or its pending request for one.
struct PollSlot {
    account: Arc<Account>,
    signal: Arc<Signal>,
    in_background: bool,
    /// Set from the request until the poll starts, that is, while waiting and while the granted
    /// slot is still unused.
    ticket: Option<Ticket>,
}

/// The inner future's waker. Also wakes the task when it is granted a slot.
pub struct Signal {
    state: AtomicU8,
    /// The task's waker, replaced with every poll.
    task: Mutex<Option<Waker>>,
}

/// A poll in progress. Dropping it, even during a panic, charges the poll and returns the slot.
struct Polling<'a> {
    slot: &'a mut PollSlot,
    started: Started,
    /// Whether the future wants another slot right away.
    again: bool,
    ended: bool,
}

impl<F> Fair<F> {
    pub(super) fn new(account: Arc<Account>, in_background: bool, future: F) -> Self {
        let signal = Arc::new(Signal {
            state: AtomicU8::new(IDLE),
            task: Mutex::default(),
        });
        let waker = Waker::from(signal.clone());

        Self {
            slot: PollSlot {
                account,
                signal,
                in_background,
                ticket: None,
            },
            waker,
            future,
        }
    }
}

impl<F: Future> Future for Fair<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        // Set the waker before asking for a slot: the slot may be granted at any moment from then
        // on.
        this.slot.signal.set_task(cx.waker());
        let Some(mut polling) = this.slot.begin() else {
            return Poll::Pending;
        };
        let result = this.future.poll(&mut Context::from_waker(this.waker));
        polling.again = result.is_pending() && polling.slot.signal.was_woken();
        spend_budget(polling.end());
        result
    }
}

impl PollSlot {
    /// Begins a poll if there is a slot for it. Otherwise the task is woken once there is one.
    fn begin(&mut self) -> Option<Polling<'_>> {
        let begun = self
            .account
            .begin(self.ticket, &self.signal, self.in_background);
        self.ticket = begun.as_ref().err().copied();
        let state = if begun.is_err() { WOKEN } else { POLLING };

        // Acquire, because a wake-up in the states POLLING and WOKEN wakes no task: this swap is
        // what makes the waker's earlier writes visible to the poll.
        self.signal.state.swap(state, Ordering::AcqRel);
        begun.ok().map(|started| Polling {
            slot: self,
            started,
            again: false,
            ended: false,
        })
    }
}

impl Polling<'_> {
    /// Returns the slot. The result is the poll's duration in nanoseconds.
    fn end(&mut self) -> u64 {
        self.ended = true;
        let again = self.again.then(|| self.slot.signal.clone());
        let (ticket, polled) = self.slot.account.end(&self.started, again);
        self.slot.ticket = ticket;
        polled
    }
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.end();
        }
    }
}

/// Charges the polled time to the task's coop budget. When it runs out, tokio serves timers and
/// sockets next. Otherwise it would first run the task woken by this poll, then the one woken by
/// that, up to three in a row, and all of them may be spinning guests.
fn spend_budget(polled: u64) {
    let mut cx = Context::from_waker(Waker::noop());
    // Bounded, because a task may also run without a budget.
    for _ in 0..BUDGET.min(polled / NANOS_PER_UNIT) {
        match coop::poll_proceed(&mut cx) {
            Poll::Ready(restore) => restore.made_progress(),
            Poll::Pending => break,
        }
    }
}

impl Drop for PollSlot {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.account.cancel(ticket);
        }
        // Whoever still holds the inner waker must not keep the task alive.
        self.signal.replace_task(None);
    }
}

impl Signal {
    pub fn wake_task(&self) {
        let task = self.task.lock().clone();
        if let Some(task) = task {
            task.wake();
        }
    }

    fn set_task(&self, waker: &Waker) {
        let known = self.task.lock();
        if known.as_ref().is_some_and(|known| known.will_wake(waker)) {
            return;
        }
        drop(known);
        self.replace_task(Some(waker.clone()));
    }

    /// Replaces the task's waker. Drops the old one outside the lock, since it may be the last
    /// owner of its task.
    fn replace_task(&self, waker: Option<Waker>) {
        let old = mem::replace(&mut *self.task.lock(), waker);
        drop(old);
    }

    /// Ends a poll and reports whether a wake-up came meanwhile. If so, the state stays [`WOKEN`].
    fn was_woken(&self) -> bool {
        self.state
            .compare_exchange(POLLING, IDLE, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::AcqRel) == IDLE {
            self.wake_task();
        }
    }
}
