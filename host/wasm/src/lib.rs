//! The sandbox: the only crate that uses wasmtime. It has no Kubernetes client.
//!
//! There is one type per lifetime. An [`Engine`] lives as long as the process and owns everything
//! plugins share: the compiler, the instance pool, the linker and the epoch clock. A [`Plugin`] is
//! one loaded digest, compiled, linked and described once. A call is one reconcile: a fresh
//! instance with a deadline, a memory limit and a [`Session`], its only way to the host. Nothing
//! survives the call unless the Plugin asks for warm instances ([`WarmLimits`]).
//! [`PluginReconciler`] implements core's [`Reconciler`] on top of them, and [`PluginMapper`]
//! implements [`Mapper`](operetta_core::ports::Mapper) for plugins with their own event mapping.
//!
//! A program that keeps its `main` is no plugin but a process, which runs for days in one instance:
//! see [`process`].
//!
//! Whatever its bytes are, a plugin cannot outlive its deadline, spinning or waiting; hold a worker
//! thread for longer than one epoch tick; grow beyond its memory limit; make the host allocate
//! without bound; panic the host; see another call's memory; open a file or a socket; or reach an
//! object except through its session.
//!
//! ```
//! # use std::sync::Arc;
//! # use operetta_core::{controller::request::ReconcileRequest, gate::Gate, ports::{LogSink, Reconciler}};
//! # use operetta_core::ports::{LogLevel, LogRecord};
//! # struct NoLog;
//! # impl LogSink for NoLog {
//! #     fn enabled(&self, _: LogLevel) -> bool { false }
//! #     fn write(&self, _: LogRecord) {}
//! # }
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let bytes = operetta_testkit::wat_guest::Guest::default().build();
//! # let logs = Arc::new(NoLog);
//! use operetta_wasm::{CallLimits, Engine, EngineConfig, LoadLimits, Plugin, PluginReconciler};
//!
//! let engine = Engine::new(&EngineConfig::default())?;
//! let plugin = Plugin::load(&engine, bytes, &LoadLimits::default(), logs).await?;
//! assert!(plugin.digest().to_string().starts_with("sha256:"));
//! assert_eq!(plugin.manifest().controllers[0].name, "c");
//! # async fn reconcile(plugin: Plugin, gate: Arc<Gate>, request: ReconcileRequest) -> Result<(), Box<dyn std::error::Error>> {
//! let reconciler = PluginReconciler::new(Arc::new(plugin), gate, CallLimits::default());
//! let action = reconciler.reconcile(&request).await?;
//! # let _ = action;
//! # Ok(())
//! # }
//! # Ok(())
//! # }
//! ```
//!
//! [`Session`]: operetta_core::gate::Session
//! [`Reconciler`]: operetta_core::ports::Reconciler

#[allow(
    unsafe_code,
    missing_docs,
    reason = "bindgen! implements wasmtime's unsafe traits for the types of the WIT"
)]
mod bindings {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "plugin",
        imports: { "operetta:controller/objects": async, "operetta:controller/raw": async },
        exports: { default: async },
    });
}

/// The mapper is the only optional export, so it has a world of its own.
#[allow(
    unsafe_code,
    missing_docs,
    reason = "bindgen! implements wasmtime's unsafe traits for the types of the WIT"
)]
mod mapper_bindings {
    wasmtime::component::bindgen!({
        inline: "package operetta:host; world mapping { export operetta:controller/mapper@0.1.0; }",
        path: "../../wit",
        world: "operetta:host/mapping",
        with: { "operetta:controller/types": crate::bindings::operetta::controller::types },
        exports: { default: async },
    });
}

mod call;
mod check;
pub mod code;
#[cfg(feature = "compiler")]
pub mod compiler;
mod component;
mod engine;
mod free_slots;
mod imports;
mod interpreted;
mod load_error;
mod plugin;
pub mod process;
mod program;
mod slots;
mod store;
mod swapping;
mod ticker;

pub use call::{
    mapper::PluginMapper,
    reconciler::{CallLimits, PluginReconciler},
    warm::WarmLimits,
};
pub use check::check;
pub use code::{
    Code, CodeCache, Format, Inspection, LoadObserver, LoadStage, MappedTotals, Origin, Provenance,
    Worker, WorkerLimits, digest, inspect,
};
#[cfg(feature = "compiler")]
pub use compiler::{SectionAt, SnapshotError, rewrite_sections};
pub use component::Component;
pub use engine::{Allocation, Engine, EngineConfig, EngineError, memory_bytes};
pub use imports::offered;
pub use load_error::LoadError;
pub use plugin::{LoadLimits, Plugin};
pub use process::{Process, ProcessConfig, ProcessProgram};
pub use program::Program;

/// The `operetta:controller` version of this host. It runs every plugin of the same `major.minor`.
pub const CONTRACT_VERSION: &str = "0.1.0";

/// Exporting this interface makes a component a plugin.
pub const RECONCILER: &str = "operetta:controller/reconciler@0.1.0";

/// The optional export of a plugin with its own event mapping.
pub const MAPPER: &str = "operetta:controller/mapper@0.1.0";

/// Exporting a core module under this name makes a component a process.
pub const PROCESS: &str = "process";

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            let _infallible = write!(text, "{byte:02x}");
            text
        })
}

/// Truncates a text to at most `max` bytes at a character boundary, and frees the rest.
fn cut(mut text: String, max: usize) -> String {
    if text.len() > max {
        text.truncate(text.floor_char_boundary(max));
        text.shrink_to_fit();
    }
    text
}
