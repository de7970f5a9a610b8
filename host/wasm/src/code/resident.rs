//! Code that is mapped into memory: all the time for busy plugins, while they are called for
//! others.
//!
//! An idle plugin has no instance, but its code takes address space, mappings and wasmtime's
//! metadata. Code that was not called for a while is unmapped. When all code together exceeds a
//! limit, the least recently called is unmapped sooner. The next call maps it again from its file,
//! which takes about a millisecond and compiles nothing. Calls in flight and warm instances keep
//! their code mapped. Code without a file also stays mapped.
//!
//! Plugins of the same digest share their code: it is mapped once, however many tenants run it.
//! Each call has a fresh instance, so they share nothing that a guest can write.

use std::{
    fs::File,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use operetta_core::nondeterminism;
use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::Instant};
use wasmtime::component::Component;

use super::{
    Code, Inspection, Obtained, Origin, Provenance,
    link::{Linked, link},
    trusted,
};
use crate::{Engine, LoadError, check::exports_mapper};

/// The code of all plugins of one digest.
pub(crate) struct MappedCode {
    engine: Engine,
    /// The digest of the component.
    digest: String,
    /// The file from which it can be mapped again; None if it is in no file.
    file: Option<File>,
    /// True if it exports a mapper.
    pub has_mapper: bool,
    /// The address space that it takes while it is mapped, in bytes.
    bytes: u64,
    /// None while it is not mapped.
    linked: Mutex<Option<Arc<Linked>>>,
    /// Held while it is mapped again.
    mapping: tokio::sync::Mutex<()>,
    /// The time of its last call, in nanoseconds of the clock of [`ResidentSet`].
    used: AtomicU64,
}

/// The code of all plugins of an engine, within a limit on what is mapped.
pub(crate) struct ResidentSet {
    /// The maximum size of mapped code, in bytes.
    max_bytes: u64,
    /// The time for which code stays mapped after its last call.
    max_idle: Duration,
    /// Each digest occurs once among those that are in use.
    codes: Mutex<Vec<Weak<MappedCode>>>,
    /// The start of its clock.
    since: Instant,
    /// The number of times that code was mapped again.
    again: AtomicU64,
}

/// The amount of mapped code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappedTotals {
    /// The number of loaded components. Plugins of the same digest share one.
    pub loaded: usize,
    /// The number of loaded components whose code is mapped.
    pub mapped: usize,
    /// The size of mapped code in bytes.
    pub bytes: u64,
    /// The number of times that code was mapped again.
    pub again: u64,
}

impl MappedCode {
    /// Returns the code of a component: that of a loaded plugin of the same digest, or else
    /// [`Code::obtain`] has it.
    ///
    /// # Errors
    /// Returns the errors of [`Code::obtain`], and [`LoadError::IncompatibleImport`] or
    /// [`LoadError::IncompatibleExport`] if an interface differs from the contract.
    ///
    /// # Panics
    /// Panics outside a tokio runtime.
    pub(crate) async fn obtain(
        engine: &Engine,
        bytes: Arc<Vec<u8>>,
        inspection: &Inspection,
        compilations: Option<&Arc<Semaphore>>,
    ) -> Result<(Arc<Self>, Provenance), LoadError> {
        let digest = &inspection.digest;
        if let Some(shared) = engine.resident_set().get(digest) {
            return Ok((
                shared,
                Provenance {
                    origin: Origin::Cache,
                    took: Duration::ZERO,
                },
            ));
        }
        let (obtained, provenance) = Code::obtain(engine, bytes, digest, compilations).await?;
        Ok((
            Self::link(engine, obtained, digest, exports_mapper(inspection))?,
            provenance,
        ))
    }

    /// Links code, and adds it to the mapped code of its engine. Returns the code of the same
    /// digest instead if another plugin was loaded meanwhile.
    fn link(
        engine: &Engine,
        obtained: Obtained,
        digest: &str,
        has_mapper: bool,
    ) -> Result<Arc<Self>, LoadError> {
        let Obtained { component, file } = obtained;
        let linked = link(engine, &component, has_mapper)?;
        let code = Arc::new(Self {
            engine: engine.clone(),
            digest: digest.to_owned(),
            file,
            has_mapper,
            bytes: size(&component),
            linked: Mutex::new(Some(Arc::new(linked))),
            mapping: tokio::sync::Mutex::default(),
            used: AtomicU64::new(engine.resident_set().now()),
        });
        if let Some(shared) = engine.resident_set().put(&code) {
            return Ok(shared);
        }
        if code.file.is_some() {
            tokio::spawn(unmap_idle(
                Arc::downgrade(&code),
                engine.resident_set().max_idle,
            ));
        }
        Ok(code)
    }

