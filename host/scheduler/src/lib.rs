//! Fair scheduling of plugins: the plugin with the least polled time goes next.
//!
//! A guest runs inside a future, and a spinning guest yields about every millisecond, so the unit
//! of scheduling is one poll. A [`Fair`] future is polled only while it has one of the scheduler's
//! *poll slots* (*slots* below). The time of each poll is charged to its [`Account`] (a plugin) and
//! to the account's [`Group`] (a tenant). A [`FairScheduler`] promises:
//!
//! - **Shares.** A free slot goes to the waiting group with the least virtual time (polled time
//!   divided by weight), then to the account with the least virtual time in that group, then to the
//!   account's first waiter. A tenant with a hundred plugins gets one tenant's share, and a plugin
//!   with a hundred workers one plugin's.
//! - **Work conservation.** No slot is idle while a waiter may use it. Weights matter only while
//!   slots are short.
//! - **Bounded credit.** A group or an account that was idle, or could not use its share, returns
//!   with a credit of 5 ms per slot (at weight 100, otherwise in proportion). That lets a short
//!   reconcile go first with all of its polls. It is also the longest delay a returning account can
//!   cause. New accounts and groups start without credit.
//! - **Limits.** An account or a group beyond its `cpu_limit` is throttled until its token bucket,
//!   100 ms deep, refills; [`Usage`] counts this. A poll is charged when it ends, so each slot can
//!   overshoot the limit by one poll.
//! - **No starvation**, even if futures are dropped or panic while waiting or running, and when
//!   shares change.
//!
//! # Slots and threads
//!
//! A future holds a slot only while it is ready: it gives the slot up to wait for anything else.
//! Between the grant and the poll, its task sits in the runtime's queue and the slot is reserved.
//! Other tasks in that queue ask for a slot meanwhile, get none, and join the run queue. So all
//! ready futures end up in one run queue.
//!
//! A task asking for a slot is on a thread. A task with a granted but unused slot is not. So the
//! scheduler **takes the slot back** from the second and gives it to the first, provided the first
//! has had less time and would be next. The loser returns to its old position in the run queue.
//! With as many threads as slots, an asking thread therefore always finds a slot without a poll in
//! progress, and an underserved tenant never waits for another tenant's poll to end. Time is
//! charged all the same, so no tenant gets more than its share.
//!
//! A tokio worker serves timers, sockets and wake-ups from other threads only when it is idle or
//! has polled some sixty tasks. While guests spin on all threads, such a wake-up would reach the
//! run queue hundreds of milliseconds late. So **set `event_interval(1)` and
//! `global_queue_interval(1)`** on the runtime, with as many worker threads as slots and
//! processors. An extra thread for timers doesn't help: it gets a processor only when the kernel's
//! time slice of another thread ends, some 8 ms later. A worker also prefers the task woken by the
//! last poll, up to three times in a row while the task's budget lasts, so the scheduler uses that
//! budget up after 256 µs of polls. And since tokio polls a task calling `yield_now` before all
//! others, a controller's workers yield through the scheduler instead.
//!
//! A future keeps its slot until it is polled or dropped. While a task awaits a [`Fair`] future it
//! must not do other work, such as a busy second arm of a `select!`: that would keep the slot from
//! equally served tenants.
//!
//! A spinning future must wake itself when it yields, as wasmtime's `UpdateDeadline::Yield` does.
//! It then joins the run queue before its slot is granted to another. `tokio::task::yield_now`
//! wakes later, once the thread is otherwise idle; such a future gets less than its share, never
//! more.
//!
//! # The background
//!
//! A guest can hold its thread for longer than a millisecond, in one instruction or one host call,
//! and nothing else runs on the thread meanwhile. Even polls of a millisecond delay every event and
//! response on that thread for other reconciles. So an account is demoted when some of its polls
//! last most of a millisecond or longer. Its reconciles then run on low-priority threads
//! ([`Background`]), and the kernel preempts these as soon as a host thread has work. A background
//! slot can be taken back **during its poll**: the poll continues on spare processor time and is
//! charged by its thread's processor time. Timers and sockets of background reconciles are served
//! in the foreground.
//!
//! # Limits
//!
//! Only polls are charged, in the foreground by wall time. That includes time when the operating
//! system runs something else on the polling thread, so limits throttle more on an overcommitted
//! machine. Nothing interrupts a foreground poll. Throttling ends by tokio's timers, exact to a
//! millisecond; over time the limit is exact. The first throttling starts one task to wait for
//! these timers; it ends with the scheduler. [`Fair`] must always be polled within the same tokio
//! runtime, with time enabled.
//!
//! ```
//! use operetta_scheduler::{FairScheduler, Share};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let scheduler = FairScheduler::new(2);
//! let tenant = scheduler.group("team-a", Share::default());
//! let share = Share { cpu_limit: Some(0.25), concurrency: Some(4), ..Share::default() };
//! let plugin = tenant.account(share);
//! let permit = plugin.enter().await;
//! assert_eq!(plugin.run(async { 42 }).await, 42);
//! drop(permit);
//! assert_eq!(plugin.usage().polls, 1);
//! # }
//! ```

