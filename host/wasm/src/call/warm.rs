//! Instances that are kept between reconciles, for guests that are slow to start.
//!
//! Each Plugin opts in, and limits apply: an instance serves a number of reconciles, may grow by some memory, and ends
//! when it was idle for a while. It ends at once when a call did not return, because the state of its memory is unknown
//! after a trap, a deadline or a refused allocation. It never serves another plugin, other code or another configuration.
//! docs/decisions/0009-warm-instances.md explains what an author gives up for it.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::OwnedSemaphorePermit, time::Instant};
use wasmtime::{Result, Store};

use crate::{
    Engine,
    bindings::{self, exports::operetta::controller::reconciler as generated},
    code::link::Linked,
    store_data::Call,
};

/// The limits of a plugin's warm instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarmLimits {
    /// The maximum number of reconciles that one instance serves.
    pub max_calls: u32,
    /// The maximum growth of its memory since it started, in bytes.
    pub max_memory_growth_bytes: usize,
    /// The maximum wait for the next reconcile.
    pub max_idle: Duration,
}

impl Default for WarmLimits {
    fn default() -> Self {
        Self { max_calls: 1000, max_memory_growth_bytes: 64 << 20, max_idle: Duration::from_secs(300) }
    }
}

/// One instance with its store, code and slot.
pub(crate) struct Instance {
    pub store: Store<Call>,
    /// The code, which stays mapped as long as the instance lives: dropped after it.
    linked: Arc<Linked>,
    /// None until the first reconcile, because its timeout includes the start of the guest.
    guest: Option<bindings::Plugin>,
    /// The number of reconciles that have begun.
    calls: u32,
    /// The size of the memory after the start, in bytes.
    first_bytes: usize,
    /// The slot of the pool.
    _slot: OwnedSemaphorePermit,
}

impl Instance {
    /// Creates an instance whose guest has not started.
    pub(crate) fn new(linked: Arc<Linked>, store: Store<Call>, slot: OwnedSemaphorePermit) -> Self {
        Self { store, linked, guest: None, calls: 0, first_bytes: 0, _slot: slot }
    }

    /// Starts the guest if it has not started, and calls its reconcile function.
    pub(crate) async fn reconcile(
        &mut self,
        request: &generated::Request,
    ) -> Result<Result<generated::Action, generated::Failure>> {
        self.calls += 1;
        let guest = match &self.guest {
            Some(guest) => guest,
            None => {
                let guest = self.linked.pre.instantiate_async(&mut self.store).await?;
                self.first_bytes = self.store.data().memory_bytes();
                self.guest.insert(guest)
            }
        };
        guest.operetta_controller_reconciler().call_reconcile(&mut self.store, request).await
    }
}

/// The idle instances of one plugin, at most as many as its maximum of concurrent reconciles so far.
pub(crate) struct WarmInstances {
    limits: WarmLimits,
    /// The instance that has been idle for longest comes first.
    idle: Mutex<Vec<Idle>>,
}

/// An instance that waits for the next reconcile.
struct Idle {
    instance: Instance,
    since: Instant,
    /// The permit to keep it, of [`Engine::warm`].
    _permit: OwnedSemaphorePermit,
}

impl WarmInstances {
    pub(crate) fn new(limits: WarmLimits) -> Arc<Self> {
        Arc::new(Self { limits, idle: Mutex::default() })
    }

    /// Takes the instance that was used last, so that surplus ones stay idle and end.
    pub(crate) fn take(&self) -> Option<Instance> {
        self.idle.lock().pop().map(|idle| idle.instance)
    }

    /// Keeps an instance whose call has returned, unless it is over its limits or the host keeps too many.
    pub(crate) fn keep(self: &Arc<Self>, instance: Instance, engine: &Engine) {
        let grown = instance.store.data().memory_bytes().saturating_sub(instance.first_bytes);
        if instance.calls >= self.limits.max_calls || grown > self.limits.max_memory_growth_bytes {
            return;
        }
        let Ok(permit) = engine.warm().clone().try_acquire_owned() else { return };
        let mut idle = self.idle.lock();
        if idle.is_empty() {
            tokio::spawn(end_idle(Arc::downgrade(self), self.limits.max_idle));
        }
        idle.push(Idle { instance, since: Instant::now(), _permit: permit });
    }
}

/// Ends instances that have been idle for too long. Returns when none is left, or when their reconciler is dropped.
async fn end_idle(instances: Weak<WarmInstances>, max_idle: Duration) {
    let mut next = Instant::now() + max_idle;
    loop {
        tokio::time::sleep_until(next).await;
        let Some(instances) = instances.upgrade() else { return };
        let mut idle = instances.idle.lock();
        let now = Instant::now();
        let old = idle.iter().take_while(|idle| now.duration_since(idle.since) >= max_idle).count();
        let ended: Vec<Idle> = idle.drain(..old).collect();
        let first = idle.first().map(|idle| idle.since);
        drop(idle);
        drop(ended);
        match first {
            Some(since) => next = since + max_idle,
            None => return,
        }
    }
}