    /// Returns the linked code, mapped again if necessary.
    ///
    /// # Errors
    /// Returns [`LoadError::Busy`] if memory or mappings are used up.
    pub(crate) async fn linked(&self) -> Result<Arc<Linked>, LoadError> {
        self.used
            .store(self.engine.resident_set().now(), Ordering::Relaxed);
        if let Some(linked) = self.linked.lock().clone() {
            return Ok(linked);
        }
        let _one_at_a_time = self.mapping.lock().await;
        if let Some(linked) = self.linked.lock().clone() {
            return Ok(linked);
        }
        let busy =
            |error: std::io::Error| LoadError::Busy(format!("failed to map the code: {error}"));
        let file = self
            .file
            .as_ref()
            .map(File::try_clone)
            .transpose()
            .map_err(busy)?;
        let Some(file) = file else {
            return Err(LoadError::Busy("the code is in no file".to_owned()));
        };
        let engine = self.engine.clone();
        let has_mapper = self.has_mapper;
        let linked = nondeterminism::blocking(move || {
            let component = map_again(engine.wasmtime(), &file)?;
            link(&engine, &component, has_mapper)
        });
        let linked = Arc::new(
            linked
                .await
                .map_err(|stopped| LoadError::Busy(stopped.to_string()))??,
        );
        *self.linked.lock() = Some(linked.clone());
        self.engine
            .resident_set()
            .again
            .fetch_add(1, Ordering::Relaxed);
        self.engine.resident_set().make_room();
        Ok(linked)
    }

    /// Reports whether the code is mapped.
    fn is_mapped(&self) -> bool {
        self.linked.lock().is_some()
    }

    /// Unmaps the code if nothing uses it and it can be mapped again. Reports whether it was
    /// unmapped.
    fn unmap(&self) -> bool {
        let mut linked = self.linked.lock();
        let idle = self.file.is_some()
            && linked
                .as_ref()
                .is_some_and(|linked| Arc::strong_count(linked) == 1);
        let taken = if idle { linked.take() } else { None };
        drop(linked);
        taken.is_some()
    }
}

impl ResidentSet {
    pub(crate) fn new(max_bytes: u64, max_idle: Duration) -> Self {
        Self {
            max_bytes,
            max_idle,
            codes: Mutex::default(),
            since: Instant::now(),
            again: AtomicU64::new(0),
        }
    }

    /// Returns the time since its creation in nanoseconds.
    fn now(&self) -> u64 {
        self.since.elapsed().as_nanos() as u64
    }

    /// Returns the code of a digest that is in use.
    fn get(&self, digest: &str) -> Option<Arc<MappedCode>> {
        find(&self.codes.lock(), digest)
    }

    /// Adds code, or returns the code of the same digest that it has.
    fn put(&self, code: &Arc<MappedCode>) -> Option<Arc<MappedCode>> {
        let mut codes = self.codes.lock();
        codes.retain(|code| code.strong_count() > 0);
        let same = find(&codes, &code.digest);
        if same.is_some() {
            return same;
        }
        codes.push(Arc::downgrade(code));
        drop(codes);
        self.make_room();
        None
    }

    /// Unmaps the least recently called code until the limit is met. The code that was called last
    /// stays mapped.
    fn make_room(&self) {
        let mut codes = self.codes();
        codes.retain(|code| code.is_mapped());
        let mut bytes: u64 = codes.iter().map(|code| code.bytes).sum();
        if bytes <= self.max_bytes {
            return;
        }
        codes.sort_by_cached_key(|code| code.used.load(Ordering::Relaxed));
        codes.pop();
        for code in codes {
            if bytes <= self.max_bytes {
                break;
            }
            if code.unmap() {
                bytes -= code.bytes;
            }
        }
    }

    fn codes(&self) -> Vec<Arc<MappedCode>> {
        self.codes.lock().iter().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn totals(&self) -> MappedTotals {
        let codes = self.codes();
        let mapped: Vec<_> = codes.iter().filter(|code| code.is_mapped()).collect();
        MappedTotals {
            loaded: codes.len(),
            mapped: mapped.len(),
            bytes: mapped.iter().map(|code| code.bytes).sum(),
            again: self.again.load(Ordering::Relaxed),
        }
    }
}

fn find(codes: &[Weak<MappedCode>], digest: &str) -> Option<Arc<MappedCode>> {
    codes
        .iter()
        .filter_map(Weak::upgrade)
        .find(|code| code.digest == digest)
}

/// Unmaps code whenever it has been idle for this time. Returns when the code is dropped.
async fn unmap_idle(code: Weak<MappedCode>, max_idle: Duration) {
    let mut wait = max_idle;
    loop {
        tokio::time::sleep(wait).await;
        let Some(code) = code.upgrade() else { return };
        let idle = code
            .engine
            .resident_set()
            .now()
            .saturating_sub(code.used.load(Ordering::Relaxed));
        wait = max_idle.saturating_sub(Duration::from_nanos(idle));
        if wait.is_zero() {
            // Code that is in use, or is called again, is checked again later.
            code.unmap();
            wait = max_idle;
        }
    }
}

/// Maps code again that was [`Obtained`] before.
///
/// # Errors
/// Returns [`LoadError::Busy`] if memory or mappings are used up.
fn map_again(engine: &wasmtime::Engine, file: &File) -> Result<Component, LoadError> {
    trusted::load(engine, file)
        .map_err(|error| LoadError::Busy(format!("failed to map the code: {error:#}")))
}

/// Returns the address space that code takes, in bytes.
fn size(component: &Component) -> u64 {
    let range = component.image_range();
    (range.end as usize - range.start as usize) as u64
}
