//! Obtains a component's code: from the cache, from a worker, or by compiling it in this process.

use std::{
    fs::File,
    io::{self, Seek},
    sync::Arc,
    time::Duration,
};

use operetta_core::nondeterminism;
use sha2::{Digest, Sha256};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::Instant,
};
use wasmtime::component::Component;

use super::{Code, CodeCache, LARGE, LoadStage, Obtained, Origin, Provenance, trusted};
use crate::{LoadError, LoadLimits, engine::Engine, hex, load_error::short_message};

impl Code {
    /// Returns the code of a component, compiled if necessary. `digest` is the hash of its bytes.
    /// Before it is compiled, a component waits for a permit of its owner,
    /// [`LoadLimits::compilations`]. A process has limits of its own in the compile worker.
    ///
    /// # Errors
    /// Returns a [`LoadError`] if the component does not compile within the limits.
    pub(crate) async fn obtain(
        engine: &Engine,
        bytes: Arc<Vec<u8>>,
        digest: &str,
        is_process: bool,
        limits: &LoadLimits,
    ) -> Result<(Obtained, Provenance), LoadError> {
        let key = key(engine, digest);
        let code = engine.code();
        if let Some(cached) = obtain_cached(engine, &key).await? {
            return Ok(cached);
        }

        let waiting_since = Instant::now();
        let _permit = match &limits.compilations {
            Some(compilations) => Some(acquire(compilations, limits).await?),
            None => None,
        };
        let lane = match bytes.len() < LARGE {
            true => &code.small,
            false => &code.large,
        };
        let _one_at_a_time = acquire(lane, limits).await?;

        if waiting_since.elapsed() > Duration::from_millis(1) {
            limits.enter(LoadStage::Here).await;
            if let Some(cached) = obtain_cached(engine, &key).await? {
                // The same component was compiled meanwhile.
                return Ok(cached);
            }
        }

        let started = Instant::now();
        match &code.worker {
            Some(worker) => {
                // The output goes to memory: the cache's disk may be full, and the worker needs no
                // access to it.
                let output =
                    rustix::fs::memfd_create("operetta-compiled", rustix::fs::MemfdFlags::CLOEXEC);
                let output = File::from(output.map_err(|error| no_file(error.into()))?);

                limits.enter(LoadStage::InWorker).await;
                worker
                    .compile(&bytes, is_process, engine.compatibility(), &output)
                    .await?;
                limits.enter(LoadStage::Here).await;
                let component =
                    blocking(engine, &key, move |engine, key| adopt(engine, key, output)).await?;
                Ok((
                    component,
                    Provenance {
                        origin: Origin::Worker,
                        took: started.elapsed(),
                    },
                ))
            }
            None => {
                limits.enter(LoadStage::Here).await;
                let component = blocking(engine, &key, move |engine, key| {
                    compile(engine, key, &bytes)
                })
                .await?;
                Ok((
                    component,
                    Provenance {
                        origin: Origin::Here,
                        took: started.elapsed(),
                    },
                ))
            }
        }
    }
}

async fn obtain_cached(
    engine: &Engine,
    key: &str,
) -> Result<Option<(Obtained, Provenance)>, LoadError> {
    let started = Instant::now();
    let component = blocking(engine, key, load_cached).await?;
    Ok(component.map(|component| {
        (
            component,
            Provenance {
                origin: Origin::Cache,
                took: started.elapsed(),
            },
        )
    }))
}

async fn acquire<'a>(
    semaphore: &'a Semaphore,
    limits: &LoadLimits,
) -> Result<SemaphorePermit<'a>, LoadError> {
    if let Ok(permit) = semaphore.try_acquire() {
        return Ok(permit);
    }

    limits.enter(LoadStage::Waiting).await;
    semaphore
        .acquire()
        .await
        .map_err(|closed| LoadError::Busy(closed.to_string()))
}

async fn blocking<T: Send + 'static>(
    engine: &Engine,
    key: &str,
    work: impl FnOnce(&Engine, &str) -> Result<T, LoadError> + Send + 'static,
) -> Result<T, LoadError> {
    let engine = engine.clone();
    let key = key.to_owned();
    let result = nondeterminism::blocking(move || work(&engine, &key)).await;
    result.map_err(|stopped| LoadError::Busy(stopped.to_string()))?
}

