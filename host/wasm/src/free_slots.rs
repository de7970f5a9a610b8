//! Bounds the memory kept by free slots of the instance pool.
//!
//! A free slot keeps the pages of linear memory touched by its calls, cleared, so the next call of
//! the same plugin takes no page faults for them. wasmtime gives them back only when another plugin
//! gets the slot, and even then not all. So when all free slots together keep too much, the host
//! takes slots itself, those free for longest first, until enough is given back.
//!
//! When code is unloaded, its slots keep the pages outside the memory image, but wasmtime stops
//! counting them. Since it prefers unused slots for other code, each new version of a plugin would
//! leave such pages behind. So the host counts them itself, and takes all slots some time later.
//!
//! docs/decisions/0036-memory-of-free-slots.md has the measurements.

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
use rustix::{
    mm::{Advice, madvise},
    thread::disable_transparent_huge_pages,
};
use tokio::{
    runtime::Handle,
    sync::{OnceCell, Semaphore},
    task::JoinError,
};
use wasmtime::{Instance, Module, PoolingAllocationConfig, Store};

use crate::{
    LoadLimits,
    code::{self, Code, link::exported_module},
    engine::WeakEngine,
    slots::{Slots, Tenant},
    swapping,
};

/// Pool memories per call. Most components have one memory, those with an embedded engine two.
pub(crate) const MEMORIES_PER_CALL: u32 = 2;
/// How much of a linear memory a free slot keeps, in bytes: about as much as a call in Go,
/// TypeScript or Python touches. A call in Rust touches 76 KiB.
const KEPT_BY_MEMORY: usize = 512 << 10;
/// The same without a scan of the page table: wasmtime then keeps the first bytes, touched or not,
/// and clears them all for each call.
const KEPT_FROM_START: usize = 64 << 10;
/// The kept memory is checked once per this many calls.
const CHECK_EVERY: u32 = 16;
/// How long after code is unloaded the memory of its slots is given back.
const COLLECT: Duration = Duration::from_secs(60);
/// If slots of unloaded code keep fewer bytes than this, taking all slots is not worth it.
const COLLECT_FROM: usize = 1 << 20;

/// A component exporting a module whose instance takes one memory slot:
/// `(component (core module (memory (export "m") 0)) (export "m" (core module 0)))`. A bare module
/// will not do: compile workers take only components.
const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0\
    \x01\x14\0asm\x01\0\0\0\x05\x03\x01\x00\x00\x07\x05\x01\x01m\x02\x00\
    \x0b\x08\x01\x00\x01m\x00\x11\x00\x00";

/// Reports whether memories are cleared with [`PAGEMAP_SCAN`], which finds the touched pages. Linux
/// before 6.7 does not have it, and it overlooks swapped pages. It also overlooks pages that are
/// being moved (docs/decisions/0044-pages-that-the-kernel-moves.md).
///
/// [`PAGEMAP_SCAN`]: https://man7.org/linux/man-pages/man2/PAGEMAP_SCAN.2const.html
pub(crate) fn scans_page_table() -> bool {
    PoolingAllocationConfig::is_pagemap_scan_available() && !swapping::is_possible()
}

/// Has the kernel give this process small pages only. While it splits a huge page, the scan
/// overlooks all 512 pages of it (docs/decisions/0044-pages-that-the-kernel-moves.md). A huge page
/// would also give a slot two megabytes for the first byte that a call writes.
pub(crate) fn refuse_huge_pages() {
    if let Err(error) = disable_transparent_huge_pages(true) {
        tracing::warn!(%error, "failed to do without huge pages for the memory of plugins");
    }
}

pub(crate) fn kept_by_memory(scans: bool) -> usize {
    if scans {
        KEPT_BY_MEMORY
    } else {
        KEPT_FROM_START
    }
}

