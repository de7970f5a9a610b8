//! Compiled code: kept on disk, and made in a process of its own where that would take much.
//!
//! A component is compiled once for each version of the host: what was compiled is looked up by the hash of the
//! component and of everything that shapes its code. Components are compiled by a child process, which has a limit on
//! memory and processor time and gives way to reconciles: also small ones, of which the compiler can make much. No small
//! one waits for a large one. docs/decisions/0008-compiled-code-cache.md says why it is done so.

mod bulk;
mod cache;
pub(crate) mod compile_cost;
pub(crate) mod inspect;
pub(crate) mod resident;
mod snapshot;
mod trusted;
mod worker;

use std::{
    fs::File,
    hash::{Hash, Hasher},
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use wasmtime::component::Component;

pub use cache::{CacheError, CodeCache};
pub use inspect::{Format, Inspection, digest, inspect};
pub use resident::MappedTotals;
pub use snapshot::{SnapshotError, snapshot};
pub use worker::{WorkerError, WorkerLimits, compile_worker};

use crate::{LoadError, engine::Engine, hex, plugin::in_short};

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
    /// Compiled code is kept in this cache, and components are compiled by this worker.
    pub fn new(cache: Option<CodeCache>, worker: Option<Worker>) -> Self {
        Self { cache, worker, small: Semaphore::new(1), large: Semaphore::new(1) }
    }

    /// The code of a component; `digest` is the hash of its bytes.
    pub(crate) async fn obtain(
        engine: &Engine,
        bytes: Arc<Vec<u8>>,
        digest: &str,
    ) -> Result<(Obtained, Provenance), LoadError> {
        let key = key(engine.wasmtime(), digest);
        let code = engine.code();
        if let Some(kept) = obtain_kept(engine, &key).await? {
            return Ok(kept);
        }
        let waited = Instant::now();
        let _one_at_a_time = acquire(if bytes.len() < LARGE { &code.small } else { &code.large }).await?;
        if waited.elapsed() > Duration::from_millis(1)
            && let Some(kept) = obtain_kept(engine, &key).await?
        {
            // It was the same component that this one has waited for.
            return Ok(kept);
        }
        let started = Instant::now();
        match &code.worker {
            Some(worker) => {
                let output = Temporary::new(code.cache.as_ref()).map_err(no_file)?;
                let compatibility = compatibility(engine.wasmtime());
                worker.compile(&bytes, &compatibility, output.file()).await?;
                let component = blocking(engine, &key, move |engine, key| take_over(engine, key, output)).await?;
                Ok((component, Provenance { origin: Origin::Worker, took: started.elapsed() }))
            }
            None => {
                let component = blocking(engine, &key, move |engine, key| compile(engine, key, &bytes)).await?;
                Ok((component, Provenance { origin: Origin::Here, took: started.elapsed() }))
            }
        }
    }
}

async fn obtain_kept(engine: &Engine, key: &str) -> Result<Option<(Obtained, Provenance)>, LoadError> {
    let started = Instant::now();
    let component = blocking(engine, key, kept).await?;
    Ok(component.map(|component| (component, Provenance { origin: Origin::Cache, took: started.elapsed() })))
}

async fn acquire(semaphore: &Semaphore) -> Result<tokio::sync::SemaphorePermit<'_>, LoadError> {
    semaphore.acquire().await.map_err(|closed| LoadError::Busy(closed.to_string()))
}

/// Runs what reads files or compiles off the runtime's threads.
async fn blocking<T: Send + 'static>(
    engine: &Engine,
    key: &str,
    work: impl FnOnce(&Engine, &str) -> Result<T, LoadError> + Send + 'static,
) -> Result<T, LoadError> {
    let (engine, key) = (engine.clone(), key.to_owned());
    let done = tokio::task::spawn_blocking(move || work(&engine, &key)).await;
    done.map_err(|stopped| LoadError::Busy(stopped.to_string()))?
}

/// Returns code that was compiled before. If anything is wrong with it, it is compiled again.
fn kept(engine: &Engine, key: &str) -> Result<Option<Obtained>, LoadError> {
    let Some(cache) = &engine.code().cache else { return Ok(None) };
    let Some(file) = cache.get(key) else { return Ok(None) };
    match trusted::load(engine.wasmtime(), &file) {
        Ok(component) => Ok(Some(Obtained { component, file: Some(file) })),
        Err(error) => {
            tracing::warn!(%key, error = %format!("{error:#}"), "cached code does not load: compiling it again");
            cache.remove(key);
            Ok(None)
        }
    }
}

/// Loads and keeps what a worker has written.
fn take_over(engine: &Engine, key: &str, output: Temporary) -> Result<Obtained, LoadError> {
    // The worker knows nothing of the pool's limits: on tables, memories and the like.
    let component =
        trusted::load(engine.wasmtime(), output.file()).map_err(|error| LoadError::CompileFailed(in_short(&error)))?;
    let file = match (&engine.code().cache, output) {
        (Some(cache), Temporary::InCache(file)) => keep(cache.put(key, file), key),
        _ => None,
    };
    Ok(Obtained { component, file })
}

fn compile(engine: &Engine, key: &str, bytes: &[u8]) -> Result<Obtained, LoadError> {
    let component = bulk::compiled(bytes, |bytes| Component::from_binary(engine.wasmtime(), bytes))
        .map_err(|error| LoadError::CompileFailed(in_short(&error)))?;
    let file = engine.code().cache.as_ref().and_then(|cache| {
        let artefact = component.serialize().map_err(|error| io::Error::other(format!("{error:#}")));
        let written = artefact.and_then(|artefact| {
            let mut file = cache.temporary_file()?;
            file.write_all(&artefact)?;
            cache.put(key, file)
        });
        keep(written, key)
    });
    Ok(Obtained { component, file })
}

/// A plugin runs also when its code cannot be kept.
fn keep(written: io::Result<File>, key: &str) -> Option<File> {
    let failed = |error: &io::Error| {
        tracing::warn!(%key, %error, "compiled code is not kept: it will be compiled again");
    };
    written.inspect_err(failed).ok()
}

/// Maps code again that was [`Obtained`] before.
///
/// # Errors
/// [`LoadError::Busy`]: memory or mappings are used up.
pub(crate) fn map_again(engine: &wasmtime::Engine, file: &File) -> Result<Component, LoadError> {
    trusted::load(engine, file).map_err(|error| LoadError::Busy(format!("the code cannot be mapped: {error:#}")))
}

fn no_file(error: io::Error) -> LoadError {
    LoadError::Busy(format!("there is no place for compiled code: {error}"))
}

/// The file that a worker writes to.
enum Temporary {
    /// A file that can become an entry of the cache.
    InCache(tempfile::NamedTempFile),
    /// Memory.
    InMemory(File),
}

impl Temporary {
    fn new(cache: Option<&CodeCache>) -> io::Result<Self> {
        match cache {
            Some(cache) => Ok(Self::InCache(cache.temporary_file()?)),
            None => {
                let memory = rustix::fs::memfd_create("operetta-compiled", rustix::fs::MemfdFlags::CLOEXEC)?;
                Ok(Self::InMemory(memory.into()))
            }
        }
    }

    fn file(&self) -> &File {
        match self {
            Self::InCache(file) => file.as_file(),
            Self::InMemory(file) => file,
        }
    }
}

/// Names the code of a component: no two engines whose code differs agree on it.
fn key(engine: &wasmtime::Engine, digest: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(digest);
    hash.update("\n");
    hash.update(compatibility(engine));
    hex(&hash.finalize())
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
