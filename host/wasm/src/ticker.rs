//! The epoch thread makes guests yield: while any guest runs, it advances the engine's epoch at
//! each tick of the machine's clock.
//!
//! After a second without guests it sleeps until the next one runs, so an idle host has no ticks.

use std::{
    cell::Cell,
    future::poll_fn,
    io,
    pin::pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle, Thread},
    time::{Duration, Instant},
};

/// How long a guest runs before it yields its thread, if no guest has run for long lately.
const TICK: Duration = Duration::from_millis(10);
/// The same while guests run for long, so that others get their turn sooner. A guest runs for long
/// if it does not pause within this time.
const BUSY_TICK: Duration = Duration::from_millis(1);
/// How many busy ticks follow the last long-running guest.
const BUSY_TICKS: u32 = 100;
/// How many ticks pass without a guest before the thread sleeps.
const QUIET_TICKS: u32 = 100;

thread_local! {
    /// When this thread began its current poll of a guest.
    static POLLED_SINCE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Advances the engine's epoch by one every [`TICK`] or [`BUSY_TICK`]. Dropping it ends the thread.
pub(crate) struct Ticker {
    clock: Arc<Clock>,
    /// None without ticks.
    thread: Option<JoinHandle<()>>,
}

/// The state shared by guests and the epoch thread.
#[derive(Default)]
pub(crate) struct Clock {
    /// Polls of guests so far, and how many of them have ended.
    begun: AtomicU64,
    ended: AtomicU64,
    /// Set by long-running guests.
    has_long: AtomicBool,
    asleep: AtomicBool,
    stopped: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Ticker {
    /// Never ticks, for simulations.
    pub fn stopped() -> Self {
        Self {
            clock: Arc::default(),
            thread: None,
        }
    }

    pub fn start(engine: wasmtime::Engine) -> io::Result<Self> {
        let clock: Arc<Clock> = Arc::default();
        let thread_clock = clock.clone();
        let thread = thread::Builder::new().name("operetta-epoch".into());
        let thread = thread.spawn(move || thread_clock.tick(|| engine.increment_epoch()))?;
        // The thread cannot be asleep yet: it ticks QUIET_TICKS times first.
        let _first = clock.thread.set(thread.thread().clone());
        Ok(Self {
            clock,
            thread: Some(thread),
        })
    }

    pub fn clock(&self) -> &Arc<Clock> {
        &self.clock
    }

    #[cfg(test)]
    pub fn is_running(&self) -> bool {
        self.thread.is_some()
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.clock.stopped.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ended = thread.join();
        }
    }
}

impl Clock {
    /// Called when a tick ends in the middle of a poll on this thread.
    pub fn ticked(&self, now: Instant) {
        let since = POLLED_SINCE.get();
        if since.is_some_and(|since| now.saturating_duration_since(since) >= BUSY_TICK) {
            self.has_long.store(true, Ordering::Relaxed);
        }
    }

    /// Polls a guest while the epoch advances. Cancel safe if the guest's future is.
    pub async fn run<F: Future>(&self, guest: F) -> F::Output {
        let mut guest = pin!(guest);
        poll_fn(|cx| {
            self.begin();
            let _polling = Polling(self);
            POLLED_SINCE.set(Some(Instant::now()));
            guest.as_mut().poll(cx)
        })
        .await
    }

    /// The body of the thread.
    fn tick(&self, mut tick: impl FnMut()) {
        let (mut busy, mut quiet, mut seen) = (0, 0, 0);
        while !self.stopped.load(Ordering::SeqCst) {
            thread::park_timeout(if busy > 0 { BUSY_TICK } else { TICK });
            tick();

            let has_long = self.has_long.swap(false, Ordering::Relaxed);
            busy = if has_long {
                BUSY_TICKS
            } else {
                u32::saturating_sub(busy, 1)
            };

            // `ended` first: if a poll begins and ends in between, the counts differ.
            let ended = self.ended.load(Ordering::SeqCst);
            let begun = self.begun.load(Ordering::SeqCst);
            quiet = if begun == seen && ended == begun {
                quiet + 1
            } else {
                0
            };
            seen = begun;

            if quiet >= QUIET_TICKS {
                self.sleep(seen);
                quiet = 0;
            }
        }
    }

    /// Sleeps until another poll begins.
    fn sleep(&self, begun: u64) {
        self.asleep.store(true, Ordering::SeqCst);
        // A poll begun before this store is seen below; a later one sees the store and unparks.
        while self.begun.load(Ordering::SeqCst) == begun && !self.stopped.load(Ordering::SeqCst) {
            thread::park();
        }
        self.asleep.store(false, Ordering::SeqCst);
    }

    fn begin(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }
}

/// Ends a poll on drop, so a panic ends it too.
struct Polling<'a>(&'a Clock);

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        POLLED_SINCE.set(None);
        self.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::AtomicU32,
        task::{Context, Poll},
    };

    use super::*;

    /// A thread that counts its ticks.
    struct Counting {
        ticker: Ticker,
        ticks: Arc<AtomicU32>,
    }

    impl Counting {
        fn start() -> Self {
            let clock: Arc<Clock> = Arc::default();
            let ticks: Arc<AtomicU32> = Arc::default();
            let (of_thread, counted) = (clock.clone(), ticks.clone());
            let count = move || {
                counted.fetch_add(1, Ordering::SeqCst);
            };
            let thread = thread::spawn(move || of_thread.tick(count));
            clock.thread.set(thread.thread().clone()).expect("unset");
            Self {
                ticker: Ticker {
                    clock,
                    thread: Some(thread),
                },
                ticks,
            }
        }

        fn clock(&self) -> &Arc<Clock> {
            self.ticker.clock()
        }

        fn until_asleep(&self) {
            while !self.clock().asleep.load(Ordering::SeqCst) {
                thread::sleep(TICK);
            }
        }

        fn ticks(&self) -> u32 {
            self.ticks.load(Ordering::SeqCst)
        }

        /// Polls a guest that waits until `done`.
        fn poll_until(&self, done: impl Fn() -> bool) {
            let guest = poll_fn(|_| {
                while !done() {
                    std::hint::spin_loop();
                }
                Poll::Ready(())
            });
            let mut guest = Box::pin(self.clock().run(guest));
            assert!(
                guest
                    .as_mut()
                    .poll(&mut Context::from_waker(std::task::Waker::noop()))
                    .is_ready()
            );
        }
    }

    #[test]
    fn thread_sleeps_without_guests_and_ticks_as_long_as_one_runs() {
        let counting = Counting::start();
        for _ in 0..2 {
            counting.until_asleep();
            let before = counting.ticks();
            assert!(before >= QUIET_TICKS);
            thread::sleep(10 * TICK);
            assert_eq!(counting.ticks(), before, "it ticks without a guest");
            // Longer than the time after which it sleeps: a guest that never yields is ticked all
            // the time.
            counting.poll_until(|| counting.ticks() >= before + 2 * QUIET_TICKS);
        }
    }

    #[test]
    fn only_guest_that_runs_for_long_is_long() {
        let clock: Arc<Clock> = Arc::default();
        let is_long = |ran: Duration| {
            let mut guest = Box::pin(clock.run(poll_fn(|_| {
                clock.ticked(Instant::now() + ran);
                Poll::Ready(())
            })));
            assert!(
                guest
                    .as_mut()
                    .poll(&mut Context::from_waker(std::task::Waker::noop()))
                    .is_ready()
            );
            clock.has_long.swap(false, Ordering::SeqCst)
        };
        assert!(is_long(BUSY_TICK));
        assert!(!is_long(Duration::ZERO));
        clock.ticked(Instant::now() + TICK);
        assert!(!clock.has_long.load(Ordering::SeqCst), "no guest is polled");
    }

    #[test]
    fn dropping_ends_sleeping_thread() {
        let counting = Counting::start();
        counting.until_asleep();
        drop(counting);
    }
}
