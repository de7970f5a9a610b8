//! The fair scheduler: which plugin's guest is polled next, by the time that its guests were polled so far.
//!
//! A guest runs inside a future, and one that spins gives its thread back about every millisecond. So the unit is one
//! poll. A [`Fair`] future is polled only while it has one of the scheduler's *slots*, and the measured time of each
//! poll is charged to its [`Account`] (a plugin) and to the account's [`Group`] (a tenant). A [`FairScheduler`] promises:
//!
//! - **shares**: a free slot goes to the group with the least virtual time (polled time by weight) that has a waiter,
//!   in it to the account with the least, in it to who came first. A tenant with a hundred plugins has one tenant's
//!   share, and a plugin with a hundred workers one plugin's;
//! - **no slot is idle while someone may use it**: weights and groups matter only when slots are short;
//! - **little is saved up**: whoever was idle, or could not use its share, comes back with a credit of 5 ms for each
//!   slot (at weight 100, else in proportion). That is a few turns, enough for a short reconcile to go first with all
//!   of its polls, and the longest that one who comes back can make the others wait. A new account or group has none;
//! - **limits hold**: beyond `cpu_limit` the account or group is passed over until its token bucket, 100 ms deep, is
//!   refilled; that is counted in [`Usage`]. A poll is paid when it is over, so at most one poll on each slot goes beyond;
//! - **nobody is forgotten**: not when a future is dropped, whether it waits or has a slot, not when it panics, not when
//!   shares change.
//!
//! # Slots and threads
//!
//! A future that waits for anything but a slot holds none. One that is given a slot holds it until its task comes to
//! poll: for the moment in which the task is in the runtime's queue. Meanwhile other tasks in that queue ask, get
//! nothing, and wait in the scheduler's line instead: so all who want to run are in one line and the scheduler chooses.
//!
//! One that asks is on a thread, and one that has a slot and has not come to its poll is on none. So the slot is **taken
//! back** for one who asks, has had less, and would be next: who made way is in its line again, where it was. With as
//! many threads as slots a thread that asks finds a slot that nobody polls with: so a tenant that has had less than
//! those it meets never waits for the end of their turns. Time is charged all the same, so nobody gets more than its share.
//!
//! A tokio worker looks at timers and sockets, and at what other threads have woken, only when it is idle or has polled
//! some sixty tasks: while guests spin on all threads, whoever is woken so comes to the line hundreds of milliseconds
//! late. So **let the runtime look after each poll** (`event_interval(1)` and `global_queue_interval(1)`), and have as many
//! worker threads as the scheduler has slots, and as there are processors. A thread more, that only serves timers, gets a
//! processor when the kernel's slice of another one is over: after some 8 ms. Even so a worker first polls whom the last
//! poll has woken, up to three in a row, while the task's budget lasts: so the budget is spent with 256 µs of polls. And
//! one that yields with tokio's own means is polled again before all others: a controller's workers do it otherwise.
//!
//! No slot is given away because its future does not come. One that is neither polled nor dropped after its wake-up, in
//! a `select!` whose other arm is busy, say, keeps its slot from all who have had as much for so long: the task that
//! awaits it shall do nothing else meanwhile.
//!
//! A future that spins has to wake itself at once when it yields, as wasmtime's `UpdateDeadline::Yield` does: then it is
//! in the line before its slot is given away. `tokio::task::yield_now` wakes later, when the thread has nothing else to
//! do. Such a future has not asked for anything when its slot becomes free: it gets less than its share, never more.
//!
//! # In the background
//!
//! What keeps its thread for longer than a turn, in one instruction or one call of the host, nobody else gets past: and
//! even beside turns of a millisecond, what a reconcile needs of the host, an event, an answer, comes to its thread only
//! after one, each time. So an account of which some polls took most of a turn, or more, has its reconciles run on threads
//! of a lower priority ([`Background`]), from which the kernel takes the processor as soon as a thread of the host has
//! something to do. Their slots can be taken back **while they are polled with**, for one that asks in the foreground,
//! has had less and would be next: the poll goes on beside it, on what the other one leaves, and is charged by its
//! thread's processor time. Timers and sockets that such a reconcile waits for are served in the foreground.
//!
//! # Limits of it
//!
//! Only what is polled is charged, in the foreground by wall time: what the operating system takes from a thread that
//! polls is charged too, so on an overbooked machine limits hold back more than they say. Nothing interrupts a poll
//! there. Throttling ends by tokio's timers, to the millisecond; over time the limit is exact. There is no task behind
//! it but one, from the first throttling on, that waits for these timers and ends with the scheduler. [`Fair`] has to be
//! polled within a tokio runtime with time enabled, always the same one.
//!
//! ```
//! use operetta_scheduler::{FairScheduler, Share};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let scheduler = FairScheduler::new(2);
//! let tenant = scheduler.group("team-a", Share::default());
//! let plugin = tenant.account(Share { cpu_limit: Some(0.25), concurrency: Some(4), ..Share::default() });
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
mod demotion;
mod entries;
mod future;
mod group;
#[cfg(test)]
mod model;
mod reconciler;
mod run_queue;
mod share;
mod state;
#[cfg(test)]
mod state_tests;
#[cfg(test)]
mod stress;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod untaken_tests;
mod worker_slots;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};
use tokio::{runtime::Handle, sync::Notify, time::timeout};

