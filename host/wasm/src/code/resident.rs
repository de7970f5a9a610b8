//! Code that is mapped into memory: for busy plugins all the time, for others while they are called.
//!
//! An idle plugin has no instance, but its code takes address space, mappings and wasmtime's metadata. Code that was not
//! called for a while is unmapped. When all code together exceeds a bound, the least recently called is unmapped sooner. The
//! next call maps it again from the file it was compiled to, which takes about a millisecond and compiles nothing. Calls in
//! flight and warm instances keep their code mapped, and so does a plugin whose code is in no file.

use std::{
    fs::File,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;
use wasmtime::component::Component;

use super::{
    Obtained,
    link::{Linked, link},
    trusted,
};
use crate::{Engine, LoadError};

/// The code of one plugin.
pub(crate) struct MappedCode {
    engine: Engine,
    /// To map it from again.
    file: Option<File>,
    /// True if it exports a mapper.
    pub has_mapper: bool,
    /// Bytes of address space, when it is mapped.
    bytes: u64,
    linked: Mutex<Option<Arc<Linked>>>,
    /// Held while it is mapped again.
    mapping: tokio::sync::Mutex<()>,
    /// The time of its last call, in nanoseconds of the resident_set's clock.
    used: AtomicU64,
}

/// The code of all plugins of an engine.
pub(crate) struct ResidentSet {
    /// Bytes of code that may be mapped.
    max_bytes: u64,
    /// The time for which code stays mapped after its last call.
    max_idle: Duration,
    codes: Mutex<Vec<Weak<MappedCode>>>,
    since: Instant,
    again: AtomicU64,
}

/// The amount of mapped code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappedTotals {
    /// Plugins that are loaded.
    pub loaded: usize,
    /// Those of them whose code is mapped.
    pub mapped: usize,
    /// Bytes of mapped code.
    pub bytes: u64,
    /// The number of times that code was mapped again.
    pub again: u64,
}

impl MappedCode {
    /// Links code, and puts it among the mapped code of its engine. To be called in a runtime.
    ///
    /// # Errors
    /// [`LoadError::IncompatibleImport`], [`LoadError::IncompatibleExport`].
    pub(crate) fn new(engine: &Engine, obtained: Obtained, has_mapper: bool) -> Result<Arc<Self>, LoadError> {
        let Obtained { component, file } = obtained;
        let linked = link(engine, &component, has_mapper)?;
        let code = Arc::new(Self {
            engine: engine.clone(),
            file,
            has_mapper,
            bytes: size(&component),
            linked: Mutex::new(Some(Arc::new(linked))),
            mapping: tokio::sync::Mutex::default(),
            used: AtomicU64::new(engine.resident_set().now()),
        });
        engine.resident_set().put(&code);
        if code.file.is_some() {
            tokio::spawn(unmap_idle(Arc::downgrade(&code), engine.resident_set().max_idle));
        }
        Ok(code)
    }

    /// Returns the linked code; maps it again if necessary.
    ///
    /// # Errors
    /// [`LoadError::Busy`] when memory or mappings are used up.
    pub(crate) async fn linked(&self) -> Result<Arc<Linked>, LoadError> {
        self.used.store(self.engine.resident_set().now(), Ordering::Relaxed);
        if let Some(linked) = self.linked.lock().clone() {
            return Ok(linked);
        }
        let _one_at_a_time = self.mapping.lock().await;
        if let Some(linked) = self.linked.lock().clone() {
            return Ok(linked);
        }
        let again = |error: std::io::Error| LoadError::Busy(format!("failed to map the code: {error}"));
        let file = self.file.as_ref().map(File::try_clone).transpose().map_err(again)?;
        let Some(file) = file else { return Err(LoadError::Busy("the code is kept nowhere".to_owned())) };
        let engine = self.engine.clone();
        let has_mapper = self.has_mapper;
        let linked = tokio::task::spawn_blocking(move || {
            let component = map_again(engine.wasmtime(), &file)?;
            link(&engine, &component, has_mapper)
        });
        let linked = Arc::new(linked.await.map_err(|stopped| LoadError::Busy(stopped.to_string()))??);
        *self.linked.lock() = Some(linked.clone());
        self.engine.resident_set().again.fetch_add(1, Ordering::Relaxed);
        self.engine.resident_set().make_room();
        Ok(linked)
    }

    /// The code as it is: mapped, or not.
    fn is_mapped(&self) -> bool {
        self.linked.lock().is_some()
    }

    /// Unmaps it if nothing uses it and it can be mapped again. Returns whether it did.
    fn unmap(&self) -> bool {
        let mut linked = self.linked.lock();
        let idle = self.file.is_some() && linked.as_ref().is_some_and(|linked| Arc::strong_count(linked) == 1);
        let taken = if idle { linked.take() } else { None };
        drop(linked);
        taken.is_some()
    }
}

impl ResidentSet {
    pub(crate) fn new(max_bytes: u64, max_idle: Duration) -> Self {
        Self { max_bytes, max_idle, codes: Mutex::default(), since: Instant::now(), again: AtomicU64::new(0) }
    }

    /// Nanoseconds since it is there.
    fn now(&self) -> u64 {
        self.since.elapsed().as_nanos() as u64
    }

    fn put(&self, code: &Arc<MappedCode>) {
        let mut codes = self.codes.lock();
        codes.retain(|one| one.strong_count() > 0);
        codes.push(Arc::downgrade(code));
        drop(codes);
        self.make_room();
    }

    /// Unmaps what was not called for longest, down to the bound. What was called last stays.
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

/// Unmaps code whenever it was not called for so long, until it has gone.
async fn unmap_idle(code: Weak<MappedCode>, max_idle: Duration) {
    let mut wait = max_idle;
    loop {
        tokio::time::sleep(wait).await;
        let Some(code) = code.upgrade() else { return };
        let idle = code.engine.resident_set().now().saturating_sub(code.used.load(Ordering::Relaxed));
        wait = max_idle.saturating_sub(Duration::from_nanos(idle));
        if wait.is_zero() {
            // What is in use is looked at again later, and so is what is called again.
            code.unmap();
            wait = max_idle;
        }
    }
}

/// Maps code again that was [`Obtained`] before.
///
/// # Errors
/// [`LoadError::Busy`] when memory or mappings are used up.
fn map_again(engine: &wasmtime::Engine, file: &File) -> Result<Component, LoadError> {
    trusted::load(engine, file).map_err(|error| LoadError::Busy(format!("failed to map the code: {error:#}")))
}

/// Returns the address space that code takes, in bytes.
fn size(component: &Component) -> u64 {
    let range = component.image_range();
    (range.end as usize - range.start as usize) as u64
}