mod background;
#[cfg(test)]
mod background_tests;
mod bucket;
mod concurrency;
mod demotion;
mod entries;
mod future;
mod group;
mod reconciler;
mod run_queue;
mod share;
pub mod state;
#[cfg(test)]
mod state_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod untaken_tests;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use operetta_core::gate::wait_time::WaitTime;
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    runtime::Handle,
    sync::Notify,
    time::{Instant, timeout},
};

pub use background::Background;
use concurrency::{ConcurrencyLimit, ConcurrencyPermit};
use demotion::Demotion;
pub use future::Fair;
use future::Signal;
pub use reconciler::FairReconciler;
pub use share::{EntryWaits, Share, Usage};
use state::{State, Ticket};

/// The scheduler of all plugins of a host.
pub struct FairScheduler {
    /// Never held while polling a future or waking a task.
    shared: Mutex<Shared>,
    /// Wakes the alarm task when its time changes or the scheduler is dropped.
    changed: Arc<Notify>,
    clock: Box<dyn Clock>,
    /// The runtime of low-priority threads, if there is one.
    background: Option<Handle>,
}

struct Shared {
    state: State<Arc<Signal>>,
    /// The latest group of each name. Entries of dropped groups linger only for a moment.
    groups: HashMap<String, Weak<Group>>,
    /// Whether the alarm task is running.
    has_alarm: bool,
    /// When the alarm is due.
    alarm_at: Option<u64>,
}

/// A tenant: tracks the usage of all its accounts together.
pub struct Group {
    name: String,
    id: usize,
    concurrency: Arc<ConcurrencyLimit>,
    scheduler: Arc<FairScheduler>,
}

/// A plugin: tracks the usage of all its futures together. Removed with its last handle and
/// [`Fair`] future.
pub struct Account {
    id: usize,
    demotion: Demotion,
    concurrency: Arc<ConcurrencyLimit>,
    /// How long reconciles waited for the account's own `concurrency`.
    own_entry: WaitTime,
    /// How long they waited for the group's.
    group_entry: WaitTime,
    group: Arc<Group>,
}

/// Permission to have a reconcile in flight. Dropping it gives the permission back.
#[must_use = "dropping the permit returns it"]
pub struct Permit {
    _account: ConcurrencyPermit,
    _group: ConcurrencyPermit,
}

struct Started {
    /// Start of the poll in nanoseconds: by the scheduler's clock, or in the background by the
    /// thread's processor time.
    at: u64,
    /// The ticket of its slot, for a background poll.
    in_background: Option<Ticket>,
}

/// A monotonic clock, in nanoseconds since an arbitrary start. Public so that tests can replace it.
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> u64;

    /// The processor time used by the calling thread.
    fn thread_time(&self) -> u64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let seconds = u64::try_from(time.tv_sec);
        let nanos = u64::try_from(time.tv_nsec);
        seconds
            .unwrap_or_default()
            .saturating_mul(1_000_000_000)
            .saturating_add(nanos.unwrap_or_default())
    }
}

struct Monotonic(Instant);

impl Clock for Monotonic {
    fn now(&self) -> u64 {
        self.0.elapsed().as_nanos().try_into().unwrap_or(u64::MAX)
    }
}

