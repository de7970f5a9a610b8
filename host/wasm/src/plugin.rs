//! A loaded plugin: one digest, compiled, linked and described.
//!
//! Loading promises to refuse what cannot run, for a reason that tells the plugin's author what to change, and the
//! cheap checks come before the expensive compilation. What loads has answered `describe()` once, within limits, with
//! no way to the API server.

use std::{sync::Arc, time::Duration};

use operetta_core::{
    controller::request::Fault,
    gate::Gate,
    manifest::{self, Manifest},
    ports::LogSink,
};
use tokio::sync::Semaphore;

use crate::{
    CONTRACT_VERSION, Code, Engine, Format, Inspection, LoadError, Provenance,
    call::{self, Budget, Ended},
    code::{compile_cost, inspect, link::Linked, resident::MappedCode},
    cut,
    imports::{self, InterfaceName},
    load_error::MAX_MESSAGE,
};

/// The limits of loading a plugin.
#[derive(Clone, Debug)]
pub struct LoadLimits {
    /// Bytes of the component: what compiles takes about twenty times as much memory for a while.
    pub max_wasm_bytes: usize,
    /// Bytes of linear memory during `describe()`.
    pub memory_bytes: usize,
    /// The timeout of `describe()`.
    pub timeout: Duration,
    /// The owner's turns to compile: a component that has to be compiled takes one, before it queues with those of other
    /// owners. So who has many to compile delays the others by one. None queues at once.
    pub turn: Option<Arc<Semaphore>>,
}

impl Default for LoadLimits {
    fn default() -> Self {
        Self { max_wasm_bytes: 64 << 20, memory_bytes: 256 << 20, timeout: Duration::from_secs(10), turn: None }
    }
}

/// Bytes that `describe()` may return.
const MAX_MANIFEST: usize = 1 << 20;

/// One loaded digest.
pub struct Plugin {
    engine: Engine,
    code: Arc<MappedCode>,
    manifest: Manifest,
    /// The inspection of the file; its `error` is None.
    inspection: Inspection,
    provenance: Provenance,
}

impl Plugin {
    /// Checks, compiles, links and describes a component. What `describe()` logs goes to `logs`.
    ///
    /// # Errors
    /// [`LoadError`], the first thing that is wrong.
    pub async fn load(
        engine: &Engine,
        bytes: Vec<u8>,
        limits: &LoadLimits,
        logs: Arc<dyn LogSink>,
    ) -> Result<Self, LoadError> {
        let bytes = Arc::new(bytes);
        let looked_at = bytes.clone();
        let max_bytes = limits.max_wasm_bytes;
        let inspection = tokio::task::spawn_blocking(move || check(&looked_at, max_bytes));
        let inspection = inspection.await.map_err(|stopped| LoadError::Busy(stopped.to_string()))??;
        let (obtained, provenance) = Code::obtain(engine, bytes, &inspection.digest, limits.turn.as_ref()).await?;
        let maps = inspection.exports.iter().any(|name| is_contract(name, Some("mapper")));
        let code = MappedCode::new(engine, obtained, maps)?;
        let linked = code.linked().await?;
        let manifest = describe(engine, &linked, limits, logs).await?;
        if let (None, Some(controller)) = (&linked.mapper, manifest.custom_mappings().next()) {
            return Err(LoadError::MissingMapper { controller: controller.name.clone() });
        }
        Ok(Self { engine: engine.clone(), code, manifest, inspection, provenance })
    }

    /// `sha256:` and the hash of the component's bytes in hex.
    pub fn digest(&self) -> &str {
        &self.inspection.digest
    }

    /// The size of the component in bytes.
    pub fn size(&self) -> usize {
        self.inspection.size
    }

    /// Returns the manifest that `describe()` returned.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The interfaces it imports.
    pub fn imports(&self) -> &[String] {
        &self.inspection.imports
    }

    /// The interfaces it exports.
    pub fn exports(&self) -> &[String] {
        &self.inspection.exports
    }

