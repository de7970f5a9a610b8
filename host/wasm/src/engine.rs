//! The engine that all plugins of a process share.
//!
//! A guest yields its thread at each tick. Creating an instance takes microseconds, because the
//! pool has prepared slots and memory images are copy-on-write. A host that cannot reserve the
//! pool's address space logs a warning and works with a smaller pool, or without one, which is
//! slower. Free slots keep at most a small part of the machine's memory.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use wasmtime::{
    Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig,
    component::{Component, Linker},
};

use crate::{
    call::warm::WarmPool,
    code::{
        Code,
        compatibility::compatibility,
        interpreters::Interpreters,
        resident::{MappedTotals, ResidentSet},
    },
    free_slots::{self, FreeSlots, MEMORIES_PER_CALL},
    imports,
    slots::Slots,
    store::{
        StoreData,
        limiter::{CORE_INSTANCES, MEMORIES, TABLE_ELEMENTS, TABLES},
    },
    ticker::{Clock, Ticker},
};

/// The divisor of the pool's slots that gives those that kept instances may hold.
const WARM_DIVISOR: u32 = 4;

/// The smallest useful pool, in calls.
const MIN_SLOTS: u32 = 16;

/// The divisor of this process's memory that gives the bytes that free slots may keep.
const KEPT_DIVISOR: u64 = 16;
/// The part of these bytes that is for memories, in eighths; the rest is for tables.
const KEPT_BY_MEMORIES: u64 = 7;

/// The tables of the pool for each call.
const TABLES_PER_CALL: u32 = 4;

/// The strategy that allocates instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Allocation {
    /// Uses the pool, or allocates on demand where the pool's address space cannot be reserved.
    #[default]
    Auto,
    /// Uses the pool, or fails with [`EngineError`].
    Pooling,
    /// Maps memory for each call. This is several times slower, and more threads make it no faster.
    OnDemand,
}

/// The sizes of an [`Engine`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineConfig {
    /// The strategy that allocates instances.
    pub allocation: Allocation,
    /// The maximum number of calls in flight, of all plugins; others wait. Each reserves 4 GiB of
    /// address space, no memory.
    pub concurrent_calls: u32,
    /// The maximum number of slots that instances kept between calls may hold, of all plugins: a
    /// quarter of the pool, if that is less.
    pub warm_instances: u32,
    /// The maximum size of one linear memory in bytes, whatever a plugin's own limit is.
    pub max_memory_bytes: usize,
    /// The bytes that all free slots of the pool together keep, at most: a sixteenth of this
    /// process's memory, if that is less. The next call of the same plugin causes no page faults
    /// for them.
    pub max_kept_bytes: u64,
    /// The bytes of address space that the code of all plugins may take. Beyond it, the code of the
    /// least recently called plugins is unmapped until their next call.
    pub max_mapped_code_bytes: u64,
    /// The time for which the code of an idle plugin stays mapped.
    pub max_idle_code: Duration,
    /// True to optimize code for speed. False compiles faster, for code that runs once.
    pub optimize: bool,
    /// True to keep compiled functions in memory and use them for later components. For the builds
    /// of one author: it is never emptied. Only compilations in this process use it.
    pub keep_functions: bool,
    /// True to let guests yield at each tick of the machine's clock. Without ticks nothing ends a
    /// guest that spins: only for simulations of plugins that do not, which are the same each time.
    pub ticks: bool,
    /// The folder of the interpreters that run a [`Program`](crate::Program); None refuses
    /// programs. Only `operetta dev` sets it.
    pub interpreters: Option<PathBuf>,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            allocation: Allocation::Auto,
            concurrent_calls: 1000,
            warm_instances: 250,
            max_memory_bytes: 4 << 30,
            max_kept_bytes: 256 << 20,
            max_mapped_code_bytes: 4 << 30,
            max_idle_code: Duration::from_secs(300),
            optimize: true,
            keep_functions: false,
            ticks: true,
            interpreters: None,
        }
    }
}

/// The error of creating an engine. A retry cannot help: the machine or the configuration must
/// change.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Wasmtime refused the configuration, or could not reserve the pool.
    #[error("failed to start the WebAssembly engine: {0}")]
    Engine(String),
    /// The thread that advances the epoch did not start.
    #[error("failed to start the epoch thread")]
    Thread(#[source] io::Error),
}

