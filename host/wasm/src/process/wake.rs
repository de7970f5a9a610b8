//! Wakes a process that waits in `poll_oneoff`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Waker,
};

use parking_lot::Mutex;

/// Wakes a process. Does nothing unless it waits.
#[derive(Debug, Default)]
pub(super) struct ProcessWaker(Mutex<Option<Waker>>);

impl ProcessWaker {
    /// Sets whom to wake. What happened before this call wakes nobody, so look for it afterwards.
    pub fn register(&self, waker: &Waker) {
        let mut registered = self.0.lock();
        if !registered
            .as_ref()
            .is_some_and(|registered| registered.will_wake(waker))
        {
            *registered = Some(waker.clone());
        }
    }

    /// Called when the process stops waiting.
    pub fn clear(&self) {
        *self.0.lock() = None;
    }

    pub fn wake(&self) {
        let waker = self.0.lock().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// One thing that a descriptor waits for. It turns the wake-up of a stream or a future, which
/// happens once, into a state that polls can ask for again and again.
#[derive(Debug)]
pub(super) struct Event {
    process: Arc<ProcessWaker>,
    /// True if the stream or the future is worth another try.
    is_due: AtomicBool,
}

impl Event {
    /// Returns an event that is due.
    pub fn new(process: &Arc<ProcessWaker>) -> Arc<Self> {
        Arc::new(Self {
            process: process.clone(),
            is_due: AtomicBool::new(true),
        })
    }

    pub fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Acquire)
    }

    /// Called before a try. If that has to wait, the event is due when it wakes.
    pub fn begin(&self) {
        self.is_due.store(false, Ordering::Release);
    }

    /// Called after a try that did not have to wait.
    pub fn again(&self) {
        self.is_due.store(true, Ordering::Release);
    }
}

impl std::task::Wake for Event {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_due.store(true, Ordering::Release);
        self.process.wake();
    }
}
