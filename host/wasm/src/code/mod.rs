//! Compiled code: compiled by a child process, cached on disk, mapped into memory.
//!
//! A component is compiled once per version of the host: the cache key covers the component and
//! everything its code depends on. The child process has limits on memory and processor time, and a
//! lower priority than reconciles. Even small components go there, because their code can be large.
//! They do not queue behind large ones. docs/decisions/0008-compiled-code-cache.md has the reasons.

mod cache;
pub(crate) mod compatibility;
pub(crate) mod compile_cost;
pub(crate) mod inspect;
pub(crate) mod interpreters;
pub(crate) mod link;
mod obtain;
pub(crate) mod privileges;
pub(crate) mod resident;
mod stage;
mod trusted;
pub(crate) mod worker;

use std::{
    collections::HashMap,
    fs::File,
    path::{Path, PathBuf},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use wasmtime::component::Component;

pub use cache::{CacheError, CodeCache};
pub use inspect::{Format, Inspection, digest, inspect};
pub use privileges::{PrivilegeError, drop_for_host};
pub use resident::MappedTotals;
pub use stage::{LoadObserver, LoadStage};
pub use worker::WorkerLimits;

/// Where compiled code comes from. By default nothing is cached and this process compiles
/// everything, with the `compiler` feature.
#[derive(Debug)]
pub struct Code {
    /// The cache of compiled code.
    pub cache: Option<CodeCache>,
    /// The compile worker; None compiles components in this process.
    pub worker: Option<Worker>,
    /// Compiled components by cache key; None keeps none in memory.
    kept: Option<Mutex<HashMap<String, Component>>>,
    /// One permit for components under [`LARGE`], because one compilation uses every core.
    small: Semaphore,
    /// One permit for larger components, because one compilation may take the worker's whole memory
    /// limit.
    large: Semaphore,
}

/// The size in bytes above which a component may take many seconds to compile.
const LARGE: usize = 1 << 20;

/// A program that compiles components. It passes its arguments to `compiler::compile_worker`.
#[derive(Clone, Debug)]
pub struct Worker {
    /// The program.
    pub program: PathBuf,
    /// The arguments before the limits.
    pub arguments: Vec<String>,
    /// The limits of one compilation of a plugin.
    pub limits: WorkerLimits,
    /// The limits of one compilation of a process, which is an operator with all its libraries.
    pub process_limits: WorkerLimits,
}

/// Where a plugin's code came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The cache had it, or a loaded plugin of the same digest.
    Cache,
    /// This process compiled it.
    Here,
    /// A child process compiled it.
    Worker,
}

pub(crate) struct Obtained {
    pub component: Component,
    /// Maps the code again, even after its cache entry is removed. None if the code is not cached.
    pub file: Option<File>,
}

/// Where a plugin's code came from, and how long it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// The origin.
    pub origin: Origin,
    /// The time to load or compile it, without the wait for other compilations.
    pub took: Duration,
}

impl Default for Code {
    fn default() -> Self {
        Self::new(None, None)
    }
}

impl Code {
    /// Caches code in this cache and compiles with this worker.
    pub fn new(cache: Option<CodeCache>, worker: Option<Worker>) -> Self {
        Self {
            cache,
            worker,
            kept: None,
            small: Semaphore::new(1),
            large: Semaphore::new(1),
        }
    }

    /// Compiles in this process and keeps all components in memory: for simulations, which load the
    /// same few again and again.
    pub fn in_memory() -> Self {
        Self {
            kept: Some(Mutex::default()),
            ..Self::default()
        }
    }

    /// Returns the directory of the cache, open to this user only.
    pub fn directory(&self) -> Option<&Path> {
        self.cache.as_ref().map(CodeCache::directory)
    }

    /// Returns why compiled code cannot be cached at the moment; None if it can.
    pub fn cache_problem(&self) -> Option<String> {
        self.cache.as_ref().and_then(CodeCache::problem)
    }

    /// Checks the sandbox of the worker, with these files as bait, and returns its description.
    /// None without a worker.
    ///
    /// # Errors
    /// Returns why the sandbox is not effective.
    pub async fn check_sandbox(&self, baits: &[PathBuf]) -> Option<Result<String, String>> {
        Some(self.worker.as_ref()?.check_sandbox(baits).await)
    }
}
