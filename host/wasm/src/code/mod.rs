//! Compiled code, which a child process compiles, the disk caches, and memory maps.
//!
//! A component is compiled once for each version of the host. The cache key is the hash of the
//! component and of everything that its code depends on. The child process has limits on memory and
//! processor time, and a lower priority than reconciles. It also compiles small components, because
//! their code can be large. Small components do not wait for large ones.
//! docs/decisions/0008-compiled-code-cache.md has the reasons.

mod cache;
pub(crate) mod compatibility;
pub(crate) mod compile_cost;
pub(crate) mod inspect;
pub(crate) mod interpreters;
pub(crate) mod link;
mod obtain;
pub(crate) mod privileges;
pub(crate) mod resident;
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
pub use worker::WorkerLimits;

/// The source of compiled code. By default nothing is cached, and this process compiles everything,
/// which needs the feature `compiler`.
#[derive(Debug)]
pub struct Code {
    /// The cache of compiled code.
    pub cache: Option<CodeCache>,
    /// The worker that compiles components; None compiles them in this process.
    pub worker: Option<Worker>,
    /// The components that were compiled, by their key; None to keep none in memory.
    kept: Option<Mutex<HashMap<String, Component>>>,
    /// One permit for components under [`LARGE`], because one compilation uses every core.
    small: Semaphore,
    /// One permit for larger components, because one compilation may take the worker's whole memory
    /// limit.
    large: Semaphore,
}

/// The size in bytes from which a component may take many seconds to compile.
const LARGE: usize = 1 << 20;

/// A program that compiles components. It passes its arguments to `compiler::compile_worker`.
#[derive(Clone, Debug)]
pub struct Worker {
    /// The program.
    pub program: PathBuf,
    /// The arguments before the limits.
    pub arguments: Vec<String>,
    /// The limits of one compilation.
    pub limits: WorkerLimits,
}

/// The origin of a plugin's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The cache had it, or a loaded plugin of the same digest.
    Cache,
    /// This process compiled it.
    Here,
    /// A child process compiled it.
    Worker,
}

/// A plugin's code.
pub(crate) struct Obtained {
    pub component: Component,
    /// The file from which it can be mapped again, even after the cache has removed it. None if the
    /// code is not cached.
    pub file: Option<File>,
}

/// The provenance of a plugin's code.
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
    /// Creates a source that caches code in this cache and compiles with this worker.
    pub fn new(cache: Option<CodeCache>, worker: Option<Worker>) -> Self {
        Self {
            cache,
            worker,
            kept: None,
            small: Semaphore::new(1),
            large: Semaphore::new(1),
        }
    }

    /// Creates a source that compiles in this process and keeps all compiled components in memory:
    /// for simulations, which load the same few again and again.
    pub fn in_memory() -> Self {
        Self {
            kept: Some(Mutex::default()),
            ..Self::default()
        }
    }

    /// Returns the directory of the cache, which only this user may access.
    pub fn directory(&self) -> Option<&Path> {
        self.cache.as_ref().map(CodeCache::directory)
    }

    /// Returns the reason why compiled code cannot be cached at the moment; None if it can.
    pub fn cache_problem(&self) -> Option<String> {
        self.cache.as_ref().and_then(CodeCache::problem)
    }

    /// Checks the sandbox of the worker, with these files as bait. Returns its description; None
    /// without a worker.
    ///
    /// # Errors
    /// Returns the reason why the sandbox is not effective.
    pub async fn check_sandbox(&self, baits: &[PathBuf]) -> Option<Result<String, String>> {
        Some(self.worker.as_ref()?.check_sandbox(baits).await)
    }
}