impl FairScheduler {
    /// Creates a scheduler with `slots` poll slots (futures polled at the same time), at least one.
    pub fn new(slots: usize) -> Arc<Self> {
        Self::with_clock(slots, None, Monotonic(Instant::now()))
    }

    /// Creates a scheduler that runs demoted accounts' reconciles on `background`: see
    /// [`Background::handle`].
    pub fn with_background(slots: usize, background: Handle) -> Arc<Self> {
        Self::with_clock(slots, Some(background), Monotonic(Instant::now()))
    }

    /// Creates a scheduler with another clock, with or without a runtime for demoted accounts. For
    /// tests.
    pub fn with_clock(
        slots: usize,
        background: Option<Handle>,
        clock: impl Clock + 'static,
    ) -> Arc<Self> {
        let shared = Shared {
            state: State::new(slots),
            groups: HashMap::new(),
            has_alarm: false,
            alarm_at: None,
        };

        Arc::new(Self {
            shared: Mutex::new(shared),
            changed: Arc::default(),
            clock: Box::new(clock),
            background,
        })
    }

    /// Returns the group called `name`, created if there is none, and gives it this share. A group
    /// lives as long as any handle to it or to one of its accounts.
    pub fn group(self: &Arc<Self>, name: impl Into<String>, share: Share) -> Arc<Group> {
        let name = name.into();
        let mut shared = self.shared.lock();
        if let Some(group) = shared.groups.get(&name).and_then(Weak::upgrade) {
            drop(shared);
            group.set_share(share);
            return group;
        }

        let id = shared.state.add_group(&share, self.clock.now());
        let concurrency = ConcurrencyLimit::new(share.concurrency);
        let group = Arc::new(Group {
            name: name.clone(),
            id,
            concurrency,
            scheduler: self.clone(),
        });

        shared.groups.insert(name, Arc::downgrade(&group));
        group
    }

    /// The numbers of free slots, waiters, accounts and groups. For tests.
    pub fn counts(&self) -> (usize, usize, usize, usize) {
        self.shared.lock().state.counts()
    }

    /// Runs an operation at the current time and wakes the tasks it granted a slot.
    fn update<T>(
        self: &Arc<Self>,
        operation: impl FnOnce(&mut State<Arc<Signal>>, u64, &mut Vec<Arc<Signal>>) -> T,
    ) -> T {
        let mut woken = Vec::new();
        let mut shared = self.shared.lock();
        // Read under the lock: the state's time must never go back.
        let now = self.clock.now();
        let result = operation(&mut shared.state, now, &mut woken);
        self.set_alarm(shared);
        woken.iter().for_each(|signal| signal.wake_task());
        result
    }

    /// Sets the alarm to the next due time, starting its task if necessary.
    fn set_alarm(self: &Arc<Self>, mut shared: MutexGuard<'_, Shared>) {
        let due = shared.state.next_due();
        if shared.alarm_at == due {
            return;
        }

        if !shared.has_alarm {
            // Outside a runtime, for instance in a drop, nothing is being polled either. The next
            // poll starts the task.
            let Ok(runtime) = Handle::try_current() else {
                return;
            };
            runtime.spawn(alarm(Arc::downgrade(self), self.changed.clone()));
            shared.has_alarm = true;
        }

        shared.alarm_at = due;
        drop(shared);
        self.changed.notify_one();
    }
}

/// Ends each throttling when it is due.
async fn alarm(scheduler: Weak<FairScheduler>, changed: Arc<Notify>) {
    while let Some(strong) = scheduler.upgrade() {
        let wait = strong.update(|state, now, woken| {
            state.dispatch(now, woken);
            state
                .next_due()
                .map(|due| Duration::from_nanos(due.saturating_sub(now)))
        });
        drop(strong);
        match wait {
            Some(wait) => drop(timeout(wait, changed.notified()).await),
            None => changed.notified().await,
        }
    }
}

impl Drop for FairScheduler {
    fn drop(&mut self) {
        self.changed.notify_one();
    }
}

