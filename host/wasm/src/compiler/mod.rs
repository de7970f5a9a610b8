//! Everything behind the feature `compiler`, because it needs wasmtime's compiler: the compile
//! worker, compilation in this process, and snapshots. A host is built without it and only runs
//! code.

mod bulk;
mod function_cache;
mod pieces;
mod priority;
mod privileges;
mod sandbox;
mod sections;
mod snapshot;
mod worker;

use std::sync::Arc;

use wasmtime::{Config, OptLevel, component::Component};

pub use sections::{SectionAt, rewrite_sections};
pub use snapshot::{SnapshotError, snapshot};
pub use worker::{WorkerError, check_worker, compile_worker};

use self::function_cache::FunctionCache;
use crate::{EngineConfig, LoadError, load_error::short_message};

/// Configures the compiler of an engine.
pub(crate) fn configure(config: &mut Config, settings: &EngineConfig) {
    config.cranelift_opt_level(if settings.optimize {
        OptLevel::Speed
    } else {
        OptLevel::None
    });

    if settings.keep_functions
        && let Err(error) =
            config.enable_incremental_compilation(Arc::new(FunctionCache::default()))
    {
        tracing::warn!(error = %format!("{error:#}"), "failed to keep compiled functions, so each build compiles all of them");
    }
}

/// Compiles a component in this process.
///
/// # Errors
/// Returns [`LoadError::CompileFailed`] with the compiler's reason.
pub(crate) fn compile(engine: &wasmtime::Engine, bytes: &[u8]) -> Result<Component, LoadError> {
    bulk::compiled(bytes, |bytes| Component::from_binary(engine, bytes))
        .map_err(|error| LoadError::CompileFailed(short_message(&error)))
}
