//! The engine shared by all plugins of a process.
//!
//! Guests yield their thread at each tick. Creating an instance takes microseconds: the pool has
//! prepared slots, and memory images are copy-on-write. Without enough address space for the pool,
//! the host logs a warning and falls back to a smaller pool, or to slower allocation on demand.
//! Free slots keep only a small part of the machine's memory resident.

use std::{
    io,
    num::NonZeroUsize,
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use wasmtime::{
    Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig, ResourcesRequired,
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
    imports, process,
    slots::Slots,
    store::{
        StoreData,
        limiter::{CORE_INSTANCES, MEMORIES, PROCESS_TABLE_ELEMENTS, TABLE_ELEMENTS, TABLES},
    },
    ticker::{Clock, Ticker},
};

/// Warm instances hold at most one in this many slots of the pool.
const WARM_DIVISOR: u32 = 4;

/// The smallest useful pool, in calls.
const MIN_SLOTS: u32 = 16;

/// Free slots keep at most one in this many bytes of the process's memory.
const KEPT_DIVISOR: u64 = 16;
/// The share of linear memories in these bytes, in eighths. Tables get the rest.
const KEPT_BY_MEMORIES: u64 = 7;

/// The most frames of a trap's backtrace.
const MAX_FRAMES: usize = 20;

/// The most bytes of host memory for one core instance, most of them 32 for each function in its
/// table. A process in Go has as many as its table can have. Plugins stay within wasmtime's limit of
/// 1 MiB, which is on all instances of a component together.
const CORE_INSTANCE_BYTES: usize = 12 << 20;

/// Pool tables per call.
const TABLES_PER_CALL: u32 = 4;

/// How instances are allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Allocation {
    /// Uses the pool, or allocates on demand if its address space cannot be reserved.
    #[default]
    Auto,
    /// Uses the pool, or fails with [`EngineError`].
    Pooling,
    /// Maps memory for each call. This is several times slower, and does not scale with threads.
    OnDemand,
}

/// The sizes and settings of an [`Engine`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineConfig {
    /// How instances are allocated.
    pub allocation: Allocation,
    /// The maximum number of calls in flight across all plugins; further calls wait. Each reserves
    /// 4 GiB of address space, but no memory.
    pub concurrent_calls: u32,
    /// The maximum number of slots held by warm instances across all plugins, or a quarter of the
    /// pool, whichever is less.
    pub warm_instances: u32,
    /// The maximum size of one linear memory in bytes, whatever the plugin's own limit.
    pub max_memory_bytes: usize,
    /// The maximum number of bytes kept by all free slots together, or a sixteenth of this
    /// process's memory, whichever is less. The next call of the same plugin finds them without
    /// page faults.
    pub max_kept_bytes: u64,
    /// The maximum address space for the code of all plugins, in bytes. Beyond it, the least
    /// recently called plugins are unmapped until their next call.
    pub max_mapped_code_bytes: u64,
    /// How long the code of an idle plugin stays mapped.
    pub max_idle_code: Duration,
    /// True optimizes for speed. False compiles faster and suits code that runs once.
    pub optimize: bool,
    /// True to reuse compiled functions in later components, if this process compiles them. They take
    /// up to 256 MiB, in one cache for all components: for the builds of a single author only.
    pub keep_functions: bool,
    /// True to make guests yield at each tick of the machine's clock. Without ticks nothing ends a
    /// spinning guest: only for reproducible simulations of plugins known not to spin.
    pub ticks: bool,
    /// The folder with the interpreters of [`Program`](crate::Program)s; None refuses programs.
    /// Only `operetta dev` sets it.
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

/// Why an engine could not start. Retrying is pointless: the machine or the configuration must
/// change.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Wasmtime refused the configuration, or could not reserve the pool.
    #[error("failed to start the WebAssembly engine: {0}")]
    Engine(String),
    /// The epoch thread did not start.
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
    /// The host's imports, resolved once.
    linker: Linker<StoreData>,
    /// The same for processes.
    process_linker: wasmtime::Linker<process::State>,
    /// The same for processes that are commands of WASI 0.2.
    command_linker: Linker<process::Command>,
    /// Makes calls wait for a slot. wasmtime itself fails a call if the pool is full.
    slots: Arc<Slots>,
    warm: Arc<WarmPool>,
    code: Code,
    /// Part of the cache key of compiled code.
    compatibility: String,
    /// None refuses programs.
    interpreters: Option<Interpreters>,
    resident_set: ResidentSet,
    /// How many calls fit in the pool; None without a pool.
    pool_slots: Option<u32>,
    /// None without a pool.
    free_slots: Option<Arc<FreeSlots>>,
    ticker: Ticker,
}

/// For parts of the engine, which must not keep it running.
pub(crate) struct WeakEngine(Weak<Shared>);

impl WeakEngine {
    pub(crate) fn upgrade(&self) -> Option<Engine> {
        let shared = self.0.upgrade()?;
        Some(Engine { shared })
    }
}