impl Account {
    /// The account's group.
    pub fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// Changes the account's share. Reconciles in flight continue.
    pub fn set_share(&self, share: Share) {
        self.concurrency.set_limit(share.concurrency);
        self.group
            .scheduler
            .update(|state, now, woken| state.set_share(self.id, &share, now, woken));
    }

    /// The account's usage. `throttled` counts only the account's own limit; throttling by the
    /// group's is in `throttled_by_group`.
    pub fn usage(&self) -> Usage {
        self.group
            .scheduler
            .update(|state, now, _| state.usage(self.id, now))
    }

    /// Waits until first the account's and then the group's `concurrency` admits another reconcile,
    /// each first come, first served. Cancel safe: a dropped call holds no permit.
    pub async fn enter(&self) -> Permit {
        let account = self.concurrency.clone().enter(&self.own_entry).await;
        let group = self.group.concurrency.clone();
        let group = group.enter(&self.group_entry).await;
        Permit {
            _account: account,
            _group: group,
        }
    }

    /// How long reconciles have waited in [`Account::enter`].
    pub fn entry_waits(&self) -> EntryWaits {
        EntryWaits {
            account: self.own_entry.total(),
            group: self.group_entry.total(),
        }
    }

    /// Wraps `future` so that it is polled only with a slot, and charges its polls to this account.
    pub fn run<F>(self: &Arc<Self>, future: F) -> Fair<F> {
        Fair::new(self.clone(), false, future)
    }

    /// Like [`Self::run`], for a future polled on a background thread.
    pub fn run_in_background<F>(self: &Arc<Self>, future: F) -> Fair<F> {
        Fair::new(self.clone(), true, future)
    }

    fn background(&self) -> Option<&Handle> {
        self.group.scheduler.background.as_ref()
    }

    /// Asks for a slot, or claims the slot of `ticket`. Without a slot, returns the ticket to wait
    /// with.
    fn begin(
        &self,
        ticket: Option<Ticket>,
        signal: &Arc<Signal>,
        in_background: bool,
    ) -> Result<Started, Ticket> {
        let scheduler = &self.group.scheduler;
        if in_background {
            let (ticket, begins) = scheduler.update(|state, now, woken| match ticket {
                Some(ticket) => (ticket, state.begin_in_background(self.id, ticket, now)),
                None => state.want_in_background(self.id, signal.clone(), now, woken),
            });
            let started = || Started {
                at: scheduler.clock.thread_time(),
                in_background: Some(ticket),
            };
            return begins.then(started).ok_or(ticket);
        }

        scheduler.update(|state, now, woken| {
            let waits = match ticket {
                Some(ticket) => Some(ticket).filter(|ticket| !state.take(self.id, *ticket, now)),
                None => state.want(self.id, || signal.clone(), now, woken),
            };
            waits.map_or(
                Ok(Started {
                    at: now,
                    in_background: None,
                }),
                Err,
            )
        })
    }

    /// Ends a poll. With a signal in `again`, asks for another slot right away. Returns the new
    /// ticket and the poll's duration.
    fn end(&self, started: &Started, again: Option<Arc<Signal>>) -> (Option<Ticket>, u64) {
        let scheduler = &self.group.scheduler;
        // Read before taking the lock: waiting for the lock is not the guest's time.
        let clock = &scheduler.clock;
        let ended = if started.in_background.is_some() {
            clock.thread_time()
        } else {
            clock.now()
        };
        let polled = ended.saturating_sub(started.at);
        self.demotion.polled(polled);
        let ticket = scheduler.update(|state, now, woken| match started.in_background {
            None => state.done(self.id, polled, again, now, woken),
            Some(ticket) => state.done_in_background(self.id, (ticket, polled), again, now, woken),
        });

        (ticket, polled)
    }

    fn cancel(&self, ticket: Ticket) {
        drop(
            self.group
                .scheduler
                .update(|state, now, woken| state.cancel(self.id, ticket, now, woken)),
        );
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.group
            .scheduler
            .shared
            .lock()
            .state
            .remove_account(self.id);
    }
}

impl fmt::Debug for FairScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FairScheduler").finish_non_exhaustive()
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account")
            .field("group", &self.group.name)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").finish_non_exhaustive()
    }
}
