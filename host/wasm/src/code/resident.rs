//! Code that is mapped: of plugins that run often all the time, of others when they are called.
//!
//! An idle plugin has no instance, but its code takes address space, mappings and what wasmtime knows of it. What was not
//! called for a while is unmapped, and sooner, those not called for longest first, when all code together is larger than a
//! bound; the next call maps it again from the file it was compiled to, which takes a millisecond or so and compiles
//! nothing. A call in flight, and an instance that is kept, hold on to their code; so does a plugin whose code is kept in
//! no file.

use std::{
    fs::File,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;
use wasmtime::component::Component;

use crate::{
    Engine, LoadError,
    bindings::PluginPre,
    call::Call,
    code::{self, Obtained},
    mapper_bindings::MappingPre,
    plugin::link,
};

/// The linked code that instances are created from.
pub(crate) struct Linked {
    pub pre: PluginPre<Call>,
    /// None when it exports none.
    pub mapper: Option<MappingPre<Call>>,
    /// Places of the pool that an instance takes.
    pub slots: u32,
}

/// The code of one plugin.
pub(crate) struct MappedCode {
    engine: Engine,
    /// To map it from again.
    file: Option<File>,
    /// True if it exports a mapper.
    pub maps: bool,
    /// Bytes of address space, when it is mapped.
    bytes: u64,
    linked: Mutex<Option<Arc<Linked>>>,
    /// Held while it is mapped again.
    mapping: tokio::sync::Mutex<()>,
    /// The time of its last call, in nanoseconds of the shelf's clock.
    used: AtomicU64,
}

/// The code of all plugins of an engine.
pub(crate) struct Shelf {
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
    pub(crate) fn new(engine: &Engine, obtained: Obtained, maps: bool) -> Result<Arc<Self>, LoadError> {
        let Obtained { component, file } = obtained;
        let linked = link(engine, &component, maps)?;
        let code = Arc::new(Self {
            engine: engine.clone(),
            file,
            maps,
            bytes: size(&component),
            linked: Mutex::new(Some(Arc::new(linked))),
            mapping: tokio::sync::Mutex::default(),
            used: AtomicU64::new(engine.shelf().now()),
        });
        engine.shelf().put(&code);
        if code.file.is_some() {
            tokio::spawn(unmap_idle(Arc::downgrade(&code), engine.shelf().max_idle));
        }
        Ok(code)
    }

    /// Returns the linked code; maps it again if necessary.
    ///
    /// # Errors
    /// [`LoadError::Busy`] when memory or mappings are used up.
    pub(crate) async fn linked(&self) -> Result<Arc<Linked>, LoadError> {
        self.used.store(self.engine.shelf().now(), Ordering::Relaxed);
        if let Some(linked) = lock(&self.linked).clone() {
            return Ok(linked);
        }
        let _one_at_a_time = self.mapping.lock().await;
        if let Some(linked) = lock(&self.linked).clone() {
            return Ok(linked);
        }
        let again = |error: std::io::Error| LoadError::Busy(format!("the code cannot be mapped: {error}"));
        let file = self.file.as_ref().map(File::try_clone).transpose().map_err(again)?;
        let Some(file) = file else { return Err(LoadError::Busy("the code is kept nowhere".to_owned())) };
        let (engine, maps) = (self.engine.clone(), self.maps);
        let linked = tokio::task::spawn_blocking(move || {
            let component = code::map_again(engine.wasmtime(), &file)?;
            link(&engine, &component, maps)
        });
        let linked = Arc::new(linked.await.map_err(|stopped| LoadError::Busy(stopped.to_string()))??);
        *lock(&self.linked) = Some(linked.clone());
        self.engine.shelf().again.fetch_add(1, Ordering::Relaxed);
        self.engine.shelf().make_room();
        Ok(linked)
    }

    /// The code as it is: mapped, or not.
    fn is_mapped(&self) -> bool {
        lock(&self.linked).is_some()
    }

    /// Unmaps it if nothing uses it and it can be mapped again. Returns whether it did.
    fn unmap(&self) -> bool {
        let mut linked = lock(&self.linked);
        let idle = self.file.is_some() && linked.as_ref().is_some_and(|linked| Arc::strong_count(linked) == 1);
        let taken = if idle { linked.take() } else { None };
        drop(linked);
        taken.is_some()
    }
}

impl Shelf {
    pub(crate) fn new(max_bytes: u64, max_idle: Duration) -> Self {
        Self { max_bytes, max_idle, codes: Mutex::default(), since: Instant::now(), again: AtomicU64::new(0) }
    }

    /// Nanoseconds since it is there.
    fn now(&self) -> u64 {
        self.since.elapsed().as_nanos() as u64
    }

    fn put(&self, code: &Arc<MappedCode>) {
        let mut codes = lock(&self.codes);
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
        lock(&self.codes).iter().filter_map(Weak::upgrade).collect()
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
        let idle = code.engine.shelf().now().saturating_sub(code.used.load(Ordering::Relaxed));
        wait = max_idle.saturating_sub(Duration::from_nanos(idle));
        if wait.is_zero() {
            // What is in use is looked at again later, and so is what is called again.
            code.unmap();
            wait = max_idle;
        }
    }
}

/// Bytes of address space that code takes.
fn size(component: &Component) -> u64 {
    let range = component.image_range();
    (range.end as usize - range.start as usize) as u64
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
