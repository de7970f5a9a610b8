//! The code mapped into memory: always for busy plugins and running processes, on demand for the
//! others.
//!
//! An idle plugin has no instance, but its code takes address space, mappings and wasmtime's
//! metadata. So code is unmapped after a while without calls, or sooner, least recently called
//! first, when all code together exceeds a limit. The next call maps it again from its file, in
//! about a millisecond and without compiling anything. Calls in flight, warm instances and
//! running processes keep their code mapped. Code without a file also stays mapped.
//!
//! Plugins of the same digest share their code, mapped once however many tenants run it. Each call
//! has a fresh instance, so guests share nothing they can write.

use std::{
    any::Any,
    fs::File,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use operetta_core::nondeterminism;
use parking_lot::Mutex;
use tokio::time::Instant;
use wasmtime::component::Component;

use super::{
    Code, Inspection, Obtained, Origin, Provenance,
    link::{Kind, Linked},
    trusted,
};
use crate::{Engine, LoadError, LoadLimits};

/// The code of all plugins, or all processes, of one digest.
pub(crate) struct MappedCode<K: Kind> {
    engine: Engine,
    digest: String,
    /// Maps the code again; None keeps it mapped.
    file: Option<File>,
    pub kind: K,
    /// The address space of the mapped code, in bytes.
    bytes: u64,
    /// None while unmapped.
    linked: Mutex<Option<Arc<Linked<K::Linked>>>>,
    /// Locked while the code is mapped again, so calls do it once.
    mapping: tokio::sync::Mutex<()>,
    /// The last call, in nanoseconds on the clock of [`ResidentSet`].
    used: AtomicU64,
}

/// Mapped code of any kind.
trait Resident: Send + Sync {
    fn digest(&self) -> &str;
    /// In bytes of address space.
    fn bytes(&self) -> u64;
    /// The last call, on the clock of [`ResidentSet`].
    fn used(&self) -> u64;
    fn is_mapped(&self) -> bool;
    /// Unmaps the code if nothing uses it and it has a file. Reports whether it did.
    fn unmap(&self) -> bool;
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// The code of all plugins and processes of an engine, with a limit on how much of it is mapped.
pub(crate) struct ResidentSet {
    max_bytes: u64,
    /// How long code stays mapped after its last call.
    max_idle: Duration,
    /// Codes in use have different digests.
    codes: Mutex<Vec<Weak<dyn Resident>>>,
    /// The zero of its clock.
    since: Instant,
    /// How often code was mapped again.
    again: AtomicU64,
}

/// The amount of mapped code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappedTotals {
    /// The number of loaded components. Plugins of the same digest share one.
    pub loaded: usize,
    /// The number of components with mapped code.
    pub mapped: usize,
    /// The size of mapped code in bytes.
    pub bytes: u64,
    /// How often code was mapped again.
    pub again: u64,
}

impl<K: Kind> MappedCode<K> {
    /// Returns the code of a component linked as `kind`, shared with what is loaded of the same
    /// digest.
    ///
    /// # Errors
    /// Fails as [`Code::obtain`] and [`Kind::link`] do.
    ///
    /// # Panics
    /// Panics outside a tokio runtime.
    pub(crate) async fn obtain(
        engine: &Engine,
        bytes: Arc<Vec<u8>>,
        inspection: &Inspection,
        kind: K,
        limits: &LoadLimits,
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

        let is_process = inspection.is_process;
        let (obtained, provenance) =
            Code::obtain(engine, bytes, digest, is_process, limits).await?;
        Ok((Self::link(engine, obtained, digest, kind)?, provenance))
    }

    /// Links code and adds it to the mapped code of its engine. If a plugin of the same digest was
    /// loaded meanwhile, returns its code instead.
    fn link(
        engine: &Engine,
        obtained: Obtained,
        digest: &str,
        kind: K,
    ) -> Result<Arc<Self>, LoadError> {
        let Obtained { component, file } = obtained;
        let linked = Linked::new(engine, kind.link(engine, &component)?);

        let code = Arc::new(Self {
            engine: engine.clone(),
            digest: digest.to_owned(),
            file,
            kind,
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
    pub(crate) async fn linked(&self) -> Result<Arc<Linked<K::Linked>>, LoadError> {
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
            return Err(LoadError::Busy("the code has no file".to_owned()));
        };

        let engine = self.engine.clone();
        let kind = self.kind.clone();
        let linked = nondeterminism::blocking(move || -> Result<_, LoadError> {
            let component = map_again(engine.wasmtime(), &file)?;
            Ok(Linked::new(&engine, kind.link(&engine, &component)?))
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
}

impl<K: Kind> Resident for MappedCode<K> {
    fn digest(&self) -> &str {
        &self.digest
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    fn is_mapped(&self) -> bool {
        self.linked.lock().is_some()
    }

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

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
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

    /// In nanoseconds since its creation.
    fn now(&self) -> u64 {
        self.since.elapsed().as_nanos() as u64
    }

    fn get<K: Kind>(&self, digest: &str) -> Option<Arc<MappedCode<K>>> {
        find(&self.codes.lock(), digest)
    }

    /// Adds code. If it already has code of the same digest, returns that instead.
    fn put<K: Kind>(&self, code: &Arc<MappedCode<K>>) -> Option<Arc<MappedCode<K>>> {
        let mut codes = self.codes.lock();
        codes.retain(|code| code.strong_count() > 0);
        let same = find(&codes, &code.digest);
        if same.is_some() {
            return same;
        }
        let code: Arc<dyn Resident> = code.clone();
        codes.push(Arc::downgrade(&code));
        drop(codes);
        self.make_room();
        None
    }

    /// Unmaps the least recently called code until the limit is met, but never the code called
    /// last.
    fn make_room(&self) {
        let mut codes = self.codes();
        codes.retain(|code| code.is_mapped());
        let mut bytes: u64 = codes.iter().map(|code| code.bytes()).sum();
        if bytes <= self.max_bytes {
            return;
        }

        codes.sort_by_cached_key(|code| code.used());
        codes.pop();
        for code in codes {
            if bytes <= self.max_bytes {
                break;
            }
            if code.unmap() {
                bytes -= code.bytes();
            }
        }
    }

    fn codes(&self) -> Vec<Arc<dyn Resident>> {
        self.codes.lock().iter().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn totals(&self) -> MappedTotals {
        let codes = self.codes();
        let mapped: Vec<_> = codes.iter().filter(|code| code.is_mapped()).collect();
        MappedTotals {
            loaded: codes.len(),
            mapped: mapped.len(),
            bytes: mapped.iter().map(|code| code.bytes()).sum(),
            again: self.again.load(Ordering::Relaxed),
        }
    }
}

/// The content of a component decides its kind, so all codes of a digest are of one kind.
fn find<K: Kind>(codes: &[Weak<dyn Resident>], digest: &str) -> Option<Arc<MappedCode<K>>> {
    codes
        .iter()
        .filter_map(Weak::upgrade)
        .find(|code| code.digest() == digest)
        .and_then(|code| code.into_any().downcast().ok())
}

/// Unmaps code whenever it has been idle for this time. Returns when the code is dropped.
async fn unmap_idle<K: Kind>(code: Weak<MappedCode<K>>, max_idle: Duration) {
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
            // Code in use, or called again, is checked again later.
            code.unmap();
            wait = max_idle;
        }
    }
}

fn map_again(engine: &wasmtime::Engine, file: &File) -> Result<Component, LoadError> {
    trusted::load(engine, file)
        .map_err(|error| LoadError::Busy(format!("failed to map the code: {error:#}")))
}

fn size(component: &Component) -> u64 {
    let range = component.image_range();
    (range.end as usize - range.start as usize) as u64
}
