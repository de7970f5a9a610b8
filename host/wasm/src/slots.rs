//! The slots of the instance pool, shared fairly among tenants.
//!
//! A call takes one slot, or several if its component has many memories or tables. When none is
//! free, calls queue, and the next slots go to the queued tenant with the fewest. A tenant with
//! slow calls (sleeping, or waiting for the API server) therefore delays its own calls, not those
//! of others.
//!
//! Warm instances hold slots between calls and count the same. They get at most a quarter of the
//! pool, and end as soon as a call would have to wait for their slots.

use std::{
    collections::{HashMap, VecDeque},
    mem,
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The owner of slots: a namespace, or empty for the host itself.
pub(crate) type Tenant = Arc<str>;

pub(crate) struct Slots {
    total: u32,
    state: Mutex<State>,
}

struct State {
    free: u32,
    /// Slots per tenant, without tenants that have none.
    in_use: HashMap<Tenant, u32>,
    /// Waiting calls per tenant, in order of arrival. No queue is empty.
    queues: HashMap<Tenant, VecDeque<Waiter>>,
    /// Numbers the waiting calls, to serve tenants with equally many slots in order of arrival.
    arrivals: u64,
}

struct Waiter {
    count: u32,
    arrival: u64,
    grant: oneshot::Sender<SlotPermit>,
}

/// The slots of a call or a warm instance, given back on drop.
pub(crate) struct SlotPermit {
    slots: Arc<Slots>,
    tenant: Tenant,
    count: u32,
}

impl Slots {
    pub(crate) fn new(total: u32) -> Arc<Self> {
        Arc::new(Self {
            total,
            state: Mutex::new(State {
                free: total,
                in_use: HashMap::new(),
                queues: HashMap::new(),
                arrivals: 0,
            }),
        })
    }

    pub(crate) fn total(&self) -> u32 {
        self.total
    }

    /// Takes free slots, unless other calls are waiting.
    pub(crate) fn try_acquire(self: &Arc<Self>, tenant: &Tenant, count: u32) -> Option<SlotPermit> {
        let mut state = self.state.lock();
        (state.queues.is_empty() && state.free >= count)
            .then(|| self.take(&mut state, tenant, count))
    }

    /// Waits for its turn and takes slots. `count` is at most [`Self::total`]. Cancel safe.
    pub(crate) async fn acquire(self: &Arc<Self>, tenant: &Tenant, count: u32) -> SlotPermit {
        debug_assert!(count <= self.total, "it would wait forever");

        let granted = {
            let mut state = self.state.lock();
            if state.queues.is_empty() && state.free >= count {
                return self.take(&mut state, tenant, count);
            }

            let (grant, granted) = oneshot::channel();
            let arrival = state.arrivals;
            state.arrivals += 1;
            let queue = state.queues.entry(tenant.clone()).or_default();
            queue.push_back(Waiter {
                count,
                arrival,
                grant,
            });
            self.grant(&mut state);
            granted
        };

        let mut call = WaitingCall {
            slots: self,
            granted: Some(granted),
        };
        let granted = call.granted.as_mut().expect("it was set just now");
        let permit = granted.await;
        call.granted = None;
        permit.expect("a call that waits is in the queue until it has its slots")
    }

    pub(crate) fn is_contended(&self) -> bool {
        !self.state.lock().queues.is_empty()
    }

    fn take(self: &Arc<Self>, state: &mut State, tenant: &Tenant, count: u32) -> SlotPermit {
        state.free -= count;
        *state.in_use.entry(tenant.clone()).or_default() += count;
        SlotPermit {
            slots: self.clone(),
            tenant: tenant.clone(),
            count,
        }
    }

    /// Gives free slots to waiting calls. If the next call needs more than are free, smaller ones
    /// wait behind it: otherwise it could starve.
    fn grant(self: &Arc<Self>, state: &mut State) {
        loop {
            let in_use = |tenant: &Tenant| state.in_use.get(tenant).copied().unwrap_or_default();
            let next = state
                .queues
                .iter()
                .filter_map(|(tenant, queue)| Some((tenant, queue.front()?)))
                .min_by_key(|(tenant, first)| (in_use(tenant), first.arrival));
            let Some((tenant, first)) = next else { return };
            if first.count > state.free && !first.grant.is_closed() {
                return;
            }

            let tenant = tenant.clone();
            let queue = state.queues.get_mut(&tenant).expect("it waits");
            let first = queue.pop_front().expect("it waits");
            if queue.is_empty() {
                state.queues.remove(&tenant);
            }
            if first.grant.is_closed() {
                continue;
            }

            let permit = self.take(state, &tenant, first.count);
            if let Err(permit) = first.grant.send(permit) {
                // Cancelled just now. Dropping the permit would lock the state again.
                state.give_back(&permit.tenant, permit.count);
                permit.forget();
            }
        }
    }
}

/// Passes the turn on if a waiting call is cancelled.
struct WaitingCall<'a> {
    slots: &'a Arc<Slots>,
    /// None once the call has its slots.
    granted: Option<oneshot::Receiver<SlotPermit>>,
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        if let Some(granted) = self.granted.take() {
            // Gives back slots granted just now.
            drop(granted);
            self.slots.grant(&mut self.slots.state.lock());
        }
    }
}

