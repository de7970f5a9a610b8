//! A loaded plugin: one digest, compiled, linked and described.
//!
//! Loading refuses a component that cannot run, with a reason its author can act on. Cheap checks
//! come before the expensive compilation. A loaded plugin has answered `describe()` once, within
//! limits and without access to the API server.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use operetta_core::{
    controller::request::Fault,
    gate::Gate,
    manifest::{self, Manifest},
    ports::LogSink,
};
use tokio::sync::Semaphore;

use crate::{
    Engine, Inspection, LoadError, Origin, Provenance,
    call::{self, Budget, CallError},
    check::{Offered, check_plugin, checked, exports_mapper},
    code::{
        LoadObserver, LoadStage, digest,
        link::{Linked, PluginKind, PluginParts},
        resident::MappedCode,
    },
    interpreted::interpreter,
    program::Program,
    slots::Tenant,
    store::Evaluated,
};

/// The limits of loading a plugin.
#[derive(Clone, Debug)]
pub struct LoadLimits {
    /// The maximum size of a plugin's component in bytes. Compiling it takes about twenty times as
    /// much memory for a while.
    pub max_wasm_bytes: usize,
    /// The maximum size of a process's component in bytes. A whole operator with its libraries has
    /// 70 to 140 MB.
    pub max_process_bytes: usize,
    /// The maximum linear memory during `describe()`, in bytes.
    pub memory_bytes: usize,
    /// The timeout of `describe()`.
    pub timeout: Duration,
    /// The owner's permits to compile. A component takes one before it queues with those of other
    /// owners, so an owner with many components delays the others by one. None queues at once.
    pub compilations: Option<Arc<Semaphore>>,
    /// Learns where the component is.
    pub observer: Option<Arc<dyn LoadObserver>>,
}

impl LoadLimits {
    /// Tells the observer that the component is in this stage from now on.
    pub(crate) async fn enter(&self, stage: LoadStage) {
        if let Some(observer) = &self.observer {
            observer.enters(stage).await;
        }
    }
}

impl Default for LoadLimits {
    fn default() -> Self {
        Self {
            max_wasm_bytes: 64 << 20,
            max_process_bytes: 256 << 20,
            memory_bytes: 256 << 20,
            timeout: Duration::from_secs(10),
            compilations: None,
            observer: None,
        }
    }
}

/// The maximum size of a manifest from `describe()`, in bytes.
const MAX_MANIFEST: usize = 1 << 20;

/// One loaded digest.
pub struct Plugin {
    engine: Engine,
    code: Arc<MappedCode<PluginKind>>,
    manifest: Manifest,
    /// Its `error` is None.
    inspection: Inspection,
    provenance: Provenance,
    /// Set if an interpreter runs the plugin.
    source: Option<Arc<str>>,
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
        if let Some(program) = Program::read(&bytes) {
            return Self::interpret(engine, &bytes, program, limits, logs).await;
        }