    /// Returns the provenance of its code.
    pub fn provenance(&self) -> Provenance {
        self.provenance
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Reports whether it maps events itself.
    pub(crate) fn maps(&self) -> bool {
        self.code.maps
    }

    /// Returns the linked code that its instances are created from.
    pub(crate) async fn linked(&self) -> Result<Arc<Linked>, Ended> {
        // Whatever it is, the code was fine before.
        self.code.linked().await.map_err(|error| Ended::Busy(error.to_string()))
    }
}

/// Checks a file of at most `max_bytes` from its outside: [`Plugin::load`] begins with this, before it compiles
/// anything. A file that passes exports a reconciler and imports nothing that this host does not offer; its code is not
/// examined.
///
/// # Errors
/// The first mistake, as a [`LoadError`].
pub fn check(bytes: &[u8], max_bytes: usize) -> Result<Inspection, LoadError> {
    if bytes.len() > max_bytes {
        return Err(LoadError::TooLarge { bytes: bytes.len(), limit_bytes: max_bytes });
    }
    let inspection = inspect(bytes);
    match inspection.format {
        Format::Component => {}
        Format::CoreModule => return Err(LoadError::CoreModule),
        Format::NotWasm => return Err(LoadError::NotWasm { found: first_bytes(bytes) }),
    }
    if let Some(error) = inspection.error {
        return Err(LoadError::InvalidComponent(cut(error, MAX_MESSAGE)));
    }
    let Inspection { imports, exports, .. } = &inspection;
    if !exports.iter().any(|name| is_contract(name, Some("reconciler"))) {
        let other = exports.iter().find(|name| {
            InterfaceName::parse(name).is_some_and(|name| name.package == PACKAGE && name.interface == "reconciler")
        });
        return Err(match other {
            Some(found) => LoadError::UnsupportedVersion { found: cut(found.clone(), MAX_MESSAGE) },
            None => LoadError::MissingExport { exports: exports.clone() },
        });
    }
    let missing: Vec<String> = imports.iter().filter(|name| !imports::is_offered(name)).cloned().collect();
    let other_version = |name: &&String| {
        InterfaceName::parse(name).is_some_and(|parsed| parsed.package == PACKAGE) && !is_contract(name, None)
    };
    if let Some(found) = missing.iter().find(other_version) {
        return Err(LoadError::UnsupportedVersion { found: cut(found.clone(), MAX_MESSAGE) });
    }
    if !missing.is_empty() {
        return Err(LoadError::MissingImport { missing });
    }
    compile_cost::check(bytes).map_err(|error| LoadError::CompileFailed(cut(error.to_string(), MAX_MESSAGE)))?;
    Ok(inspection)
}

const PACKAGE: &str = "operetta:controller";

/// Reports whether this names an interface of the contract in a version that the host supports.
fn is_contract(name: &str, interface: Option<&str>) -> bool {
    let major_minor = CONTRACT_VERSION.rsplit_once('.').map_or(CONTRACT_VERSION, |(major_minor, _)| major_minor);
    InterfaceName::parse(name).is_some_and(|name| {
        name.package == PACKAGE
            && interface.is_none_or(|interface| interface == name.interface)
            && name.agrees_with(major_minor)
    })
}

/// Asks a fresh instance for its manifest.
async fn describe(
    engine: &Engine,
    linked: &Linked,
    limits: &LoadLimits,
    logs: Arc<dyn LogSink>,
) -> Result<Manifest, LoadError> {
    let budget = Budget { memory_bytes: limits.memory_bytes, transfer_bytes: MAX_MANIFEST, timeout: limits.timeout };
    let text = match ask(engine, linked, &budget, logs).await {
        Ok(text) => text,
        Err(Ended::Busy(why)) => return Err(LoadError::Busy(why)),
        Err(Ended::Fault(fault)) => {
            return Err(match fault {
                Fault::Trap(what) => LoadError::DescribeTrapped(what),
                Fault::DeadlineExceeded { limit } => LoadError::DescribeTimedOut { limit },
                Fault::MemoryExceeded { limit_bytes } => LoadError::DescribeMemoryExceeded { limit_bytes },
            });
        }
    };
    Ok(manifest::parse(&text)?)
}

async fn ask(engine: &Engine, linked: &Linked, budget: &Budget, logs: Arc<dyn LogSink>) -> Result<String, Ended> {
    let _slot = call::slots(engine, linked.slots).await?;
    let mut store = call::store(engine, Gate::describing(logs).session(None), budget);
    let answer = tokio::time::timeout(budget.timeout, async {
        let guest = linked.pre.instantiate_async(&mut store).await?;
        guest.operetta_controller_reconciler().call_describe(&mut store).await
    });
    let answer = answer.await;
    call::finish(&mut store, answer, budget)
}

/// Describes the first bytes of a file that is not WebAssembly.
fn first_bytes(bytes: &[u8]) -> String {
    let known: &[(&[u8], &str)] = &[
        (b"\x28\xb5\x2f\xfd", "is compressed with zstd"),
        (b"\x1f\x8b", "is compressed with gzip"),
        (b"\x7fELF", "is a native program or a precompiled module"),
        (b"(", "is WebAssembly text; convert it with `wasm-tools parse`"),
        (b"\0asm", "has an unknown WebAssembly version"),
    ];
    if bytes.is_empty() {
        return "is empty".to_owned();
    }
    match known.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        Some((_, what)) => (*what).to_owned(),
        None => {
            let first: Vec<String> = bytes.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
            format!("begins with {}", first.join(" "))
        }
    }
}
