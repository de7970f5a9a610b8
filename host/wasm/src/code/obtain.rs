//! Obtaining a component's code: from the cache, from a worker, or compiled in this process.

use std::{
    fs::File,
    io::{self, Seek, Write},
    sync::Arc,
    time::{Duration, Instant},
};

use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use wasmtime::component::Component;

use super::{Code, CodeCache, LARGE, Obtained, Origin, Provenance, bulk, compatibility, trusted};
use crate::{LoadError, engine::Engine, hex, load_error::short_message};

impl Code {
    /// Returns the code of a component, compiled if necessary; `digest` is the hash of its bytes. To be compiled it waits
    /// for a `turn` of its owner first.
    ///
    /// # Errors
    /// [`LoadError`], when it does not compile within the limits.
    pub(crate) async fn obtain(
        engine: &Engine,
        bytes: Arc<Vec<u8>>,
        digest: &str,
        turn: Option<&Arc<Semaphore>>,
    ) -> Result<(Obtained, Provenance), LoadError> {
        let key = key(engine.wasmtime(), digest);
        let code = engine.code();
        if let Some(kept) = obtain_kept(engine, &key).await? {
            return Ok(kept);
        }
        let waited = Instant::now();
        let _turn = match turn {
            Some(turn) => Some(acquire(turn).await?),
            None => None,
        };
        let _one_at_a_time = acquire(if bytes.len() < LARGE { &code.small } else { &code.large }).await?;
        if waited.elapsed() > Duration::from_millis(1)
            && let Some(kept) = obtain_kept(engine, &key).await?
        {
            // This one waited for the same component.
            return Ok(kept);
        }
        let started = Instant::now();
        match &code.worker {
            Some(worker) => {
                // Memory, not the disk of the cache: that may be full, and the worker need not write to it.
                let output = rustix::fs::memfd_create("operetta-compiled", rustix::fs::MemfdFlags::CLOEXEC);
                let output = File::from(output.map_err(|error| no_file(error.into()))?);
                let compatibility = compatibility(engine.wasmtime());
                worker.compile(&bytes, &compatibility, &output).await?;
                let component = blocking(engine, &key, move |engine, key| adopt(engine, key, output)).await?;
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

/// Runs blocking work off the runtime's threads.
async fn blocking<T: Send + 'static>(
    engine: &Engine,
    key: &str,
    work: impl FnOnce(&Engine, &str) -> Result<T, LoadError> + Send + 'static,
) -> Result<T, LoadError> {
    let engine = engine.clone();
    let key = key.to_owned();
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
            tracing::warn!(%key, error = %format!("{error:#}"), "failed to load cached code, compiling it again");
            cache.remove(key);
            Ok(None)
        }
    }
}

/// Loads and keeps the output of a worker. Where it cannot be kept it is run from memory.
fn adopt(engine: &Engine, key: &str, mut output: File) -> Result<Obtained, LoadError> {
    // The worker does not know the pool's limits on tables and memories.
    let component =
        trusted::load(engine.wasmtime(), &output).map_err(|error| LoadError::CompileFailed(short_message(&error)))?;
    let kept = engine.code().cache.as_ref().and_then(|cache| {
        let written = cache.temporary_file().and_then(|mut file| {
            output.rewind()?;
            io::copy(&mut output, &mut file)?;
            cache.put(key, file)
        });
        keep(cache, written, key)
    });
    let Some(file) = kept else { return Ok(Obtained { component, file: None }) };
    // Mapped from the file, its memory is the page cache's.
    match trusted::load(engine.wasmtime(), &file) {
        Ok(component) => Ok(Obtained { component, file: Some(file) }),
        Err(_) => Ok(Obtained { component, file: None }),
    }
}

fn compile(engine: &Engine, key: &str, bytes: &[u8]) -> Result<Obtained, LoadError> {
    let component = bulk::compiled(bytes, |bytes| Component::from_binary(engine.wasmtime(), bytes))
        .map_err(|error| LoadError::CompileFailed(short_message(&error)))?;
    let file = engine.code().cache.as_ref().and_then(|cache| {
        let artefact = component.serialize().map_err(|error| io::Error::other(format!("{error:#}")));
        let written = artefact.and_then(|artefact| {
            let mut file = cache.temporary_file()?;
            file.write_all(&artefact)?;
            cache.put(key, file)
        });
        keep(cache, written, key)
    });
    Ok(Obtained { component, file })
}

/// Records whether code could be kept: the plugin runs all the same.
fn keep(cache: &CodeCache, written: io::Result<File>, key: &str) -> Option<File> {
    if let Err(error) = &written {
        tracing::warn!(%key, %error, "failed to keep compiled code: it runs from memory and is compiled again at the next start");
    }
    cache.record(written.as_ref().err());
    written.ok()
}

fn no_file(error: io::Error) -> LoadError {
    LoadError::Busy(format!("failed to create a file for compiled code: {error}"))
}

/// Returns the cache key of a component's code: engines whose code differs have different keys.
fn key(engine: &wasmtime::Engine, digest: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(digest);
    hash.update("\n");
    hash.update(compatibility(engine));
    hex(&hash.finalize())
}
