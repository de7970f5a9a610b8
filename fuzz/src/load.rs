//! A component that is compiled, linked and asked for its manifest. It loads in time or is refused
//! with a reason, for any code and any pointers and lengths that it passes to imports.
//!
//! The input: a component, or bytes from which wasm-smith generates a core module with the exports
//! of a plugin and some imports of the contract. The module is then wrapped as a component.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use arbitrary::Unstructured;
use operetta_core::ports::{LogLevel, LogRecord, LogSink};
use operetta_testkit::wat_guest::component;
use operetta_wasm::{Engine, EngineConfig, LoadError, LoadLimits, Plugin, RECONCILER};
use tokio::runtime::{Builder, Runtime};
use wasm_smith::{Config, Module};

/// The imports and exports of the generated modules. Many imports take pointers and lengths, for
/// example `get` of objects and `write` of the log.
const SHAPE: &str = r#"(module
    (import "operetta:controller/objects@0.1.0" "get"
        (func (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
    (import "operetta:controller/events@0.1.0" "emit" (func (param i32)))
    (import "operetta:controller/log@0.1.0" "write" (func (param i32 i32 i32 i32 i32)))
    (import "operetta:controller/config@0.1.0" "get" (func (param i32)))
    (import "wasi:cli/stderr@0.2.0" "get-stderr" (func (result i32)))
    (import "wasi:io/streams@0.2.0" "[method]output-stream.blocking-write-and-flush" (func (param i32 i32 i32 i32)))
    (import "wasi:filesystem/preopens@0.2.0" "get-directories" (func (param i32)))
    (memory (export "memory") 1 4)
    (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) unreachable)
    (func (export "operetta:controller/reconciler@0.1.0#describe") (result i32) unreachable)
    (func (export "operetta:controller/reconciler@0.1.0#reconcile")
        (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32) unreachable))"#;

/// The timeout of `describe()`.
const TIMEOUT: Duration = Duration::from_millis(100);

/// The time limit of one input, generous for a busy machine.
const IN_TIME: Duration = Duration::from_secs(30);

/// Checks the module's invariants on one input.
pub fn load(data: &[u8]) {
    let Some(bytes) = drawn(data) else { return };
    let (engine, runtime) = stage();
    let limits = LoadLimits {
        max_wasm_bytes: 256 << 10,
        memory_bytes: 1 << 20,
        timeout: TIMEOUT,
        ..LoadLimits::default()
    };
    let started = Instant::now();
    match runtime.block_on(Plugin::load(engine, bytes, &limits, Arc::new(Nowhere))) {
        Ok(plugin) => {
            assert!(!plugin.manifest().controllers.is_empty());
            assert!(
                plugin
                    .exports()
                    .iter()
                    .any(|name| name.starts_with(RECONCILER.trim_end_matches('0')))
            );
        }
        Err(LoadError::Busy(why)) => panic!("busy, but nothing else is loaded: {why}"),
        Err(error) => assert!(!error.to_string().is_empty() && !error.reason().as_str().is_empty()),
    }
    assert!(
        started.elapsed() < IN_TIME,
        "loading took {:?}",
        started.elapsed()
    );
}

/// Returns the component, or None if there are too few bytes to generate one.
fn drawn(data: &[u8]) -> Option<Vec<u8>> {
    static WIDE: OnceLock<Vec<u8>> = OnceLock::new();
    if data.starts_with(b"\0asm") {
        return Some(data.to_vec());
    }
    let shape = WIDE.get_or_init(|| wat::parse_str(SHAPE).expect("a module"));
    let config = Config {
        module_shape: Some(shape.clone()),
        max_data_segments: 4,
        max_element_segments: 2,
        max_funcs: 8,
        max_globals: 4,
        max_instructions: 60,
        max_tables: 1,
        max_table_elements: 100,
        max_types: 24,
        max_memory32_bytes: 4 << 16,
        memory_offset_choices: wasm_smith::MemoryOffsetChoices(90, 8, 2),
        custom_page_sizes_enabled: false,
        exceptions_enabled: false,
        gc_enabled: false,
        memory64_enabled: false,
        reference_types_enabled: false,
        relaxed_simd_enabled: false,
        shared_everything_threads_enabled: false,
        tail_call_enabled: false,
        threads_enabled: false,
        wide_arithmetic_enabled: false,
        ..Config::default()
    };
    let mut module = Module::new(config, &mut Unstructured::new(data)).ok()?;
    // Other tests cover timeouts; here they would only take time.
    module.ensure_termination(10_000).ok()?;
    Some(component("guest", &module.to_bytes()))
}

fn stage() -> &'static (Engine, Runtime) {
    static STAGE: OnceLock<(Engine, Runtime)> = OnceLock::new();
    STAGE.get_or_init(|| {
        let config = EngineConfig {
            concurrent_calls: 4,
            warm_instances: 1,
            max_memory_bytes: 16 << 20,
            optimize: false,
            ..EngineConfig::default()
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        (
            Engine::new(&config).expect("an engine"),
            runtime.expect("a runtime"),
        )
    })
}

/// A log sink that discards records.
struct Nowhere;

impl LogSink for Nowhere {
    fn enabled(&self, _level: LogLevel) -> bool {
        true
    }

    fn write(&self, _record: LogRecord) {}
}
