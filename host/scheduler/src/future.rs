//! The future that is polled only while it has a slot.
//!
//! It holds no slot while it waits for something else. The inner future is polled with a waker of
//! its own, which distinguishes a waiting future from one that spins and only yields. A future that
//! is woken during its poll asks for the next slot at once, and competes for it before its old slot
//! is granted to another. Otherwise two spinning futures of any weight would alternate, because
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

/// The inner future waits for something.
const IDLE: u8 = 0;
/// The inner future is being polled.
const POLLING: u8 = 1;
/// The inner future will be polled; another wake-up changes nothing.
const WOKEN: u8 = 2;

/// The polled nanoseconds that cost a task one unit of its budget. Tokio's budget of 128 units
/// lasts for 256 µs.
const NANOS_PER_UNIT: u64 = 2_000;

/// The number of units in a task's budget, at least as many as tokio gives.
const BUDGET: u64 = 128;

pin_project! {
    /// A future that is polled only while it has one of the scheduler's slots, and whose polls are
    /// charged to an account. Created by [`Account::run`].
    ///
    /// Cancel safe if the inner future is: dropping it returns its slot or its queue position. Once
    /// woken it must be polled or dropped soon, because it may hold a slot.
    #[must_use = "futures do nothing unless they are polled"]
    pub struct Fair<F> {
        slot: PollSlot,
        waker: Waker,
        #[pin]
        future: F,
    }
}

/// A future's poll slot, or its request for one.
struct PollSlot {
    account: Arc<Account>,
    signal: Arc<Signal>,
    in_background: bool,
    /// Set while the future waits for a slot, or has one and is not polled yet.
    ticket: Option<Ticket>,
}

/// The waker of an inner future. Also wakes its task when a slot is granted.
pub struct Signal {
    state: AtomicU8,
    /// The task's waker, replaced with every poll.
    task: Mutex<Option<Waker>>,
}

/// A poll in progress. Dropping it, also by a panic, charges the poll and returns its slot.
struct Polling<'a> {
    slot: &'a mut PollSlot,
    started: Started,
    /// True if the future wants another slot at once.
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
        // Before asking for a slot: a slot that is granted in between wakes this task.
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
    /// Begins a poll if it has a slot. Otherwise the task is woken when it has one.
    fn begin(&mut self) -> Option<Polling<'_>> {
        let begun = self
            .account
            .begin(self.ticket, &self.signal, self.in_background);
        self.ticket = begun.as_ref().err().copied();
        let state = if begun.is_err() { WOKEN } else { POLLING };

        // Acquires the writes that precede a wake-up which did not wake the task.
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

/// Takes the polled time from the task's budget. Once it is spent, the thread serves timers and
/// sockets next. Otherwise tokio first polls the task that this poll has woken, and the one that it
/// wakes, up to three: polls of spinning guests.
fn spend_budget(polled: u64) {
    let mut cx = Context::from_waker(Waker::noop());
    // Bounded also for a task without a budget.
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
        // A remaining holder of the inner waker must not keep the task alive.
        self.signal.replace_task(None);
    }
}

impl Signal {
    /// Wakes the task.
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

    /// Replaces the task's waker. The old one is dropped outside of the lock, because it may be the
    /// last owner of its task.
    fn replace_task(&self, waker: Option<Waker>) {
        let old = mem::replace(&mut *self.task.lock(), waker);
        drop(old);
    }

    /// Ends a poll, and reports whether it was woken meanwhile. The state is then still [`WOKEN`].
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