        let bytes = Arc::new(bytes);
        let check =
            |bytes: &[u8], limits: &LoadLimits| check_plugin(bytes, limits, Offered::Contract);
        let inspection = checked(&bytes, limits, check).await?;
        Self::load_checked(engine, bytes, inspection, limits, logs).await
    }

    /// Compiles, links and describes a component that was checked.
    pub(crate) async fn load_checked(
        engine: &Engine,
        bytes: Arc<Vec<u8>>,
        inspection: Inspection,
        limits: &LoadLimits,
        logs: Arc<dyn LogSink>,
    ) -> Result<Self, LoadError> {
        let kind = PluginKind {
            has_mapper: exports_mapper(&inspection),
        };
        let (code, provenance) =
            MappedCode::obtain(engine, bytes, &inspection, kind, limits).await?;
        let manifest = describe(engine, &code, None, limits, logs).await?;

        Ok(Self {
            engine: engine.clone(),
            code,
            manifest,
            inspection,
            provenance,
            source: None,
        })
    }

    /// Loads a program of `operetta dev`. Nothing is compiled once the interpreter is loaded.
    async fn interpret(
        engine: &Engine,
        bytes: &[u8],
        program: Program,
        limits: &LoadLimits,
        logs: Arc<dyn LogSink>,
    ) -> Result<Self, LoadError> {
        let Some(interpreters) = engine.interpreters() else {
            return Err(LoadError::DevelopmentBuild);
        };

        let started = Instant::now();
        let interpreter = interpreter(engine, interpreters, &program.interpreter, limits).await?;
        let code = interpreter.code.clone();
        let provenance = Provenance {
            origin: Origin::Cache,
            took: started.elapsed(),
        };

        let source: Arc<str> = program.source.into();
        let manifest = describe(engine, &code, Some(source.clone()), limits, logs).await?;
        let inspection = Inspection {
            digest: digest(bytes),
            size: bytes.len(),
            ..interpreter.inspection.clone()
        };

        Ok(Self {
            engine: engine.clone(),
            code,
            manifest,
            inspection,
            provenance,
            source: Some(source),
        })
    }

    /// Returns `sha256:` and the hash of the component's bytes in hex.
    pub fn digest(&self) -> &str {
        &self.inspection.digest
    }

    /// Returns the size of the component in bytes.
    pub fn size(&self) -> usize {
        self.inspection.size
    }

    /// Returns the manifest from `describe()`.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the imported interfaces.
    pub fn imports(&self) -> &[String] {
        &self.inspection.imports
    }

    /// Returns the exported interfaces.
    pub fn exports(&self) -> &[String] {
        &self.inspection.exports
    }

    /// Returns where the compiled code came from.
    pub fn provenance(&self) -> Provenance {
        self.provenance
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn has_mapper(&self) -> bool {
        self.code.kind.has_mapper
    }

    /// Returns the source for a call of the interpreter; None for a plugin with its own code.
    pub(crate) fn evaluated(&self) -> Option<Evaluated> {
        self.source.clone().map(|source| Evaluated {
            source,
            problem: None,
        })
    }

    /// Returns the linked code, mapped again if necessary.
    pub(crate) async fn linked(&self) -> Result<Arc<Linked<PluginParts>>, CallError> {
        // The same code was mapped before, so any error is temporary.
        self.code
            .linked()
            .await
            .map_err(|error| CallError::Busy(error.to_string()))
    }
}

/// Calls `describe()` in a fresh instance, with this source if the code is an interpreter.
async fn describe(
    engine: &Engine,
    code: &MappedCode<PluginKind>,
    source: Option<Arc<str>>,
    limits: &LoadLimits,
    logs: Arc<dyn LogSink>,
) -> Result<Manifest, LoadError> {
    let linked = code.linked().await?;
    let budget = Budget {
        memory_bytes: limits.memory_bytes,
        transfer_bytes: MAX_MANIFEST,
        timeout: limits.timeout,
    };

    let mut evaluated = source.map(|source| Evaluated {
        source,
        problem: None,
    });
    let described = call_describe(engine, &linked, &mut evaluated, &budget, logs).await;

    if let Some(problem) = evaluated.and_then(|evaluated| evaluated.problem) {
        return Err(LoadError::NotEvaluated(problem));
    }

    let text = match described {
        Ok(text) => text,
        Err(CallError::Busy(why)) => return Err(LoadError::Busy(why)),
        Err(CallError::Fault(fault)) => {
            return Err(match fault {
                Fault::Trap(message) => LoadError::DescribeTrapped(message),
                Fault::DeadlineExceeded { limit } => LoadError::DescribeTimedOut { limit },
                Fault::MemoryExceeded { limit_bytes } => {
                    LoadError::DescribeMemoryExceeded { limit_bytes }
                }
            });
        }
    };

    let manifest = manifest::parse(&text)?;
    if let (None, Some(controller)) = (&linked.mapper, manifest.custom_mappings().next()) {
        return Err(LoadError::MissingMapper {
            controller: controller.name.clone(),
        });
    }

    Ok(manifest)
}

async fn call_describe(
    engine: &Engine,
    linked: &PluginParts,
    evaluated: &mut Option<Evaluated>,
    budget: &Budget,
    logs: Arc<dyn LogSink>,
) -> Result<String, CallError> {
    let _slot = call::slots(engine, &Tenant::default(), linked.slots, None).await;
    let mut store = call::store(engine, Gate::describing(logs).session(None), budget);
    store.data_mut().evaluated = evaluated.take();

    let answer = call::run(engine, budget, async {
        let guest = linked.pre.instantiate_async(&mut store).await?;
        guest
            .operetta_controller_reconciler()
            .call_describe(&mut store)
            .await
    });
    let answer = answer.await;

    *evaluated = store.data_mut().evaluated.take();
    call::finish(&mut store, answer, budget)
}
