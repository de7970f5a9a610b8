//! Instances kept between reconciles, for guests that start slowly.
//!
//! Each Plugin opts in, and limits apply: an instance serves a number of reconciles, may grow by
//! some memory, and ends after some idle time. It ends at once if a call does not return, because a
//! trap, a deadline or a refused allocation leaves its memory in an unknown state. It never serves
//! another plugin, other code or another configuration.
//!
//! Warm instances hold pool slots without running, so together they may hold only a quarter of the
//! pool. A new one replaces the longest idle instance of the tenant with the most slots. A call
//! that would have to wait for a slot ends such an instance, too.
//!
//! docs/decisions/0009-warm-instances.md explains what an author gives up for it.

use std::{
    cmp::Reverse,
    collections::{HashMap, hash_map::Entry},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;
use wasmtime::{Result, Store};

use crate::{
    Engine,
    bindings::{self, exports::operetta::controller::reconciler as generated},
    code::link::{Linked, PluginParts},
    slots::{SlotPermit, Tenant},
    store::StoreData,
};

/// The limits of a plugin's warm instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarmLimits {
    /// The maximum number of reconciles per instance.
    pub max_calls: u32,
    /// The maximum growth of its memory after the start, in bytes.
    pub max_memory_growth_bytes: usize,
    /// The maximum wait for the next reconcile.
    pub max_idle: Duration,
}

impl Default for WarmLimits {
    fn default() -> Self {
        Self {
            max_calls: 1000,
            max_memory_growth_bytes: 64 << 20,
            max_idle: Duration::from_secs(300),
        }
    }
}

pub(crate) struct Instance {
    pub store: Store<StoreData>,
    /// Dropped after the store: code stays mapped as long as its instances live.
    linked: Arc<Linked<PluginParts>>,
    /// None until the first reconcile, because its timeout includes the start of the guest.
    guest: Option<bindings::Plugin>,
    /// Reconciles begun so far.
    calls: u32,
    /// The size of the memory after the start, in bytes.
    first_bytes: usize,
    /// Dropped last: the slots are free once all else is gone.
    slots: SlotPermit,
}

impl Instance {
    /// Creates an instance. Its guest starts with the first reconcile.
    pub(crate) fn new(
        linked: Arc<Linked<PluginParts>>,
        store: Store<StoreData>,
        slots: SlotPermit,
    ) -> Self {
        Self {
            store,
            linked,
            guest: None,
            calls: 0,
            first_bytes: 0,
            slots,
        }
    }

    /// Calls the reconcile function of the guest, started if necessary.
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

        guest
            .operetta_controller_reconciler()
            .call_reconcile(&mut self.store, request)
            .await
    }
}

/// The warm instances of all plugins.
pub(crate) struct WarmPool {
    /// How many slots they may hold.
    max_slots: u32,
    /// How many they hold. Grows only with `plugins` locked.
    slots: Arc<AtomicU32>,
    /// Plugins with idle instances, now or earlier.
    plugins: Mutex<Vec<Weak<WarmInstances>>>,
}

impl WarmPool {
    pub(crate) fn new(max_slots: u32) -> Arc<Self> {
        Arc::new(Self {
            max_slots,
            slots: Arc::default(),
            plugins: Mutex::default(),
        })
    }

    /// Ends idle instances until they have freed this many slots, or none is left.
    pub(crate) fn make_room(&self, slots: u32) {
        let mut freed = 0;
        while freed < slots {
            let ended = take_one(&self.plugins.lock());
            let Some(ended) = ended else { return };
            freed += ended.instance.slots.count();
        }
    }

    /// Adds an idle instance to those of a plugin, replacing others if necessary. Drops it if there
    /// is still no room.
    fn keep(&self, plugin: &Arc<WarmInstances>, instance: Instance) {
        let count = instance.slots.count();
        if count > self.max_slots {
            return;
        }

        // Dropped after the lock is released: wasmtime takes a while to reset their memory.
        let mut ended = Vec::new();
        let mut plugins = self.plugins.lock();
        while self.slots.load(Ordering::Relaxed) + count > self.max_slots {
            match take_one(&plugins) {
                // Its slots no longer count, although it is dropped later.
                Some(Idle { instance, kept, .. }) => {
                    drop(kept);
                    ended.push(instance);
                }
                None => return,
            }
        }

        let is_same = |known: &Weak<_>| known.as_ptr() == Arc::as_ptr(plugin);
        if !plugins.iter().any(is_same) {
            plugins.retain(|known| known.strong_count() > 0);
            plugins.push(Arc::downgrade(plugin));
        }

        self.slots.fetch_add(count, Ordering::Relaxed);
        plugin.idle.lock().push(Idle {
            instance,
            since: Instant::now(),
            kept: KeptSlots {
                all: self.slots.clone(),
                count,
            },
        });
    }
}