pub use background::Background;
use demotion::Demotion;
pub use future::Fair;
use future::Signal;
pub use reconciler::FairReconciler;
pub use share::{Share, Usage};
use state::{State, Ticket};
use worker_slots::{WorkerSlot, WorkerSlots};

/// The scheduler over all plugins of a host.
pub struct FairScheduler {
    /// Never held while a future is polled or a task is woken.
    shared: Mutex<Shared>,
    /// Wakes the alarm when its next time has changed, or the scheduler is gone.
    changed: Arc<Notify>,
    clock: Box<dyn Clock>,
    /// Threads of a lower priority.
    background: Option<Handle>,
}

struct Shared {
    state: State<Arc<Signal>>,
    /// The group made last for each name; entries of groups that are gone remain for a moment only.
    groups: HashMap<String, Weak<Group>>,
    /// True if the alarm task was started.
    has_alarm: bool,
    /// The time that the alarm waits for, or is on its way to.
    alarm_at: Option<u64>,
}

/// A tenant: what it uses, all of its accounts together.
pub struct Group {
    name: String,
    id: usize,
    worker_slots: Arc<WorkerSlots>,
    scheduler: Arc<FairScheduler>,
}

/// A plugin: what it uses, all of its futures together. Gone when its last handle, [`Fair`] and [`Permit`] are.
pub struct Account {
    id: usize,
    /// Decides whether the account runs in the background.
    demotion: Demotion,
    worker_slots: Arc<WorkerSlots>,
    group: Arc<Group>,
}

/// A worker_slot among the reconciles in flight; dropping it gives it back.
#[must_use = "dropping it gives the worker_slot back"]
pub struct Permit {
    _account: WorkerSlot,
    _group: WorkerSlot,
}

/// A poll under way.
struct Started {
    /// The start, in nanoseconds: of the scheduler's clock, and in the background of the thread's.
    at: u64,
    /// The ticket of its slot in the background.
    in_background: Option<Ticket>,
}

/// A clock: nanoseconds since some beginning, never falling.
trait Clock: Send + Sync {
    fn now(&self) -> u64;

    /// Processor time of this thread.
    fn of_thread(&self) -> u64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let seconds = u64::try_from(time.tv_sec);
        let nanos = u64::try_from(time.tv_nsec);
        seconds.unwrap_or_default().saturating_mul(1_000_000_000).saturating_add(nanos.unwrap_or_default())
    }
}

/// The time since this instant.
struct Monotonic(Instant);

impl Clock for Monotonic {
    fn now(&self) -> u64 {
        self.0.elapsed().as_nanos().try_into().unwrap_or(u64::MAX)
    }
}

impl FairScheduler {
    /// With so many slots: how many futures may be polled at the same time. At least one.
    pub fn new(slots: usize) -> Arc<Self> {
        Self::with(slots, None, Monotonic(Instant::now()))
    }

    /// The same; reconciles of accounts that keep their thread for long run on this runtime: [`Background::handle`].
    pub fn with_background(slots: usize, background: Handle) -> Arc<Self> {
        Self::with(slots, Some(background), Monotonic(Instant::now()))
    }

    fn with(slots: usize, background: Option<Handle>, clock: impl Clock + 'static) -> Arc<Self> {
        let shared = Shared { state: State::new(slots), groups: HashMap::new(), has_alarm: false, alarm_at: None };
        Arc::new(Self { shared: Mutex::new(shared), changed: Arc::default(), clock: Box::new(clock), background })
    }

    /// The group of this name: the one there is, with this share from now on, or a new one. It is there as long as
    /// anybody has a handle of it or of one of its accounts.
    pub fn group(self: &Arc<Self>, name: impl Into<String>, share: Share) -> Arc<Group> {
        let name = name.into();
        let mut shared = self.shared.lock();
        if let Some(group) = shared.groups.get(&name).and_then(Weak::upgrade) {
            drop(shared);
            group.set_share(share);
            return group;
        }
        let id = shared.state.add_group(&share, self.clock.now());
        let worker_slots = WorkerSlots::new(share.concurrency);
        let group = Arc::new(Group { name: name.clone(), id, worker_slots, scheduler: self.clone() });
        shared.groups.insert(name, Arc::downgrade(&group));
        group
    }

    /// Carries out an operation at its time and wakes whom it gave a slot.
    fn update<T>(
        self: &Arc<Self>,
        operation: impl FnOnce(&mut State<Arc<Signal>>, u64, &mut Vec<Arc<Signal>>) -> T,
    ) -> T {
        let mut woken = Vec::new();
        let mut shared = self.shared.lock();
        // Read under the lock: so the state's time never falls.
        let now = self.clock.now();
        let result = operation(&mut shared.state, now, &mut woken);
        self.set_alarm(shared);
        woken.iter().for_each(|signal| signal.wake_task());
        result
    }