/// The compiler, the instance pool, the linker and the epoch clock. Clones are cheap and share
/// them.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

struct Shared {
    wasmtime: wasmtime::Engine,
    /// The imports that the host offers, resolved once.
    linker: Linker<StoreData>,
    /// The slots of the pool, so that a call waits for one instead of failing.
    slots: Arc<Slots>,
    /// The instances kept between calls.
    warm: Arc<WarmPool>,
    /// The source of compiled code.
    code: Code,
    /// The hash of what this engine's code depends on.
    compatibility: String,
    /// The interpreters; None if programs are refused.
    interpreters: Option<Interpreters>,
    /// The mapped code of all plugins.
    resident_set: ResidentSet,
    /// The number of calls that the pool has room for; None without a pool.
    pool_slots: Option<u32>,
    /// The free slots; None without a pool.
    free_slots: Option<Arc<FreeSlots>>,
    ticker: Ticker,
}

/// An engine that is not kept running by this.
pub(crate) struct WeakEngine(Weak<Shared>);

impl WeakEngine {
    /// Returns the engine; None if it has ended.
    pub(crate) fn upgrade(&self) -> Option<Engine> {
        let shared = self.0.upgrade()?;
        Some(Engine { shared })
    }
}

impl Engine {
    /// Starts an engine that compiles in this process, with the feature `compiler`, and caches no
    /// code.
    ///
    /// # Errors
    /// Returns an [`EngineError`] as [`Engine::with_code`] does.
    pub fn new(config: &EngineConfig) -> Result<Self, EngineError> {
        Self::with_code(config, Code::default())
    }

    /// Starts the engine and its epoch thread, which ends with the last clone.
    ///
    /// # Errors
    /// Returns an [`EngineError`] if wasmtime refuses the configuration or the thread does not
    /// start. With [`Allocation::Auto`], a lack of address space is no error.
    pub fn with_code(config: &EngineConfig, code: Code) -> Result<Self, EngineError> {
        let (wasmtime, pool_slots) = match config.allocation {
            Allocation::OnDemand => (on_demand(config)?, None),
            Allocation::Pooling => (
                pooling(config, config.concurrent_calls)?,
                Some(config.concurrent_calls),
            ),
            Allocation::Auto => adaptive(config)?,
        };
        let interpreters = config.interpreters.clone().map(Interpreters::new);
        let linker = imports::linker(&wasmtime, interpreters.is_some())
            .map_err(|error| EngineError::Engine(format!("{error:#}")))?;
        let ticker = if config.ticks {
            Ticker::start(wasmtime.clone())
        } else {
            Ok(Ticker::stopped())
        };
        let ticker = ticker.map_err(EngineError::Thread)?;
        let slots = Slots::new(pool_slots.unwrap_or(config.concurrent_calls));
        let quarter = slots.total().div_ceil(WARM_DIVISOR);
        let warm = WarmPool::new(config.warm_instances.min(quarter));
        let resident_set = ResidentSet::new(config.max_mapped_code_bytes, config.max_idle_code);

        let shared = Arc::new_cyclic(|shared| {
            let free_slots = pool_slots.map(|calls_in_pool| {
                let (limit, _) = kept(config.max_kept_bytes, memory_bytes(), calls_in_pool);
                FreeSlots::new(
                    WeakEngine(shared.clone()),
                    wasmtime.clone(),
                    slots.clone(),
                    limit,
                    config.max_memory_bytes,
                )
            });
            Shared {
                wasmtime,
                linker,
                slots,
                warm,
                code,
                compatibility: compatibility(config.optimize),
                interpreters,
                resident_set,
                pool_slots,
                free_slots,
                ticker,
            }
        });
        Ok(Self { shared })
    }

    /// Reports whether instances come from the pool.
    pub fn is_pooled(&self) -> bool {
        self.shared.pool_slots.is_some()
    }

    /// Returns the number of calls that the pool has room for. It is less than
    /// [`EngineConfig::concurrent_calls`] where there is not enough address space. None without a
    /// pool.
    pub fn pool_slots(&self) -> Option<u32> {
        self.shared.pool_slots
    }

    /// Returns the clock that the polls of guests keep running.
    pub(crate) fn clock(&self) -> &Arc<Clock> {
        self.shared.ticker.clock()
    }