/// Takes the longest idle instance of the tenant whose idle instances hold the most slots.
fn take_one(plugins: &[Weak<WarmInstances>]) -> Option<Idle> {
    struct Holder {
        slots: u32,
        since: Instant,
        plugin: Arc<WarmInstances>,
    }

    let mut holders: HashMap<Tenant, Holder> = HashMap::new();
    for plugin in plugins.iter().filter_map(Weak::upgrade) {
        let idle = plugin.idle.lock();
        let Some(first) = idle.first() else { continue };
        let slots = idle.iter().map(|idle| idle.instance.slots.count()).sum();
        let (tenant, since) = (first.instance.slots.tenant().clone(), first.since);
        drop(idle);

        match holders.entry(tenant) {
            Entry::Vacant(vacant) => {
                vacant.insert(Holder {
                    slots,
                    since,
                    plugin,
                });
            }
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                known.slots += slots;
                if since < known.since {
                    (known.since, known.plugin) = (since, plugin);
                }
            }
        }
    }

    let most = holders
        .into_values()
        .max_by_key(|holder| (holder.slots, Reverse(holder.since)))?;
    let mut idle = most.plugin.idle.lock();
    // Its plugin may have taken it meanwhile.
    (!idle.is_empty()).then(|| idle.remove(0))
}

/// The idle instances of one plugin: at most as many as it ever ran at once.
pub(crate) struct WarmInstances {
    limits: WarmLimits,
    /// Longest idle first.
    idle: Mutex<Vec<Idle>>,
    /// True while a task ends those that are idle for too long. Set to false with `idle` locked and
    /// empty.
    is_swept: AtomicBool,
}

/// An instance between two reconciles.
struct Idle {
    instance: Instance,
    since: Instant,
    kept: KeptSlots,
}

/// Counts the slots of an idle instance in [`WarmPool::slots`] until dropped.
struct KeptSlots {
    all: Arc<AtomicU32>,
    count: u32,
}

impl Drop for KeptSlots {
    fn drop(&mut self) {
        self.all.fetch_sub(self.count, Ordering::Relaxed);
    }
}

impl WarmInstances {
    pub(crate) fn new(limits: WarmLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            idle: Mutex::default(),
            is_swept: AtomicBool::new(false),
        })
    }

    /// Takes the instance used last, so surplus ones stay idle and end.
    pub(crate) fn take(&self) -> Option<Instance> {
        self.idle.lock().pop().map(|idle| idle.instance)
    }

    /// Keeps an instance after its call, unless it is over its limits or calls wait for slots.
    pub(crate) fn keep(self: &Arc<Self>, instance: Instance, engine: &Engine) {
        let grown = instance
            .store
            .data()
            .memory_bytes()
            .saturating_sub(instance.first_bytes);
        if instance.calls >= self.limits.max_calls
            || grown > self.limits.max_memory_growth_bytes
            || engine.slots().is_contended()
        {
            return;
        }

        engine.warm().keep(self, instance);
        if !self.is_swept.swap(true, Ordering::AcqRel) {
            tokio::spawn(end_idle(Arc::downgrade(self), self.limits.max_idle));
        }
    }
}

/// Ends instances that have been idle for too long. Returns when none is left, or when their
/// reconciler is dropped.
async fn end_idle(instances: Weak<WarmInstances>, max_idle: Duration) {
    let mut next = Instant::now() + max_idle;
    loop {
        tokio::time::sleep_until(next).await;
        let Some(instances) = instances.upgrade() else {
            return;
        };

        let mut idle = instances.idle.lock();
        let now = Instant::now();
        let old = idle
            .iter()
            .take_while(|idle| now.duration_since(idle.since) >= max_idle)
            .count();
        let ended: Vec<Idle> = idle.drain(..old).collect();
        let first = idle.first().map(|idle| idle.since);
        if first.is_none() {
            instances.is_swept.store(false, Ordering::Release);
        }
        drop(idle);
        drop(ended);

        match first {
            Some(since) => next = since + max_idle,
            None => return,
        }
    }
}
