//! The memory that free slots of the instance pool keep, and giving it back.
//!
//! A slot keeps the pages of linear memory that calls have touched in it, cleared for the next call of the same plugin, which then
//! causes no page faults for them. wasmtime gives them back only when another plugin gets the slot, and then not all. So the host
//! takes slots itself when all of them together keep too much: those that were free for longest, until enough is given back.
//!
//! When code is unloaded, its slots keep the pages outside of the memory's image, and wasmtime no longer counts them. As it prefers
//! slots that were never used for other code, each change of a plugin's code would leave such pages behind. So the host counts them
//! itself, and takes all slots some time later.
//!
//! docs/decisions/0036-memory-of-free-slots.md has the reasons.

use std::{
    ffi::c_void,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use operetta_core::nondeterminism;
use parking_lot::Mutex;
use rustix::mm::{Advice, madvise};
use tokio::{runtime::Handle, sync::Semaphore};
use wasmtime::{Instance, Module, PoolingAllocationConfig, Store};

use crate::swapping;

/// The memories of the pool for each call. Most components have one memory; those that contain an engine have two.
pub(crate) const MEMORIES_PER_CALL: u32 = 2;
/// The bytes of a linear memory that a free slot keeps: what a call in Go, TypeScript or Python touches. In Rust it is 76 KiB.
const KEPT_BY_MEMORY: usize = 512 << 10;
/// The same without a scan of the page table: then these are the first bytes, touched or not, and each call clears them.
const KEPT_FROM_START: usize = 64 << 10;
/// The number of calls after which the kept memory is checked.
const CHECK_EVERY: u32 = 16;
/// The time for which memory of idle plugins is collected before it is given back.
const COLLECT: Duration = Duration::from_secs(60);

/// A module whose instance takes the slot of one memory: `(module (memory (export "m") 0))`.
const EMPTY: &[u8] = b"\0asm\x01\0\0\0\x05\x03\x01\x00\x00\x07\x05\x01\x01m\x02\x00";

/// Reports whether a slot is cleared by a scan of the page table, which finds what was touched. Linux before 6.7 has none, and it
/// overlooks pages in swap space.
pub(crate) fn scans_page_table() -> bool {
    PoolingAllocationConfig::is_pagemap_scan_available() && !swapping::is_possible()
}

/// Returns the bytes of a linear memory that a free slot keeps, with or without such a scan.
pub(crate) fn kept_by_memory(scans: bool) -> usize {
    if scans { KEPT_BY_MEMORY } else { KEPT_FROM_START }
}

/// The free slots of a pool.
pub(crate) struct FreeSlots {
    engine: wasmtime::Engine,
    /// One permit for each call that has room in the pool.
    calls: Arc<Semaphore>,
    /// The bytes that the memories of all free slots may keep.
    limit: usize,
    /// The bytes of address space that the memory of a slot may use.
    memory_bytes: usize,
    /// The compiled [`EMPTY`]; None where it does not compile.
    empty: OnceLock<Option<Module>>,
    /// The bytes that slots of unloaded code keep, at most.
    orphaned: AtomicUsize,
    begun: AtomicU32,
    is_releasing: AtomicBool,
    is_collecting: AtomicBool,
    /// Held while memory is given back.
    releasing: Mutex<()>,
}

impl FreeSlots {
    pub(crate) fn new(engine: wasmtime::Engine, calls: Arc<Semaphore>, limit: usize, memory_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            engine,
            calls,
            limit,
            memory_bytes,
            empty: OnceLock::new(),
            orphaned: AtomicUsize::new(0),
            begun: AtomicU32::new(0),
            is_releasing: AtomicBool::new(false),
            is_collecting: AtomicBool::new(false),
            releasing: Mutex::default(),
        })
    }

    /// Records that a call begins. Every few calls it gives back memory in the background if free slots keep more than they may.
    pub(crate) fn record_call(self: &Arc<Self>) {
        let begun = self.begun.fetch_add(1, Ordering::Relaxed);
        if !begun.is_multiple_of(CHECK_EVERY) || self.kept() <= self.limit {
            return;
        }
        if !self.is_releasing.swap(true, Ordering::Relaxed) {
            let slots = self.clone();
            // A quarter more than necessary, so that the next time is not at once.
            tokio::spawn(nondeterminism::blocking(move || {
                slots.release(slots.limit / 4 * 3);
                slots.is_releasing.store(false, Ordering::Relaxed);
            }));
        }
    }

    /// Unloads code by dropping it, and gives back what all free slots keep some time later. Plugins that are still called cause their
    /// page faults once more.
    pub(crate) fn unload<T>(self: &Arc<Self>, code: T) {
        let before = self.counted();
        drop(code);
        self.orphaned.fetch_add(before.saturating_sub(self.counted()), Ordering::Relaxed);
        // Outside of a runtime, as when the process ends, the next call that exceeds the limit does it.
        if Handle::try_current().is_err() || self.is_collecting.swap(true, Ordering::Relaxed) {
            return;
        }
        let slots = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(COLLECT).await;
            slots.is_collecting.store(false, Ordering::Relaxed);
            nondeterminism::blocking(move || slots.release(0)).await
        });
    }

    /// Returns the bytes that the memories of free slots keep.
    pub(crate) fn kept(&self) -> usize {
        self.counted() + self.orphaned.load(Ordering::Relaxed)
    }

    /// Returns the bytes that wasmtime counts: those of slots whose code is loaded.
    fn counted(&self) -> usize {
        self.engine.pooling_allocator_metrics().map_or(0, |metrics| metrics.unused_memory_bytes_resident())
    }

    /// Gives back memory until free slots keep at most so many bytes, or all are taken. Calls that begin meanwhile may have to wait
    /// for a slot, for some ten milliseconds.
    fn release(&self, down_to: usize) {
        let compile =
            || Module::new(&self.engine, EMPTY).inspect_err(|error| tracing::warn!(%error, "no empty module"));
        let Some(empty) = self.empty.get_or_init(|| compile().ok()) else { return };
        let _one_at_a_time = self.releasing.lock();
        let orphaned = self.orphaned.load(Ordering::Relaxed);
        // Declared first, so that the slots are free again before others may take them.
        let mut permits = Vec::new();
        let mut store = Store::new(&self.engine, ());
        while self.kept() > down_to {
            let permit = self.calls.clone().try_acquire_owned().ok();
            let has_room = permit.is_some();
            permits.extend(permit);
            if !has_room || !(0..MEMORIES_PER_CALL).all(|_| self.release_one(&mut store, empty)) {
                // All are taken, but those of calls in flight.
                self.orphaned.fetch_sub(orphaned, Ordering::Relaxed);
                return;
            }
        }
    }

    /// Takes a free slot until the store is dropped, and gives back its memory. Reports whether there was one. wasmtime chooses a slot
    /// that was never used, or else the one that was free for longest.
    #[expect(unsafe_code, reason = "memory is given back to the system behind wasmtime's back")]
    fn release_one(&self, store: &mut Store<()>, empty: &Module) -> bool {
        let Ok(instance) = Instance::new(&mut *store, empty, &[]) else { return false };
        let Some(memory) = instance.get_memory(&mut *store, "m") else { return false };
        let start = memory.data_ptr(&*store).cast::<c_void>();
        // SAFETY: the slot is this instance's until the store is dropped, and has this much address space. Its memory is
        // empty, so nobody reads or writes it, and the next instance expects zeros.
        let given_back = unsafe { madvise(start, self.memory_bytes, Advice::LinuxDontNeed) };
        given_back.inspect_err(|error| tracing::warn!(%error, "failed to give back the memory of a free slot")).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use operetta_testkit::wat_guest::Guest;
    use wasmtime::{TypedFunc, component::Component};

    use super::*;
    use crate::{Engine, EngineConfig, code::link::link};

    /// What a call touches, in bytes.
    const TOUCHED: usize = 300 << 10;
    const MODULES: usize = 40;

    /// What all modules keep, in bytes.
    fn kept_by_all() -> usize {
        MODULES * TOUCHED.min(kept_by_memory(scans_page_table()))
    }

    /// Modules with one memory each, whose 16th byte is their number.
    struct Modules {
        engine: Engine,
        modules: Vec<Module>,
    }

    struct Live {
        store: Store<()>,
        instance: Instance,
    }

    impl Modules {
        fn new(max_kept_bytes: u64) -> Self {
            let config = EngineConfig { concurrent_calls: 64, max_kept_bytes, ..EngineConfig::default() };
            let engine = Engine::new(&config).expect("an engine");
            let compile = |number: usize| {
                let text = format!(
                    r#"(module (memory 8) (data (i32.const 16) "\{number:02x}")
                         (func (export "touch") (memory.fill (i32.const 0) (i32.const 1) (i32.const {TOUCHED})))
                         (func (export "byte") (param i32) (result i32) (i32.load8_u (local.get 0))))"#
                );
                Module::new(engine.wasmtime(), wat::parse_str(text).expect("text")).expect("compiles")
            };
            let modules = (0..MODULES).map(compile).collect();
            Self { engine, modules }
        }

        fn free(&self) -> &Arc<FreeSlots> {
            self.engine.free_slots().expect("a pool")
        }

        /// Instantiates a module, checks that its memory is as new, and touches it.
        fn touch(&self, number: usize) -> Live {
            let mut store = Store::new(self.engine.wasmtime(), ());
            store.set_epoch_deadline(1 << 20);
            let instance = Instance::new(&mut store, &self.modules[number], &[]).expect("an instance");
            let mut live = Live { store, instance };
            for (at, byte) in [(0, 0), (16, number), (TOUCHED - 1, 0)] {
                assert_eq!(live.byte(at), byte, "byte {at} of memory {number}");
            }
            let touch = live.instance.get_typed_func::<(), ()>(&mut live.store, "touch").expect("a function");
            touch.call(&mut live.store, ()).expect("returns");
            live
        }

        fn touch_all(&self) {
            (0..MODULES).for_each(|number| drop(self.touch(number)));
        }

        async fn until_at_most(&self, bytes: usize) {
            while self.free().kept() > bytes {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }

    impl Live {
        fn byte(&mut self, at: usize) -> usize {
            let byte: TypedFunc<u32, u32> = self.instance.get_typed_func(&mut self.store, "byte").expect("a function");
            byte.call(&mut self.store, at as u32).expect("returns") as usize
        }
    }

    fn resident_bytes() -> usize {
        let status = std::fs::read_to_string("/proc/self/statm").expect("statm");
        status.split(' ').nth(1).expect("pages").parse::<usize>().expect("a number") * rustix::param::page_size()
    }

    #[test]
    fn memory_of_free_slots_is_given_back_and_cleared() {
        let modules = Modules::new(256 << 20);
        modules.touch_all();
        let kept = modules.free().kept();
        assert!(kept >= kept_by_all(), "{kept} bytes");
        let before = resident_bytes();
        let mut live = modules.touch(7);

        modules.free().release(kept / 2);
        let half = modules.free().kept();
        assert!((kept / 3..=kept / 2).contains(&half), "{half} of {kept} bytes: no more than necessary");
        modules.free().release(0);
        assert_eq!(modules.free().kept(), 0);
        let given_back = before.saturating_sub(resident_bytes());
        assert!(given_back >= kept / 2, "{given_back} of {kept} bytes");
        assert_eq!([live.byte(0), live.byte(TOUCHED - 1)], [1, 1], "a slot in use is left alone");
        drop(live);
        // Each checks that its memory is as new.
        modules.touch_all();
        modules.touch_all();
    }

    #[tokio::test(start_paused = true)]
    async fn unloaded_code_leaves_no_memory_in_its_slots() {
        let mut modules = Modules::new(256 << 20);
        modules.touch_all();
        let kept = modules.free().kept();
        let before = resident_bytes();
        // A tenant that changes its code again and again.
        for module in std::mem::take(&mut modules.modules) {
            modules.free().unload(module);
        }
        assert_eq!(modules.free().counted(), 0, "wasmtime counts nothing");
        let left = kept_by_all() / 4 * 3;
        assert!(before.saturating_sub(resident_bytes()) < kept - left, "the slots keep what is outside of the image");
        assert!(modules.free().kept() >= left, "{} of {kept} bytes are known", modules.free().kept());

        modules.until_at_most(0).await;
        let given_back = before.saturating_sub(resident_bytes());
        assert!(given_back >= left, "{given_back} of {kept} bytes");
    }

    #[tokio::test]
    async fn code_is_unloaded_once_nothing_uses_it() {
        let config = EngineConfig { concurrent_calls: 4, ..EngineConfig::default() };
        let engine = Engine::new(&config).expect("an engine");
        let component = Component::new(engine.wasmtime(), Guest::default().build()).expect("compiles");
        let linked = Arc::new(link(&engine, &component, false).expect("links"));
        let call_in_flight = linked.clone();
        let is_unloaded = || engine.free_slots().expect("a pool").is_collecting.load(Ordering::Relaxed);
        drop(linked);
        assert!(!is_unloaded());
        drop(call_in_flight);
        assert!(is_unloaded());
    }

    #[tokio::test]
    async fn unloaded_code_counts_in_the_limit() {
        let mut modules = Modules::new(kept_by_all() as u64 / 3);
        modules.touch_all();
        for module in std::mem::take(&mut modules.modules) {
            modules.free().unload(module);
        }
        assert!(modules.free().kept() > modules.free().limit);
        // Within the minute.
        (0..CHECK_EVERY).for_each(|_| modules.free().record_call());
        modules.until_at_most(0).await;
    }

    #[tokio::test]
    async fn calls_keep_free_slots_within_limit() {
        let max = kept_by_all() / 3;
        let modules = Modules::new(max as u64);
        modules.touch_all();
        let limit = modules.free().limit;
        assert!((max / 4 * 3..max).contains(&limit) && modules.free().kept() > 2 * limit, "{limit} bytes");
        (0..CHECK_EVERY).for_each(|_| modules.free().record_call());
        modules.until_at_most(limit).await;
        assert!(modules.free().kept() > limit / 2, "{} of {limit} bytes", modules.free().kept());
        while modules.free().is_releasing.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(modules.free().calls.available_permits(), 64, "all slots are free again");
    }

    #[tokio::test(start_paused = true)]
    async fn idle_plugins_keep_nothing_after_a_minute() {
        let modules = Modules::new(256 << 20);
        modules.touch_all();
        modules.free().unload(());
        modules.free().unload(());
        tokio::time::sleep(COLLECT / 2).await;
        assert!(modules.free().kept() > 0, "given back too early");
        modules.until_at_most(0).await;
    }
}
