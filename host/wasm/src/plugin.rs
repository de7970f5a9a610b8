//! A loaded plugin: one digest, compiled, linked and described.
//!
//! Loading promises to refuse what cannot run, for a reason that tells the plugin's author what to change, and the
//! cheap checks come before the expensive compilation. What loads has answered `describe()` once, within limits, with
//! no way to the API server.

use std::{sync::Arc, time::Duration};

use operetta_core::{
    controller::request::Fault,
    gate::Gate,
    manifest::{self, Manifest, ManifestError},
    ports::LogSink,
};
use wasmtime::component::Component;

use crate::{
    CONTRACT_VERSION, Code, Engine, Format, Inspection, MAPPER, Provenance, RECONCILER,
    bindings::PluginPre,
    call::{self, Budget, Ended},
    code::{
        compile_cost, inspect,
        resident::{Linked, MappedCode},
    },
    cut,
    imports::{self, InterfaceName},
    mapper_bindings::MappingPre,
};

/// The limits of loading a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadLimits {
    /// Bytes of the component: what compiles takes about twenty times as much memory for a while.
    pub max_wasm_bytes: usize,
    /// Bytes of linear memory during `describe()`.
    pub memory_bytes: usize,
    /// The timeout of `describe()`.
    pub timeout: Duration,
}

impl Default for LoadLimits {
    fn default() -> Self {
        Self { max_wasm_bytes: 64 << 20, memory_bytes: 256 << 20, timeout: Duration::from_secs(10) }
    }
}

/// Bytes that `describe()` may return.
const MAX_MANIFEST: usize = 1 << 20;

/// Bytes that a message has of what stands in the component.
const MAX_MESSAGE: usize = 2048;

/// The reason why a plugin was refused. Its author must change it; only [`LoadError::Busy`] is worth another try.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The bytes are no WebAssembly binary.
    #[error("this is not a WebAssembly binary: it {found}")]
    NotWasm {
        /// The format, as far as the first bytes tell.
        found: String,
    },
    /// The file is larger than [`LoadLimits::max_wasm_bytes`].
    #[error("the component has {bytes} bytes, over the limit of {limit_bytes} bytes")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit_bytes: usize,
    },
    /// A core module instead of a component.
    #[error("this is a core module, not a component; build with wasm32-wasip2 or `wasm-tools component new`")]
    CoreModule,
    /// A component that breaks off or contradicts itself.
    #[error("the component is malformed: {0}")]
    InvalidComponent(String),
    /// The contract, of a version that this host does not speak.
    #[error("the component is built for {found}, but this host speaks operetta:controller@{CONTRACT_VERSION}")]
    UnsupportedVersion {
        /// The interface it exports or imports.
        found: String,
    },
    /// No reconciler: the component is no plugin.
    #[error("the component does not export {RECONCILER}; it exports {}", list(exports))]
    MissingExport {
        /// The component's exports.
        exports: Vec<String>,
    },
    /// A reconciler or a mapper whose functions are not those of the contract.
    #[error("the component exports {interface}, but not as this host knows it: {message}")]
    IncompatibleExport {
        /// Which.
        interface: &'static str,
        /// The difference.
        message: String,
    },
    /// The manifest asks for a mapper, and there is none.
    #[error(
        "controller {controller:?} has a watch whose map is of type \"Custom\", but the component does not export {MAPPER}"
    )]
    MissingMapper {
        /// The first controller that has such a watch.
        controller: String,
    },
    /// Imports that the host lacks.
    #[error(
        "the component imports what this host does not offer: {}; offered: {}",
        list(missing),
        imports::offered_in_short()
    )]
    MissingImport {
        /// Those the host lacks.
        missing: Vec<String>,
    },
    /// An import that the host has, but with other functions or types.
    #[error("the component imports an interface not as this host offers it: {0}")]
    IncompatibleImport(String),
    /// The code does not validate, repeats itself without measure, or needs a feature or more of something than the host has.
    #[error("the component does not compile: {0}")]
    CompileFailed(String),
    /// Compiling takes more memory than the host allows.
    #[error(
        "compiling the component of {} MB takes more than {} MiB of memory (compileMemoryMiB of the host): make it smaller",
        megabytes(*bytes), .limit_bytes / (1024 * 1024)
    )]
    CompileMemoryExceeded {
        /// The component's size.
        bytes: usize,
        /// The limit.
        limit_bytes: u64,
    },
    /// Compiling takes longer than the host allows.
    #[error(
        "compiling the component of {} MB takes more than {limit_seconds} s of processor time (compileSeconds of the \
         host): make it smaller",
        megabytes(*bytes)
    )]
    CompileTimedOut {
        /// The component's size.
        bytes: usize,
        /// The limit.
        limit_seconds: u64,
    },
    /// `describe()` trapped.
    #[error("describe() trapped: {0}")]
    DescribeTrapped(String),
    /// `describe()` did not end.
    #[error("describe() did not end within {} s", .limit.as_secs_f32())]
    DescribeTimedOut {
        /// The limit.
        limit: Duration,
    },
    /// `describe()` took too much memory.
    #[error("describe() asked for more memory than its limit of {} MiB", .limit_bytes / (1024 * 1024))]
    DescribeMemoryExceeded {
        /// The limit.
        limit_bytes: usize,
    },
    /// `describe()` returned no manifest.
    #[error(transparent)]
    InvalidManifest(#[from] ManifestError),
    /// The host cannot load it now; the caller retries with backoff.
    #[error("the host cannot load the plugin now: {0}")]
    Busy(String),
}