impl State {
    fn give_back(&mut self, tenant: &Tenant, count: u32) {
        self.free += count;
        if let Some(slots) = self.in_use.get_mut(tenant) {
            *slots -= count;
            if *slots == 0 {
                self.in_use.remove(tenant);
            }
        }
    }
}

impl SlotPermit {
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Drops the permit without giving back its slots.
    fn forget(mut self) {
        self.count = 0;
    }
}

impl Drop for SlotPermit {
    fn drop(&mut self) {
        let count = mem::take(&mut self.count);
        if count > 0 {
            let mut state = self.slots.state.lock();
            state.give_back(&self.tenant, count);
            self.slots.grant(&mut state);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, future::BoxFuture};
    use rand::{RngExt as _, SeedableRng, rngs::StdRng};

    use super::*;

    fn tenant(name: &str) -> Tenant {
        name.into()
    }

    fn wait(slots: &Arc<Slots>, tenant: &Tenant, count: u32) -> BoxFuture<'static, SlotPermit> {
        let (slots, tenant) = (slots.clone(), tenant.clone());
        let mut waiting = async move { slots.acquire(&tenant, count).await }.boxed();
        assert!((&mut waiting).now_or_never().is_none(), "it waits");
        waiting
    }

    #[test]
    fn next_slot_goes_to_the_tenant_that_has_the_fewest() {
        let slots = Slots::new(3);
        let (a, b) = (tenant("a"), tenant("b"));
        let mut held: Vec<_> = (0..3).map(|_| slots.try_acquire(&a, 1)).collect();
        assert!(held.iter().all(Option::is_some) && slots.try_acquire(&b, 1).is_none());

        let mut first = wait(&slots, &a, 1);
        let mut second = wait(&slots, &b, 1);
        held.pop();
        assert!((&mut first).now_or_never().is_none(), "a has two more");
        let second = (&mut second).now_or_never().expect("b has none");
        held.pop();
        assert!((&mut first).now_or_never().is_some());
        drop((held, second));
    }

    #[test]
    fn large_call_is_not_overtaken_for_ever() {
        let slots = Slots::new(4);
        let (a, b) = (tenant("a"), tenant("b"));
        let held: Vec<_> = (0..4).map(|_| slots.try_acquire(&a, 1)).collect();
        let mut large = wait(&slots, &b, 4);
        let mut small = wait(&slots, &a, 1);
        drop(held);
        let large = (&mut large)
            .now_or_never()
            .expect("it was first, and has none");
        assert!((&mut small).now_or_never().is_none());
        drop(large);
        assert!((&mut small).now_or_never().is_some());
    }

    #[test]
    fn cancelled_call_leaves_its_slots() {
        let slots = Slots::new(1);
        let a = tenant("a");
        let held = slots.try_acquire(&a, 1);
        let cancelled = wait(&slots, &a, 1);
        let mut next = wait(&slots, &a, 1);
        drop(cancelled);
        drop(held);
        drop((&mut next).now_or_never().expect("the slot is free"));

        let held = slots.try_acquire(&a, 1).expect("free");
        let granted = wait(&slots, &a, 1);
        drop(held);
        drop(granted);
        assert!(
            slots.try_acquire(&a, 1).is_some(),
            "it was granted, and is free again"
        );
    }

    #[test]
    fn no_slot_is_lost_or_given_twice() {
        let seed = rand::random();
        let mut random = StdRng::seed_from_u64(seed);
        let total = 7;
        let slots = Slots::new(total);
        let tenants = ["a", "b", "c"].map(tenant);
        let mut held = Vec::new();
        let mut waiting: Vec<BoxFuture<'static, SlotPermit>> = Vec::new();

        for _ in 0..5_000 {
            match random.random_range(0..4) {
                0 if !held.is_empty() => {
                    held.swap_remove(random.random_range(0..held.len()));
                }
                1 if !waiting.is_empty() => {
                    drop(waiting.swap_remove(random.random_range(0..waiting.len())));
                }
                _ => {
                    let (slots, tenant) =
                        (slots.clone(), tenants[random.random_range(0..3)].clone());
                    let count = random.random_range(1..=4);
                    waiting.push(async move { slots.acquire(&tenant, count).await }.boxed());
                }
            }
            let mut at = 0;
            while at < waiting.len() {
                match (&mut waiting[at]).now_or_never() {
                    Some(permit) => {
                        held.push(permit);
                        drop(waiting.swap_remove(at));
                    }
                    None => at += 1,
                }
            }

            let taken: u32 = held.iter().map(SlotPermit::count).sum();
            let state = slots.state.lock();
            assert_eq!(taken + state.free, total, "seed {seed}");
            assert_eq!(state.in_use.values().sum::<u32>(), taken, "seed {seed}");
        }

        drop((held, waiting));
        assert_eq!(slots.state.lock().free, total, "seed {seed}");
    }
}
