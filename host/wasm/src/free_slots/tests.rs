//! Tests of giving back memory: of loaded code, within the limit, and of unloaded code.

use parking_lot::MutexGuard;
use wasmtime::TypedFunc;

use super::*;
use crate::{Engine, EngineConfig};

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
    /// The resident memory is that of all tests.
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());

struct Live {
    store: Store<()>,
    instance: Instance,
}

impl Modules {
    fn new(max_kept_bytes: u64) -> Self {
        let alone = ALONE.lock();
        let config = EngineConfig {
            concurrent_calls: 64,
            max_kept_bytes,
            ..EngineConfig::default()
        };
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
        Self {
            engine,
            modules,
            _alone: alone,
        }
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
        let touch = live
            .instance
            .get_typed_func::<(), ()>(&mut live.store, "touch")
            .expect("a function");
        touch.call(&mut live.store, ()).expect("returns");
        live
    }

    fn touch_all(&self) {
        (0..MODULES).for_each(|number| drop(self.touch(number)));
    }

    async fn until_at_most(&self, bytes: usize) {
        let wait = async {
            while self.free().kept() > bytes {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(3 * COLLECT, wait)
            .await
            .expect("memory is given back");
    }

    fn unload_all(&mut self) {
        for module in std::mem::take(&mut self.modules) {
            self.free().unload(module);
        }
    }
}

impl Live {
    fn byte(&mut self, at: usize) -> usize {
        let byte: TypedFunc<u32, u32> = self
            .instance
            .get_typed_func(&mut self.store, "byte")
            .expect("a function");
        byte.call(&mut self.store, at as u32).expect("returns") as usize
    }
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").expect("statm");
    status
        .split(' ')
        .nth(1)
        .expect("pages")
        .parse::<usize>()
        .expect("a number")
        * rustix::param::page_size()
}

#[test]
fn empty_component_is_what_its_text_says() {
    let text = r#"(component (core module (memory (export "m") 0)) (export "m" (core module 0)))"#;
    assert_eq!(wat::parse_str(text).expect("text"), EMPTY);
}

#[tokio::test]
async fn memory_of_free_slots_is_given_back_and_cleared() {
    let modules = Modules::new(256 << 20);
    modules.touch_all();
    let kept = modules.free().kept();
    assert!(kept >= kept_by_all(), "{kept} bytes");
    let before = resident_bytes();
    let mut live = modules.touch(7);

    modules.free().give_back(kept / 2).await.expect("runs");
    let half = modules.free().kept();
    assert!(
        (kept / 3..=kept / 2).contains(&half),
        "{half} of {kept} bytes: no more than necessary"
    );
    modules.free().give_back(0).await.expect("runs");
    assert_eq!(modules.free().kept(), 0);
    let given_back = before.saturating_sub(resident_bytes());
    assert!(given_back >= kept / 2, "{given_back} of {kept} bytes");
    assert_eq!(
        [live.byte(0), live.byte(TOUCHED - 1)],
        [1, 1],
        "a slot in use is left alone"
    );
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
    modules.unload_all();
    assert_eq!(modules.free().counted(), 0, "wasmtime counts nothing");
    let left = kept_by_all() / 4 * 3;
    assert!(
        before.saturating_sub(resident_bytes()) < kept - left,
        "the slots keep what is outside of the image"
    );
    assert!(
        modules.free().kept() >= left,
        "{} of {kept} bytes are known",
        modules.free().kept()
    );

    tokio::time::sleep(COLLECT / 2).await;
    assert!(modules.free().kept() >= left, "given back too early");
    modules.until_at_most(0).await;
    let given_back = before.saturating_sub(resident_bytes());
    assert!(given_back >= left, "{given_back} of {kept} bytes");
}

#[tokio::test(start_paused = true)]
async fn code_may_be_unloaded_by_a_runtime_without_timers() {
    let mut modules = Modules::new(256 << 20);
    modules.touch_all();
    let (free, code) = (modules.free().clone(), std::mem::take(&mut modules.modules));
    let other = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        runtime.block_on(async { code.into_iter().for_each(|module| free.unload(module)) });
    });
    other.join().expect("does not panic");
    modules.until_at_most(0).await;
}

#[tokio::test]
async fn unloaded_code_stays_counted_while_calls_have_the_slots() {
    let mut modules = Modules::new(256 << 20);
    modules.touch_all();
    modules.unload_all();
    let free = modules.free().clone();
    let unloaded = free.kept();
    let hold = async |calls| free.calls.acquire(&Tenant::default(), calls).await;

    let all = hold(64).await;
    free.give_back(0).await.expect("runs");
    free.give_back(0).await.expect("runs");
    assert_eq!(free.kept(), unloaded, "no slot was free");
    drop(all);
    let one = hold(1).await;
    free.give_back(0).await.expect("runs");
    assert_eq!(free.kept(), unloaded, "two slots were left");
    free.give_back(0).await.expect("runs");
    assert_eq!(free.kept(), 0, "they came first");
    drop(one);
}

#[tokio::test]
async fn unloaded_code_counts_in_the_limit() {
    let mut modules = Modules::new(kept_by_all() as u64 / 3);
    modules.touch_all();
    modules.unload_all();
    assert!(modules.free().kept() > modules.free().limit);
    (0..CHECK_EVERY).for_each(|_| modules.free().record_call());
    // Before the minute is over.
    tokio::time::timeout(COLLECT / 2, modules.until_at_most(0))
        .await
        .expect("the limit counts");
}

#[tokio::test]
async fn calls_keep_free_slots_within_limit() {
    let max = kept_by_all() / 3;
    let modules = Modules::new(max as u64);
    modules.touch_all();
    let limit = modules.free().limit;
    assert!(
        (max / 4 * 3..max).contains(&limit) && modules.free().kept() > 2 * limit,
        "{limit} bytes"
    );
    (0..CHECK_EVERY).for_each(|_| modules.free().record_call());
    modules.until_at_most(limit).await;
    assert!(
        modules.free().kept() > limit / 2,
        "{} of {limit} bytes",
        modules.free().kept()
    );
    while modules.free().releasing.available_permits() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let all = modules.free().calls.try_acquire(&Tenant::default(), 64);
    assert!(all.is_some(), "all slots are free again");
}

#[tokio::test(start_paused = true)]
async fn loaded_code_keeps_nothing_a_minute_after_other_code_was_unloaded() {
    let mut modules = Modules::new(256 << 20);
    modules.touch_all();
    for module in modules.modules.split_off(MODULES / 4 * 3) {
        modules.free().unload(module);
    }
    tokio::time::sleep(COLLECT / 2).await;
    assert!(modules.free().counted() > 0, "given back too early");
    modules.until_at_most(0).await;
}
