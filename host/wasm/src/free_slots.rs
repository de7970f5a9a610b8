//! The memory that free slots of the instance pool keep, and giving it back.
//!
//! A slot keeps the pages of linear memory that calls have touched in it, cleared for the next call
//! of the same plugin, which then causes no page faults for them. wasmtime gives them back only
//! when another plugin gets the slot, and then not all. So the host takes slots itself when all of
//! them together keep too much: those that were free for longest, until enough is given back.
//!
//! When code is unloaded, its slots keep the pages outside of the memory's image, and wasmtime no
//! longer counts them. As it prefers slots that were never used for other code, each change of a
//! plugin's code would leave such pages behind. So the host counts them itself, and takes all slots
//! some time later.
//!
//! docs/decisions/0036-memory-of-free-slots.md has the reasons.

use std::{
    ffi::c_void,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use operetta_core::nondeterminism;
use parking_lot::Mutex;
use rustix::mm::{Advice, madvise};
use tokio::{
    runtime::Handle,
    sync::{OnceCell, Semaphore},
    task::JoinError,
};
use wasmtime::{
    Instance, Module, PoolingAllocationConfig, Store,
    component::{Component, Linker},
};

use crate::{
    code::{self, Code},
    engine::WeakEngine,
    slots::{Slots, Tenant},
    swapping,
};

/// The memories of the pool for each call. Most components have one memory; those that contain an
/// engine have two.
pub(crate) const MEMORIES_PER_CALL: u32 = 2;
/// The bytes of a linear memory that a free slot keeps: what a call in Go, TypeScript or Python
/// touches. In Rust it is 76 KiB.
const KEPT_BY_MEMORY: usize = 512 << 10;
/// The same without a scan of the page table: then these are the first bytes, touched or not, and
/// each call clears them.
const KEPT_FROM_START: usize = 64 << 10;
/// The number of calls after which the kept memory is checked.
const CHECK_EVERY: u32 = 16;
/// The time from the unloading of code until the memory of its slots is given back.
const COLLECT: Duration = Duration::from_secs(60);
/// The bytes that slots of unloaded code may keep: less is not worth taking all slots.
const COLLECT_FROM: usize = 1 << 20;

/// A component that exports a module whose instance takes the slot of one memory:
/// `(component (core module (memory (export "m") 0)) (export "m" (core module 0)))`. It is a
/// component because a compile worker compiles nothing else.
const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0\
    \x01\x14\0asm\x01\0\0\0\x05\x03\x01\x00\x00\x07\x05\x01\x01m\x02\x00\
    \x0b\x08\x01\x00\x01m\x00\x11\x00\x00";

/// Reports whether a slot is cleared by a scan of the page table, which finds what was touched.
/// Linux before 6.7 has none, and it overlooks pages in swap space.
pub(crate) fn scans_page_table() -> bool {
    PoolingAllocationConfig::is_pagemap_scan_available() && !swapping::is_possible()
}

/// Returns the bytes of a linear memory that a free slot keeps, with or without such a scan.
pub(crate) fn kept_by_memory(scans: bool) -> usize {
    if scans {
        KEPT_BY_MEMORY
    } else {
        KEPT_FROM_START
    }
}

/// The free slots of a pool.
pub(crate) struct FreeSlots {
    /// The engine that has the pool, for compiled code.
    owner: WeakEngine,
    engine: wasmtime::Engine,
    /// The slots for calls.
    calls: Arc<Slots>,
    /// The bytes that the memories of all free slots may keep.
    limit: usize,
    /// The bytes of address space that the memory of a slot may use.
    memory_bytes: usize,
    /// The module of [`EMPTY`], once memory was given back.
    empty: OnceCell<Module>,
    /// The runtime that gives back memory; None if the engine was started outside of one. Code may
    /// be dropped on another one, which has no timers.
    runtime: Option<Handle>,
    /// The bytes that slots of unloaded code keep. Calls that begin or end while code is dropped
    /// make this an estimate.
    unloaded: AtomicUsize,
    begun: AtomicU32,
    /// One permit each: memory is given back because of the limit, or because of unloaded code. A
    /// permit comes back also when the runtime ends.
    releasing: Arc<Semaphore>,
    collecting: Arc<Semaphore>,
    /// The part of `unloaded` that was there the last time that memory was given back, when some
    /// slots were left. Held meanwhile.
    passed_over: Mutex<usize>,
}

impl FreeSlots {
    pub(crate) fn new(
        owner: WeakEngine,
        engine: wasmtime::Engine,
        calls: Arc<Slots>,
        limit: usize,
        memory_bytes: usize,
    ) -> Arc<Self> {
        Arc::new(Self {
            owner,
            engine,
            calls,
            limit,
            memory_bytes,
            empty: OnceCell::new(),
            runtime: Handle::try_current().ok(),
            unloaded: AtomicUsize::new(0),
            begun: AtomicU32::new(0),
            releasing: Arc::new(Semaphore::new(1)),
            collecting: Arc::new(Semaphore::new(1)),
            passed_over: Mutex::default(),
        })
    }

    /// Records that a call begins. Every few calls it gives back memory in the background if free
    /// slots keep more than they may.
    pub(crate) fn record_call(self: &Arc<Self>) {
        let begun = self.begun.fetch_add(1, Ordering::Relaxed);
        if !begun.is_multiple_of(CHECK_EVERY) || self.kept() <= self.limit {
            return;
        }
        let Some(runtime) = &self.runtime else { return };
        let Ok(permit) = self.releasing.clone().try_acquire_owned() else {
            return;
        };
        let slots = self.clone();
        // A quarter more than necessary, so that the next time is not at once.
        runtime.spawn(async move {
            let _stopped = slots.give_back(slots.limit / 4 * 3).await;
            drop(permit);
        });
    }

    /// Unloads code by dropping it. What its slots keep is given back a minute later, with the
    /// memory of all other free slots, because wasmtime has no list of slots. Plugins that are
    /// called then cause their page faults once more.
    pub(crate) fn unload<T>(self: &Arc<Self>, code: T) {
        let before = self.counted();
        drop(code);
        self.unloaded
            .fetch_add(before.saturating_sub(self.counted()), Ordering::Relaxed);
        self.collect_later();
    }

    fn collect_later(self: &Arc<Self>) {
        let is_due = |slots: &Self| slots.unloaded.load(Ordering::Relaxed) >= COLLECT_FROM;
        let Some(runtime) = self.runtime.as_ref().filter(|_| is_due(self)) else {
            return;
        };
        let Ok(permit) = self.collecting.clone().try_acquire_owned() else {
            return;
        };
        let slots = self.clone();
        runtime.spawn(async move {
            while is_due(&slots) {
                tokio::time::sleep(COLLECT).await;
                if slots.give_back(0).await.is_err() {
                    return;
                }
            }
            drop(permit);
            // Code that was unloaded meanwhile.
            slots.collect_later();
        });
    }

    /// Returns the bytes that the memories of free slots keep.
    pub(crate) fn kept(&self) -> usize {
        self.counted() + self.unloaded.load(Ordering::Relaxed)
    }

    /// Returns the bytes that wasmtime counts: those of slots whose code is loaded.
    fn counted(&self) -> usize {
        self.engine
            .pooling_allocator_metrics()
            .map_or(0, |metrics| metrics.unused_memory_bytes_resident())
    }

    /// Gives back memory until free slots keep at most so many bytes, or all are taken. Calls that
    /// begin meanwhile may have to wait for a slot, for some ten milliseconds.
    ///
    /// # Errors
    /// Fails if the runtime shuts down.
    async fn give_back(self: &Arc<Self>, down_to: usize) -> Result<(), JoinError> {
        let Some(empty) = self.empty().await else {
            return Ok(());
        };
        let slots = self.clone();
        nondeterminism::blocking(move || slots.release(down_to, &empty)).await
    }

    /// Returns the module of [`EMPTY`], compiled the first time. None if that fails, or all slots
    /// are taken: the next time tries again.
    async fn empty(&self) -> Option<Module> {
        let load = async || {
            let owner = self.owner.upgrade().ok_or(())?;
            // Also an instance without a memory takes one of the pool.
            let _slot = self.calls.try_acquire(&Tenant::default(), 1).ok_or(())?;

            let bytes = Arc::new(EMPTY.to_vec());
            let (obtained, _) = Code::obtain(&owner, bytes, &code::digest(EMPTY), None)
                .await
                .map_err(|error| tracing::warn!(%error, "failed to load the empty module"))?;
            self.exported_module(&obtained.component)
                .map_err(|error| tracing::warn!(%error, "failed to load the empty module"))
        };
        self.empty.get_or_try_init(load).await.ok().cloned()
    }

    /// Returns the module that a component exports as `m`.
    fn exported_module(&self, component: &Component) -> wasmtime::Result<Module> {
        let mut store = Store::new(&self.engine, ());
        let instance = Linker::new(&self.engine).instantiate(&mut store, component)?;
        instance
            .get_module(&mut store, "m")
            .ok_or_else(|| wasmtime::format_err!("it exports no module"))
    }

    /// Gives back memory as [`FreeSlots::give_back`] does. Blocks.
    fn release(&self, down_to: usize, empty: &Module) {
        let mut passed_over = self.passed_over.lock();
        let unloaded = self.unloaded.load(Ordering::Relaxed);
        // Declared first, so that the slots are free again before others may take them.
        let mut permits = Vec::new();
        let mut store = Store::new(&self.engine, ());
        while self.kept() > down_to {
            let Some(permit) = self.calls.try_acquire(&Tenant::default(), 1) else {
                break;
            };
            permits.push(permit);
            if !(0..MEMORIES_PER_CALL).all(|_| self.release_one(&mut store, empty)) {
                break;
            }
        }
        let room = self.calls.total() as usize;
        if self.kept() > down_to && permits.len() > room / 2 {
            // Calls in flight hold permits of more slots than they use, so some free slots are
            // left, perhaps those of unloaded code. They come first the next time.
            let taken = if permits.len() == room {
                unloaded
            } else {
                *passed_over
            };
            self.unloaded.fetch_sub(taken, Ordering::Relaxed);
            *passed_over = unloaded - taken;
        }
    }

    /// Takes a free slot until the store is dropped, and gives back its memory. Reports whether
    /// there was one. wasmtime chooses a slot that was never used, or else the one that was free
    /// for longest.
    #[expect(
        unsafe_code,
        reason = "memory is given back to the system behind wasmtime's back"
    )]
    fn release_one(&self, store: &mut Store<()>, empty: &Module) -> bool {
        let Ok(instance) = Instance::new(&mut *store, empty, &[]) else {
            return false;
        };
        let Some(memory) = instance.get_memory(&mut *store, "m") else {
            return false;
        };
        let start = memory.data_ptr(&*store).cast::<c_void>();
        // SAFETY: the slot is this instance's until the store is dropped, and has this much address
        // space. Its memory is empty, so nobody reads or writes it, and the next instance expects
        // zeros.
        let given_back = unsafe { madvise(start, self.memory_bytes, Advice::LinuxDontNeed) };
        given_back
            .inspect_err(
                |error| tracing::warn!(%error, "failed to give back the memory of a free slot"),
            )
            .is_ok()
    }
}

#[cfg(test)]
mod tests;