impl Engine {
    /// Starts an engine without a code cache. It compiles in this process, with the `compiler`
    /// feature.
    ///
    /// # Errors
    /// Fails as [`Engine::with_code`] does.
    pub fn new(config: &EngineConfig) -> Result<Self, EngineError> {
        Self::with_code(config, Code::default())
    }

    /// Starts the engine and its epoch thread. The thread ends with the last clone.
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

        let process_linker = process::linker(&wasmtime)
            .map_err(|error| EngineError::Engine(format!("{error:#}")))?;
        let command_linker = process::command_linker(&wasmtime)
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
                process_linker,
                command_linker,
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

    /// Returns how many calls fit in the pool: fewer than [`EngineConfig::concurrent_calls`] if
    /// address space is scarce. None without a pool.
    pub fn pool_slots(&self) -> Option<u32> {
        self.shared.pool_slots
    }

    /// Guests must be polled through [`Clock::run`], or the epoch stops.
    pub(crate) fn clock(&self) -> &Arc<Clock> {
        self.shared.ticker.clock()
    }

    pub(crate) fn wasmtime(&self) -> &wasmtime::Engine {
        &self.shared.wasmtime
    }

    pub(crate) fn linker(&self) -> &Linker<StoreData> {
        &self.shared.linker
    }

    pub(crate) fn process_linker(&self) -> &wasmtime::Linker<process::State> {
        &self.shared.process_linker
    }

    pub(crate) fn command_linker(&self) -> &Linker<process::Command> {
        &self.shared.command_linker
    }

    /// Returns how many slots a call of this component takes: several if its memories or tables
    /// exceed the share of one call.
    pub(crate) fn slots_of(&self, component: &Component) -> u32 {
        self.slots_for(component.resources_required())
    }

    /// Returns how many slots an instance takes that requires this.
    pub(crate) fn slots_for(&self, required: Option<ResourcesRequired>) -> u32 {
        let Some((required, pool)) = required.zip(self.shared.pool_slots) else {
            return 1;
        };

        let slots = required
            .num_memories
            .div_ceil(MEMORIES_PER_CALL)
            .max(required.num_tables.div_ceil(TABLES_PER_CALL));
        slots.clamp(1, pool.max(1))
    }

    pub(crate) fn free_slots(&self) -> Option<&Arc<FreeSlots>> {
        self.shared.free_slots.as_ref()
    }

    pub(crate) fn slots(&self) -> &Arc<Slots> {
        &self.shared.slots
    }

    pub(crate) fn warm(&self) -> &Arc<WarmPool> {
        &self.shared.warm
    }

    /// Returns how much code is mapped.
    pub fn mapped(&self) -> MappedTotals {
        self.shared.resident_set.totals()
    }

    pub(crate) fn resident_set(&self) -> &ResidentSet {
        &self.shared.resident_set
    }

    pub(crate) fn interpreters(&self) -> Option<&Interpreters> {
        self.shared.interpreters.as_ref()
    }

    pub(crate) fn compatibility(&self) -> &str {
        &self.shared.compatibility
    }

    /// Returns the source of compiled code.
    pub fn code(&self) -> &Code {
        &self.shared.code
    }
}

fn common(settings: &EngineConfig) -> Config {
    let mut config = Config::new();
    config.wasm_component_model(true);
    config.epoch_interruption(true);
    config.concurrency_support(false);

    // A trap of a process names the functions on its stack.
    config.wasm_backtrace_max_frames(NonZeroUsize::new(MAX_FRAMES));
    // Not needed: frames are found by their frame pointers. Unwind tables also make each drop of a
    // store slower with every loaded module.
    config.native_unwind_info(false);

    #[cfg(feature = "compiler")]
    crate::compiler::configure(&mut config, settings);
    #[cfg(not(feature = "compiler"))]
    let _compiles_nothing = settings;
    config
}

/// Starts an engine without a pool. Its compiled code runs on pooled engines too, because code does
/// not depend on how instances are allocated.
pub(crate) fn on_demand(config: &EngineConfig) -> Result<wasmtime::Engine, EngineError> {
    start(&common(config))
}

/// Starts an engine with the largest pool the address space allows, or without one. `ulimit -v`,
/// some sandboxes and kernels with 39-bit addresses leave less than the terabytes reserved by a
/// large pool.
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
    let (_, mut table) = kept(config.max_kept_bytes, memory_bytes(), calls);
    let scans = free_slots::scans_page_table();
    if scans {
        // The scan overlooks pages that the kernel is moving. In a memory such a page shows what
        // an earlier call wrote. In a table it would be pointers into an instance that is gone, so
        // all of a table goes back to the kernel.
        table = 0;
        free_slots::refuse_huge_pages();
    }

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
        .max_core_instance_size(CORE_INSTANCE_BYTES)
        .table_elements(PROCESS_TABLE_ELEMENTS)
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

/// Returns how many bytes free slots may keep: all linear memories together, and each table. Tables
/// are small and stay in every slot ever used, so each gets a fixed share.
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

/// Returns the memory available to this process in bytes: the machine's, or the limit of its
/// control group if lower.
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
