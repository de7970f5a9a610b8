//! Compiled code: compiled in a child process, kept on disk, mapped into memory.
//!
//! A component is compiled once for each version of the host: the cache is keyed by the hash of the component and of
//! everything that shapes its code. The child process has limits on memory and processor time and a lower priority than
//! reconciles. Small components are compiled there as well, because their code can be large; none of them waits for a large
//! component. docs/decisions/0008-compiled-code-cache.md has the reasons.

mod bulk;
mod cache;
pub(crate) mod compile_cost;
pub(crate) mod inspect;
pub(crate) mod link;
mod obtain;
mod pieces;
pub(crate) mod resident;
mod sandbox;
pub(crate) mod sections;
mod snapshot;
mod trusted;
mod worker;

use std::{
    fs::File,
    hash::{Hash, Hasher},
    path::{Path, PathBuf},
    time::Duration,
};

use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use wasmtime::component::Component;

pub use cache::{CacheError, CodeCache};
pub use inspect::{Format, Inspection, digest, inspect};
pub use resident::MappedTotals;
pub use snapshot::{SnapshotError, snapshot};
pub use worker::{WorkerError, WorkerLimits, check_worker, compile_worker};

use crate::hex;

/// The source of compiled code, and the limits of compiling. By default nothing is kept, and everything is compiled in
/// this process.
#[derive(Debug)]
pub struct Code {
    /// The cache of compiled code.
    pub cache: Option<CodeCache>,
    /// The worker that compiles components; None compiles them in this process.
    pub worker: Option<Worker>,
    /// One permit for components under [`LARGE`]: a compilation already uses every core.
    small: Semaphore,
    /// One permit for the others: a compilation takes up to the worker's whole limit of memory.
    large: Semaphore,
}

/// Bytes from which a component may take many seconds to compile.
const LARGE: usize = 1 << 20;

/// A program that compiles components: it hands its arguments to [`compile_worker`].
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
    /// It was compiled before.
    Cache,
    /// Compiled by this process.
    Here,
    /// Compiled by a child process.
    Worker,
}

/// A plugin's code.
pub(crate) struct Obtained {
    pub component: Component,
    /// The file from which it can be mapped again, even when the cache forgets it. None if it is not kept.
    pub file: Option<File>,
}

/// The provenance of a plugin's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// The origin.
    pub origin: Origin,
    /// The time that it took, without waiting for other compilations.
    pub took: Duration,
}

impl Default for Code {
    fn default() -> Self {
        Self::new(None, None)
    }
}

impl Code {
    /// Creates a source that keeps code in this cache and compiles with this worker.
    pub fn new(cache: Option<CodeCache>, worker: Option<Worker>) -> Self {
        Self { cache, worker, small: Semaphore::new(1), large: Semaphore::new(1) }
    }

    /// Returns the directory of the cache, which is this user's alone.
    pub fn directory(&self) -> Option<&Path> {
        self.cache.as_ref().map(CodeCache::directory)
    }

    /// Returns the reason why compiled code is not kept at the moment; None if it is.
    pub fn cache_problem(&self) -> Option<String> {
        self.cache.as_ref().and_then(CodeCache::problem)
    }

    /// Checks the sandbox of the worker, with these files as bait. Returns its description, or the reason why it does not
    /// hold; None without a worker.
    pub async fn check_sandbox(&self, baits: &[PathBuf]) -> Option<Result<String, String>> {
        Some(self.worker.as_ref()?.check_sandbox(baits).await)
    }
}

/// Describes everything that shapes an engine's code: its version and settings, the compiler, and the processor.
fn compatibility(engine: &wasmtime::Engine) -> String {
    struct Stable(Sha256);
    impl Hasher for Stable {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
        fn finish(&self) -> u64 {
            0
        }
    }
    let mut hasher = Stable(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut hasher);
    bulk::FORM.hash(&mut hasher);
    hex(&hasher.0.finalize())
}