pub(crate) struct FreeSlots {
    /// Compiles [`EMPTY`].
    owner: WeakEngine,
    engine: wasmtime::Engine,
    /// Permits for slots, shared with calls.
    calls: Arc<Slots>,
    /// The bytes all free slots together may keep.
    limit: usize,
    /// The address space of the memory of a slot, in bytes.
    memory_bytes: usize,
    /// The module of [`EMPTY`], compiled when memory is first given back.
    empty: OnceCell<Module>,
    /// Gives back memory in the background; None if the engine was started outside a runtime. The
    /// current runtime will not do: code may be dropped on one without timers.
    runtime: Option<Handle>,
    /// The bytes kept by slots of unloaded code. An estimate: calls may begin or end while code is
    /// dropped.
    unloaded: AtomicUsize,
    begun: AtomicU32,
    /// One permit each, for giving back memory over the limit and after unloading. Unlike a flag, a
    /// permit also comes back when the runtime drops the task.
    releasing: Arc<Semaphore>,
    collecting: Arc<Semaphore>,
    /// How much of `unloaded` was there when memory was last given back but some slots were missed.
    /// Locked during each round.
    missed: Mutex<usize>,
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
            missed: Mutex::default(),
        })
    }

    /// Counts a call. Every few calls it gives back memory in the background, if free slots keep
    /// too much.
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
        // A quarter more than necessary, or it would be due again at once.
        runtime.spawn(async move {
            let _stopped = slots.give_back(slots.limit / 4 * 3).await;
            drop(permit);
        });
    }

    /// Unloads code by dropping it. The memory of its slots is given back a minute later, together
    /// with that of all other free slots, because wasmtime has no list of slots. Plugins called
    /// afterwards take their page faults once more.
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
            // More code may have been unloaded meanwhile.
            slots.collect_later();
        });
    }

    /// Returns the bytes kept by the memories of free slots.
    pub(crate) fn kept(&self) -> usize {
        self.counted() + self.unloaded.load(Ordering::Relaxed)
    }

    /// Returns the bytes that wasmtime counts: only those of slots whose code is loaded.
    fn counted(&self) -> usize {
        self.engine
            .pooling_allocator_metrics()
            .map_or(0, |metrics| metrics.unused_memory_bytes_resident())
    }

    /// Gives back memory until free slots keep at most `down_to` bytes, or all are taken. Calls
    /// that begin meanwhile may wait some ten milliseconds for a slot.
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

    /// Returns the module of [`EMPTY`], compiled the first time. None if that fails or all slots
    /// are taken; the next call tries again.
    async fn empty(&self) -> Option<Module> {
        let load = async || {
            let owner = self.owner.upgrade().ok_or(())?;
            // Even an instance without a memory takes a slot of the pool.
            let _slot = self.calls.try_acquire(&Tenant::default(), 1).ok_or(())?;

            let bytes = Arc::new(EMPTY.to_vec());
            let (obtained, _) = Code::obtain(
                &owner,
                bytes,
                &code::digest(EMPTY),
                false,
                &LoadLimits::default(),
            )
            .await
            .map_err(|error| tracing::warn!(%error, "failed to load the empty module"))?;
            exported_module(&self.engine, &obtained.component, "m")
                .map_err(|error| tracing::warn!(%error, "failed to load the empty module"))
        };
        self.empty.get_or_try_init(load).await.ok().cloned()
    }

    /// The blocking part of [`FreeSlots::give_back`].
    fn release(&self, down_to: usize, empty: &Module) {
        let mut missed = self.missed.lock();
        let unloaded = self.unloaded.load(Ordering::Relaxed);

        // Declared before the store to be dropped after it: a permit must not come back before its
        // slot.
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
            // Calls in flight hold permits for more slots than they use, so some free slots were
            // missed, perhaps those of unloaded code. They come first the next time.
            let taken = if permits.len() == room {
                unloaded
            } else {
                *missed
            };
            self.unloaded.fetch_sub(taken, Ordering::Relaxed);
            *missed = unloaded - taken;
        }
    }

    /// Takes a free slot until the store is dropped, and gives back its memory. Returns false if
    /// there was none. wasmtime picks a slot never used before, or else the one free for longest.
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
mod moved_pages;
#[cfg(test)]
mod tests;
