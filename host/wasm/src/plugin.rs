//! A loaded plugin: one digest, compiled, linked and described.
//!
//! Loading refuses a component that cannot run, for a reason that tells the plugin's author what to change. The cheap
//! checks come before the expensive compilation. A loaded plugin has answered `describe()` once, within limits and without
//! access to the API server.

use std::{sync::Arc, time::Duration};

use operetta_core::{
    controller::request::Fault,
    gate::Gate,
    manifest::{self, Manifest},
    nondeterminism,
    ports::LogSink,
};
use tokio::sync::Semaphore;

use crate::{
    CONTRACT_VERSION, Code, Engine, Format, Inspection, LoadError, Provenance,
    call::{self, Budget, CallError},
    code::{compile_cost, inspect, link::Linked, resident::MappedCode},
    cut,
    imports::{self, InterfaceName},
    load_error::MAX_MESSAGE,
};

/// The limits of loading a plugin.
#[derive(Clone, Debug)]
pub struct LoadLimits {
    /// The maximum size of the component in bytes. Compiling it takes about twenty times as much memory for a while.
    pub max_wasm_bytes: usize,
    /// The maximum linear memory during `describe()`, in bytes.
    pub memory_bytes: usize,
    /// The timeout of `describe()`.
    pub timeout: Duration,
    /// The owner's permits to compile. A component that has to be compiled takes one before it queues with those of other
    /// owners, so an owner with many components delays the others by one. None queues at once.
    pub compilations: Option<Arc<Semaphore>>,
}

impl Default for LoadLimits {
    fn default() -> Self {
        Self { max_wasm_bytes: 64 << 20, memory_bytes: 256 << 20, timeout: Duration::from_secs(10), compilations: None }
    }
}

/// The maximum size of what `describe()` returns, in bytes.
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
    /// Checks, compiles, links and describes a component. The log of `describe()` goes to `logs`.
    ///
    /// # Errors
    /// Returns a [`LoadError`] for the first mistake.
    pub async fn load(
        engine: &Engine,
        bytes: Vec<u8>,
        limits: &LoadLimits,
        logs: Arc<dyn LogSink>,
    ) -> Result<Self, LoadError> {
        let bytes = Arc::new(bytes);
        let to_check = bytes.clone();
        let max_bytes = limits.max_wasm_bytes;
        let inspection = nondeterminism::blocking(move || check(&to_check, max_bytes));
        let inspection = inspection.await.map_err(|stopped| LoadError::Busy(stopped.to_string()))??;
        let (obtained, provenance) =
            Code::obtain(engine, bytes, &inspection.digest, limits.compilations.as_ref()).await?;
        let has_mapper = inspection.exports.iter().any(|name| is_contract(name, Some("mapper")));
        let code = MappedCode::new(engine, obtained, has_mapper)?;
        let linked = code.linked().await?;
        let manifest = describe(engine, &linked, limits, logs).await?;
        if let (None, Some(controller)) = (&linked.mapper, manifest.custom_mappings().next()) {
            return Err(LoadError::MissingMapper { controller: controller.name.clone() });
        }
        Ok(Self { engine: engine.clone(), code, manifest, inspection, provenance })
    }

    /// Returns `sha256:` and the hash of the component's bytes in hex.
    pub fn digest(&self) -> &str {
        &self.inspection.digest
    }

    /// Returns the size of the component in bytes.
    pub fn size(&self) -> usize {
        self.inspection.size
    }

    /// Returns the manifest that `describe()` returned.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the interfaces that the component imports.
    pub fn imports(&self) -> &[String] {
        &self.inspection.imports
    }

    /// Returns the interfaces that the component exports.
    pub fn exports(&self) -> &[String] {
        &self.inspection.exports
    }

    /// Returns the provenance of the compiled code.
    pub fn provenance(&self) -> Provenance {
        self.provenance
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Reports whether the plugin maps events itself.
    pub(crate) fn has_mapper(&self) -> bool {
        self.code.has_mapper
    }

    /// Returns the linked code that instances are created from.
    ///
    /// # Errors
    /// Returns [`CallError::Busy`] if the code cannot be mapped.
    pub(crate) async fn linked(&self) -> Result<Arc<Linked>, CallError> {
        // The same code was mapped before, so any error is temporary.
        self.code.linked().await.map_err(|error| CallError::Busy(error.to_string()))
    }
}

/// Checks the structure of a file of at most `max_bytes`, as [`Plugin::load`] does before it compiles anything. A file
/// that passes exports a reconciler and imports only interfaces that this host offers. Its code is not validated.
///
/// # Errors
/// Returns a [`LoadError`] for the first mistake.
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
        let other_version = exports.iter().find(|name| {
            InterfaceName::parse(name).is_some_and(|name| name.package == PACKAGE && name.interface == "reconciler")
        });
        return Err(match other_version {
            Some(found) => LoadError::UnsupportedVersion { found: cut(found.clone(), MAX_MESSAGE) },
            None => LoadError::MissingExport { exports: exports.clone() },
        });
    }
    let missing: Vec<String> = imports.iter().filter(|name| !imports::is_offered(name)).cloned().collect();
    let is_other_version = |name: &&String| {
        InterfaceName::parse(name).is_some_and(|parsed| parsed.package == PACKAGE) && !is_contract(name, None)
    };
    if let Some(found) = missing.iter().find(is_other_version) {
        return Err(LoadError::UnsupportedVersion { found: cut(found.clone(), MAX_MESSAGE) });
    }
    if !missing.is_empty() {
        return Err(LoadError::MissingImport { missing });
    }
    compile_cost::check(bytes).map_err(|error| LoadError::CompileFailed(cut(error.to_string(), MAX_MESSAGE)))?;
    Ok(inspection)
}

const PACKAGE: &str = "operetta:controller";

/// Reports whether a name stands for an interface of the contract, or for this one, in a version that the host supports.
fn is_contract(name: &str, interface: Option<&str>) -> bool {
    let major_minor = CONTRACT_VERSION.rsplit_once('.').map_or(CONTRACT_VERSION, |(major_minor, _)| major_minor);
    InterfaceName::parse(name).is_some_and(|name| {
        name.package == PACKAGE
            && interface.is_none_or(|interface| interface == name.interface)
            && name.agrees_with(major_minor)
    })
}

/// Returns the manifest that a fresh instance describes.
async fn describe(
    engine: &Engine,
    linked: &Linked,
    limits: &LoadLimits,
    logs: Arc<dyn LogSink>,
) -> Result<Manifest, LoadError> {
    let budget = Budget { memory_bytes: limits.memory_bytes, transfer_bytes: MAX_MANIFEST, timeout: limits.timeout };
    let text = match call_describe(engine, linked, &budget, logs).await {
        Ok(text) => text,
        Err(CallError::Busy(why)) => return Err(LoadError::Busy(why)),
        Err(CallError::Fault(fault)) => {
            return Err(match fault {
                Fault::Trap(what) => LoadError::DescribeTrapped(what),
                Fault::DeadlineExceeded { limit } => LoadError::DescribeTimedOut { limit },
                Fault::MemoryExceeded { limit_bytes } => LoadError::DescribeMemoryExceeded { limit_bytes },
            });
        }
    };
    Ok(manifest::parse(&text)?)
}

async fn call_describe(
    engine: &Engine,
    linked: &Linked,
    budget: &Budget,
    logs: Arc<dyn LogSink>,
) -> Result<String, CallError> {
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