    pub(crate) fn wasmtime(&self) -> &wasmtime::Engine {
        &self.shared.wasmtime
    }

    pub(crate) fn linker(&self) -> &Linker<StoreData> {
        &self.shared.linker
    }

    /// Returns the number of slots that a call of this component takes. A component with many
    /// memories or tables takes several, because it leaves fewer for others.
    pub(crate) fn slots_of(&self, component: &Component) -> u32 {
        let Some((required, pool)) = component.resources_required().zip(self.shared.pool_slots)
        else {
            return 1;
        };
        let slots = required
            .num_memories
            .div_ceil(MEMORIES_PER_CALL)
            .max(required.num_tables.div_ceil(TABLES_PER_CALL));
        slots.clamp(1, pool.max(1))
    }

    /// Returns the free slots of the pool; None without a pool.
    pub(crate) fn free_slots(&self) -> Option<&Arc<FreeSlots>> {
        self.shared.free_slots.as_ref()
    }

    pub(crate) fn slots(&self) -> &Arc<Slots> {
        &self.shared.slots
    }

    pub(crate) fn warm(&self) -> &Arc<WarmPool> {
        &self.shared.warm
    }

    /// Returns the amount of mapped code.
    pub fn mapped(&self) -> MappedTotals {
        self.shared.resident_set.totals()
    }

    pub(crate) fn resident_set(&self) -> &ResidentSet {
        &self.shared.resident_set
    }

    /// Returns the interpreters; None if programs are refused.
    pub(crate) fn interpreters(&self) -> Option<&Interpreters> {
        self.shared.interpreters.as_ref()
    }

    /// Returns the hash of what this engine's code depends on.
    pub(crate) fn compatibility(&self) -> &str {
        &self.shared.compatibility
    }

    /// Returns the source of compiled code.
    pub fn code(&self) -> &Code {
        &self.shared.code
    }
}

fn common(own: &EngineConfig) -> Config {
    let mut config = Config::new();
    config.wasm_component_model(true);
    config.epoch_interruption(true);
    config.concurrency_support(false);
    // Neither is needed: guests are stripped, and a panic's message reaches the log. Both cost
    // time: with unwind tables, every loaded module makes each drop of a store slower.
    config.wasm_backtrace_max_frames(None);
    config.native_unwind_info(false);
    #[cfg(feature = "compiler")]
    crate::compiler::configure(&mut config, own);
    #[cfg(not(feature = "compiler"))]
    let _compiles_nothing = own;
    config
}

/// Starts an engine without a pool. The code that it compiles runs on every other engine, because
/// compiled code does not depend on how instances are allocated.
pub(crate) fn on_demand(config: &EngineConfig) -> Result<wasmtime::Engine, EngineError> {
    start(&common(config))
}

/// Starts an engine with the largest pool that there is address space for, or with none. `ulimit
/// -v`, some sandboxes and kernels with 39 bits give less than the terabytes that a large pool
/// reserves.
fn adaptive(config: &EngineConfig) -> Result<(wasmtime::Engine, Option<u32>), EngineError> {
    let mut calls = config.concurrent_calls;
    loop {
        match pooling(config, calls) {
            Ok(engine) => {
                if calls < config.concurrent_calls {
                    tracing::warn!(
                        calls,
                        wanted = config.concurrent_calls,
                        "little address space, running fewer calls at once"
                    );
                }
                return Ok((engine, Some(calls)));
            }
            Err(_) if calls / 2 >= MIN_SLOTS => calls /= 2,
            Err(error) => {
                tracing::warn!(%error, "no instance pool, allocating instances on demand, which is slower");
                return Ok((on_demand(config)?, None));
            }
        }
    }
}