    /// Lets the alarm wait for the right time.
    fn set_alarm(self: &Arc<Self>, mut shared: MutexGuard<'_, Shared>) {
        let due = shared.state.next_due();
        if shared.alarm_at == due {
            return;
        }
        if !shared.has_alarm {
            // Outside of a runtime, as in a drop, nobody is polled either: the next poll starts it.
            let Ok(runtime) = Handle::try_current() else { return };
            runtime.spawn(alarm(Arc::downgrade(self), self.changed.clone()));
            shared.has_alarm = true;
        }
        shared.alarm_at = due;
        drop(shared);
        self.changed.notify_one();
    }
}

/// Ends each throttling at its time.
async fn alarm(scheduler: Weak<FairScheduler>, changed: Arc<Notify>) {
    while let Some(strong) = scheduler.upgrade() {
        let wait = strong.update(|state, now, woken| {
            state.dispatch(now, woken);
            state.next_due().map(|due| Duration::from_nanos(due.saturating_sub(now)))
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

    /// Changes what the account may use, from now on. Nobody is thrown out.
    pub fn set_share(&self, share: Share) {
        self.worker_slots.set_limit(share.concurrency);
        self.group.scheduler.update(|state, now, woken| state.set_share(self.id, &share, now, woken));
    }

    /// Returns the usage of the account. `throttled` counts the account's own limit: time that the group's limit takes
    /// is counted there, and here in `wait`.
    pub fn usage(&self) -> Usage {
        self.group.scheduler.update(|state, now, _| state.usage(self.id, now))
    }

    /// Waits for a worker_slot among the account's reconciles in flight, then among the group's; each first come, first
    /// served. Cancel safe: a dropped call has taken no worker_slot.
    pub async fn enter(&self) -> Permit {
        let account = self.worker_slots.clone().enter().await;
        let group = self.group.worker_slots.clone().enter().await;
        Permit { _account: account, _group: group }
    }

    /// Lets the future be polled in turn, on this account.
    pub fn run<F>(self: &Arc<Self>, future: F) -> Fair<F> {
        Fair::new(self.clone(), false, future)
    }

    /// The same on one of the background's threads.
    fn run_in_background<F>(self: &Arc<Self>, future: F) -> Fair<F> {
        Fair::new(self.clone(), true, future)
    }

    /// Returns the runtime of demoted accounts.
    fn background(&self) -> Option<&Handle> {
        self.group.scheduler.background.as_ref()
    }

    /// Asks for a slot, or whether the ticket has one. Otherwise returns the ticket to wait with.
    fn begin(&self, ticket: Option<Ticket>, signal: &Arc<Signal>, in_background: bool) -> Result<Started, Ticket> {
        let scheduler = &self.group.scheduler;
        if in_background {
            let (ticket, begins) = scheduler.update(|state, now, woken| match ticket {
                Some(ticket) => (ticket, state.begin_in_background(self.id, ticket, now)),
                None => state.want_in_background(self.id, signal.clone(), now, woken),
            });
            let started = || Started { at: scheduler.clock.of_thread(), in_background: Some(ticket) };
            return begins.then(started).ok_or(ticket);
        }
        scheduler.update(|state, now, woken| {
            let waits = match ticket {
                Some(ticket) => Some(ticket).filter(|ticket| !state.take(self.id, *ticket, now)),
                None => state.want(self.id, || signal.clone(), now, woken),
            };
            waits.map_or(Ok(Started { at: now, in_background: None }), Err)
        })
    }

    /// Ends a poll; with a signal another one is wanted at once. Returns its ticket, and what the poll took.
    fn end(&self, started: &Started, again: Option<Arc<Signal>>) -> (Option<Ticket>, u64) {
        let scheduler = &self.group.scheduler;
        // Before the lock: waiting for that is not the guest's time.
        let clock = &scheduler.clock;
        let ended = if started.in_background.is_some() { clock.of_thread() } else { clock.now() };
        let polled = ended.saturating_sub(started.at);
        self.demotion.polled(polled);
        let ticket = scheduler.update(|state, now, woken| match started.in_background {
            None => state.done(self.id, polled, again, now, woken),
            Some(ticket) => state.done_in_background(self.id, (ticket, polled), again, now, woken),
        });
        (ticket, polled)
    }

    fn cancel(&self, ticket: Ticket) {
        drop(self.group.scheduler.update(|state, now, woken| state.cancel(self.id, ticket, now, woken)));
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.group.scheduler.shared.lock().state.remove_account(self.id);
    }
}

impl fmt::Debug for FairScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FairScheduler").finish_non_exhaustive()
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").field("group", &self.group.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").finish_non_exhaustive()
    }
}