impl LoadError {
    /// A CamelCase word for conditions, Events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotWasm { .. } => "NotWasm",
            Self::TooLarge { .. } => "TooLarge",
            Self::CoreModule => "CoreModule",
            Self::InvalidComponent(_) => "InvalidComponent",
            Self::UnsupportedVersion { .. } => "UnsupportedVersion",
            Self::MissingExport { .. } => "MissingExport",
            Self::IncompatibleExport { .. } => "IncompatibleExport",
            Self::MissingMapper { .. } => "MissingMapper",
            Self::MissingImport { .. } => "MissingImport",
            Self::IncompatibleImport(_) => "IncompatibleImport",
            Self::CompileFailed(_) => "CompileFailed",
            Self::CompileMemoryExceeded { .. } => "CompileMemoryExceeded",
            Self::CompileTimedOut { .. } => "CompileTimedOut",
            Self::DescribeTrapped(_) => "DescribeTrapped",
            Self::DescribeTimedOut { .. } => "DescribeTimedOut",
            Self::DescribeMemoryExceeded { .. } => "DescribeMemoryExceeded",
            Self::InvalidManifest(_) => "InvalidManifest",
            Self::Busy(_) => "Busy",
        }
    }
}

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
        let (looked_at, max_bytes) = (bytes.clone(), limits.max_wasm_bytes);
        let inspection = tokio::task::spawn_blocking(move || check(&looked_at, max_bytes));
        let inspection = inspection.await.map_err(|stopped| LoadError::Busy(stopped.to_string()))??;
        let (obtained, provenance) = Code::obtain(engine, bytes, &inspection.digest).await?;
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

/// Resolves the imports, so that an instance is a matter of microseconds.
pub(crate) fn link(engine: &Engine, component: &Component, maps: bool) -> Result<Linked, LoadError> {
    let pre =
        engine.linker().instantiate_pre(component).map_err(|error| LoadError::IncompatibleImport(in_short(&error)))?;
    let incompatible = |interface: &'static str| {
        move |error: wasmtime::Error| LoadError::IncompatibleExport { interface, message: in_short(&error) }
    };
    let mapper = maps.then(|| MappingPre::new(pre.clone()).map_err(incompatible(MAPPER))).transpose()?;
    let slots = engine.slots_of(component);
    Ok(Linked { pre: PluginPre::new(pre).map_err(incompatible(RECONCILER))?, mapper, slots })
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
    call::settle(&mut store, answer, budget)
}

fn megabytes(bytes: usize) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}

/// Shortens wasmtime's message: a name in it may have megabytes.
pub(crate) fn in_short(error: &wasmtime::Error) -> String {
    cut(format!("{error:#}"), MAX_MESSAGE)
}

/// Names for a message: the first of them.
fn list(names: &[String]) -> String {
    const MOST: usize = 20;
    if names.is_empty() {
        return "nothing".to_owned();
    }
    let shown: Vec<String> = names.iter().take(MOST).map(|name| cut(name.clone(), 128)).collect();
    let more = names.len().saturating_sub(MOST);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
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