/// None if the code is not cached, or could not be loaded and was removed.
fn load_cached(engine: &Engine, key: &str) -> Result<Option<Obtained>, LoadError> {
    let kept = engine
        .code()
        .kept
        .as_ref()
        .and_then(|kept| kept.lock().get(key).cloned());
    if let Some(component) = kept {
        return Ok(Some(Obtained {
            component,
            file: None,
        }));
    }

    let Some(cache) = &engine.code().cache else {
        return Ok(None);
    };
    let Some(file) = cache.get(key) else {
        return Ok(None);
    };

    match trusted::load(engine.wasmtime(), &file) {
        Ok(component) => Ok(Some(Obtained {
            component,
            file: Some(file),
        })),
        Err(error) => {
            tracing::warn!(%key, error = %format!("{error:#}"), "failed to load cached code, compiling it again");
            cache.remove(key);
            Ok(None)
        }
    }
}

/// Loads and caches the output of a worker. If it cannot be cached, the code runs from memory.
fn adopt(engine: &Engine, key: &str, mut output: File) -> Result<Obtained, LoadError> {
    // This also checks the pool's limits on tables and memories, which the worker does not know.
    let component = trusted::load(engine.wasmtime(), &output)
        .map_err(|error| LoadError::CompileFailed(short_message(&error)))?;

    let cached = engine.code().cache.as_ref().and_then(|cache| {
        let written = cache.temporary_file().and_then(|mut file| {
            output.rewind()?;
            io::copy(&mut output, &mut file)?;
            cache.put(key, file)
        });
        record(cache, written, key)
    });

    Ok(mapped(engine, key, component, cached))
}

/// Maps code from its entry in the cache, so that it shares memory with the page cache. Without an
/// entry the code runs from memory.
fn mapped(engine: &Engine, key: &str, component: Component, cached: Option<File>) -> Obtained {
    let Some(file) = cached else {
        return Obtained {
            component,
            file: None,
        };
    };

    match trusted::load(engine.wasmtime(), &file) {
        Ok(component) => Obtained {
            component,
            file: Some(file),
        },
        Err(error) => {
            tracing::warn!(%key, error = short_message(&error), "failed to map cached code, running it from memory");
            Obtained {
                component,
                file: None,
            }
        }
    }
}

#[cfg(feature = "compiler")]
fn compile(engine: &Engine, key: &str, bytes: &[u8]) -> Result<Obtained, LoadError> {
    let component = crate::compiler::compile(engine.wasmtime(), bytes)?;
    if let Some(kept) = &engine.code().kept {
        kept.lock().insert(key.to_owned(), component.clone());
    }

    let file = engine.code().cache.as_ref().and_then(|cache| {
        let artefact = component
            .serialize()
            .map_err(|error| io::Error::other(format!("{error:#}")));
        let written = artefact.and_then(|artefact| {
            let mut file = cache.temporary_file()?;
            io::Write::write_all(&mut file, &artefact)?;
            cache.put(key, file)
        });
        record(cache, written, key)
    });
    Ok(mapped(engine, key, component, file))
}

#[cfg(not(feature = "compiler"))]
fn compile(_: &Engine, _: &str, _: &[u8]) -> Result<Obtained, LoadError> {
    let why = "this program has neither a compiler nor a compile worker";
    Err(LoadError::Busy(why.to_owned()))
}

/// Records whether code could be cached. The plugin runs in either case.
fn record(cache: &CodeCache, written: io::Result<File>, key: &str) -> Option<File> {
    if let Err(error) = &written {
        tracing::warn!(%key, %error, "failed to cache compiled code, running it from memory and compiling it at each start");
    }
    cache.record(written.as_ref().err());
    written.ok()
}

fn no_file(error: io::Error) -> LoadError {
    LoadError::Busy(format!(
        "failed to create a file for compiled code: {error}"
    ))
}

/// Engines with different code have different keys.
fn key(engine: &Engine, digest: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(digest);
    hash.update("\n");
    hash.update(engine.compatibility());
    hex(&hash.finalize())
}
