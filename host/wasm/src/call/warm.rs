//! Instances that are kept between reconciles, for guests that are slow to start.
//!
//! Opt-in for each Plugin, and bounded: an instance serves a number of reconciles, may grow by some memory, and goes
//! when nothing asked for it for a while. It goes at once when a call did not return: after a trap, a deadline or a
//! refused allocation nobody knows what its memory holds. It never serves another plugin, other code or another
//! configuration. docs/decisions/0009-warm-instances.md says what an author gives up for it.

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
    /// Reconciles that one instance serves.
    pub max_calls: u32,
    /// Bytes by which its memory may grow over what it had when it had started.
    pub max_memory_growth_bytes: usize,
    /// The longest wait for the next reconcile.
    pub max_idle: Duration,
}

impl Default for WarmLimits {
    fn default() -> Self {
        Self { max_calls: 1000, max_memory_growth_bytes: 64 << 20, max_idle: Duration::from_secs(300) }
    }
}

/// One instance, and what belongs to it.
pub(crate) struct Instance {
    pub store: Store<Call>,
    /// Its code, which stays mapped as long as it lives.
    linked: Arc<Linked>,
    /// None until the first reconcile: starting the guest is part of its time.
    guest: Option<bindings::Plugin>,
    /// Reconciles that it has begun.
    calls: u32,
    /// Bytes of memory when it had started.
    first_bytes: usize,
    /// Its place among the calls in flight.
    _slot: OwnedSemaphorePermit,
}

impl Instance {
    /// An instance to be.
    pub(crate) fn new(linked: Arc<Linked>, store: Store<Call>, slot: OwnedSemaphorePermit) -> Self {
        Self { store, linked, guest: None, calls: 0, first_bytes: 0, _slot: slot }
    }

    /// Starts the guest if it has not started, and reconciles.
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

/// The idle instances of one plugin: at most as many as it ever reconciled at once.
pub(crate) struct WarmInstances {
    limits: WarmLimits,
    idle: Mutex<Vec<Idle>>,
}

/// An instance that waits for the next reconcile.
struct Idle {
    instance: Instance,
    since: Instant,
    /// Its place among the instances that may be kept.
    _kept: OwnedSemaphorePermit,
}

impl WarmInstances {
    pub(crate) fn new(limits: WarmLimits) -> Arc<Self> {
        Arc::new(Self { limits, idle: Mutex::default() })
    }

    /// The instance that was used last: those that are not needed grow old.
    pub(crate) fn take(&self) -> Option<Instance> {
        self.idle.lock().pop().map(|idle| idle.instance)
    }

    /// Keeps an instance whose call has returned, unless it is over its limits or the host keeps too many.
    pub(crate) fn keep(self: &Arc<Self>, instance: Instance, engine: &Engine) {
        let grown = instance.store.data().memory_bytes().saturating_sub(instance.first_bytes);
        if instance.calls >= self.limits.max_calls || grown > self.limits.max_memory_growth_bytes {
            return;
        }
        let Ok(kept) = engine.warm().clone().try_acquire_owned() else { return };
        let mut idle = self.idle.lock();
        if idle.is_empty() {
            tokio::spawn(end_idle(Arc::downgrade(self), self.limits.max_idle));
        }
        idle.push(Idle { instance, since: Instant::now(), _kept: kept });
    }
}

/// Ends instances that have waited for too long; ends itself when none is left, or their plugin has gone.
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