fn pooling(config: &EngineConfig, calls: u32) -> Result<wasmtime::Engine, EngineError> {
    let (_, table) = kept(config.max_kept_bytes, memory_bytes(), calls);
    let scans = free_slots::scans_page_table();
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(calls)
        .total_core_instances(calls.saturating_mul(CORE_INSTANCES))
        .total_memories(calls.saturating_mul(MEMORIES_PER_CALL).max(MEMORIES))
        .total_tables(calls.saturating_mul(TABLES_PER_CALL).max(TABLES))
        .total_stacks(calls)
        .max_core_instances_per_component(CORE_INSTANCES)
        .max_memories_per_component(MEMORIES)
        .max_tables_per_component(TABLES)
        .max_tables_per_module(TABLES)
        .table_elements(TABLE_ELEMENTS)
        .max_memory_size(config.max_memory_bytes)
        .max_unused_warm_slots(calls.saturating_mul(MEMORIES_PER_CALL).max(MEMORIES))
        .linear_memory_keep_resident(free_slots::kept_by_memory(scans))
        .table_keep_resident(table)
        .pagemap_scan(if scans { Enabled::Yes } else { Enabled::No });
    let mut with_pool = common(config);
    with_pool.memory_init_cow(true);
    with_pool.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    start(&with_pool)
}

/// Returns the bytes that the memories of all free slots may keep together, and those that each
/// table of a free slot may keep. Tables are small, and a slot that was ever in use keeps its own,
/// so each has its share.
fn kept(max_bytes: u64, memory_bytes: u64, calls: u32) -> (usize, usize) {
    let all = (memory_bytes / KEPT_DIVISOR).min(max_bytes);
    let memories = all / 8 * KEPT_BY_MEMORIES;
    let table = (all - memories) / u64::from(calls.max(1)) / u64::from(TABLES_PER_CALL);
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    (
        size(memories),
        size(table).min(TABLE_ELEMENTS * size_of::<usize>()),
    )
}

/// Returns the memory that this process may use, in bytes: the lesser of the machine's memory and
/// its control group's limit.
pub fn memory_bytes() -> u64 {
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max")
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let machine = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let kilobytes = text
                .lines()
                .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"));
            Some(kilobytes?.trim().parse::<u64>().ok()? * 1024)
        });
    machine.unwrap_or(u64::MAX).min(group.unwrap_or(u64::MAX))
}

fn start(config: &Config) -> Result<wasmtime::Engine, EngineError> {
    wasmtime::Engine::new(config).map_err(|error| EngineError::Engine(format!("{error:#}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_slots_keep_a_sixteenth_of_memory_and_at_most_256_mib() {
        for memory_mib in [64, 512, 24 << 10] {
            let (memories, table) = kept(256 << 20, memory_mib << 20, 1_000);
            let all = memories as u64 + 1_000 * table as u64 * u64::from(TABLES_PER_CALL);
            assert!(
                all <= (memory_mib << 16).min(256 << 20),
                "{all} bytes of {memory_mib} MiB"
            );
            assert!(
                all >= (memory_mib << 16).min(256 << 20) / 100 * 99,
                "{all} bytes of {memory_mib} MiB"
            );
        }
        assert_eq!(
            kept(256 << 20, 24 << 30, 4).1,
            512 << 10,
            "few calls keep whole tables"
        );
        assert!(
            memory_bytes() > 64 << 20,
            "this machine has more than 64 MiB"
        );
    }

    #[test]
    fn engine_without_ticks_has_no_thread() {
        let [with, without] = [true, false].map(|ticks| {
            let config = EngineConfig {
                ticks,
                allocation: Allocation::OnDemand,
                ..EngineConfig::default()
            };
            Engine::new(&config)
                .expect("an engine")
                .shared
                .ticker
                .is_running()
        });
        assert!(with && !without, "with ticks: {with}, without: {without}");
    }

    #[test]
    fn call_with_many_memories_takes_several_slots() {
        let config = EngineConfig {
            concurrent_calls: 3,
            ..EngineConfig::default()
        };
        let engine = Engine::new(&config).expect("an engine");
        assert!(
            engine.is_pooled(),
            "this machine has address space for the pool"
        );
        let slots = |module: &str, instances: usize| {
            let text = format!(
                "(component (core module $m {module}) {})",
                "(core instance (instantiate $m))".repeat(instances)
            );
            engine.slots_of(
                &Component::new(engine.wasmtime(), wat::parse_str(text).expect("text"))
                    .expect("compiles"),
            )
        };
        assert_eq!(slots("(memory 1)", 1), 1);
        assert_eq!(
            slots("(memory 1) (table 1 funcref)", 2),
            1,
            "a component that contains an engine"
        );
        assert_eq!(slots("(memory 1)", 3), 2);
        assert_eq!(slots("(table 1 funcref)", 8), 2);
        assert_eq!(slots("(memory 1)", 8), 3, "at most the slots of the pool");
    }
}
