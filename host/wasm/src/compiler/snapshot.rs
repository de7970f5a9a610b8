//! Pre-initialised components. A guest with a costly start is started once, when it is built. Its
//! memory after the start becomes the component's initial memory.
//!
//! Everything the guest reads during its start is part of the snapshot: random seeds, the time,
//! arguments and environment. `describe()` is part of the start. The guest has the same imports as
//! in any other `describe()`, so it sees nothing of a cluster. Only memory and globals are kept;
//! handles of the host, such as stdout, are new in each instance. Adapters keep such handles in
//! globals and must start over, so modules without a memory of their own get back the globals of
//! the original component.

use std::{borrow::Cow, sync::Arc, time::Duration};

use operetta_core::{controller::request::Fault, gate::Gate, ports::LogSink};
use wasm_encoder::Encode as _;
use wasmparser::{DataKind, DataSectionReader, Encoding, Parser, Payload, Validator};
use wasmtime::{
    Store,
    component::{Component, Instance, Lift, WasmList},
};
use wasmtime_wizer::{ComponentInstanceState, Wizer};

use super::rewrite_sections;
use crate::{
    Engine, bindings,
    call::{self, Budget, CallError},
    slots::Tenant,
    store::StoreData,
};

/// The limits of the start.
const BUDGET: Budget = Budget {
    memory_bytes: 1 << 30,
    transfer_bytes: usize::MAX,
    timeout: Duration::from_secs(60),
};

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The component has an unsupported part, lacks the function, or cannot describe itself.
    #[error("cannot take a snapshot of this component: {0}")]
    Unsupported(String),
    /// The function trapped or exceeded a limit.
    #[error("its initialisation failed: {0}")]
    Failed(#[source] Fault),
    /// The engine had no slot or memory; another try may succeed.
    #[error("the engine is busy: {0}")]
    Busy(String),
}

impl From<CallError> for SnapshotError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Fault(fault) => Self::Failed(fault),
            CallError::Busy(why) => Self::Busy(why),
        }
    }
}

/// Calls the exported `function` (no arguments, no results) and `describe()`, and returns the
/// component with the state after these calls. The function stays exported. The log goes to `logs`.
///
/// # Errors
/// Returns a [`SnapshotError`] if the component is unsupported, the function fails, or the engine
/// is busy.
pub async fn snapshot(
    engine: &Engine,
    bytes: &[u8],
    function: &str,
    logs: Arc<dyn LogSink>,
) -> Result<Vec<u8>, SnapshotError> {
    let unsupported = |error: wasmtime::Error| SnapshotError::Unsupported(format!("{error:#}"));

    let mut wizer = Wizer::new();
    // Wizer does not remove the function from the exports of the component, so it must stay.
    wizer.init_func(function).keep_init_func(true);
    let (context, instrumented) = wizer.instrument_component(bytes).map_err(unsupported)?;

    let component =
        Component::from_binary(engine.wasmtime(), &instrumented).map_err(unsupported)?;
    if component.get_export(None, function).is_none() {
        return Err(SnapshotError::Unsupported(format!(
            "it exports no function {function:?}"
        )));
    }

    let pre = engine
        .linker()
        .instantiate_pre(&component)
        .map_err(unsupported)?;

    let _slot = call::slots(
        engine,
        &Tenant::default(),
        engine.slots_of(&component),
        None,
    )
    .await;
    let mut store = call::store(engine, Gate::describing(logs).session(None), &BUDGET);
    let started = call::run(engine, &BUDGET, async {
        let instance = pre.instantiate_async(&mut store).await?;
        let initialize = instance.get_typed_func::<(), ()>(&mut store, function)?;
        initialize.call_async(&mut store, ()).await?;
        Ok(instance)
    });
    let started = started.await;
    let instance = call::finish(&mut store, started, &BUDGET)?;
    describe(engine, &mut store, &instance).await?;

    let outcome = call::run(engine, &BUDGET, async {
        let mut state = State {
            store: &mut store,
            instance,
            error: None,
        };
        let snapshot = wizer.snapshot_component(&context, &mut state).await?;
        state.error.map_or(Ok(snapshot), Err)
    });
    let outcome = outcome.await;
    let snapshot = call::finish(&mut store, outcome, &BUDGET)?;

    { rewrite(bytes, &snapshot) }
        .and_then(|snapshot| Validator::new().validate_all(&snapshot).map(|_| snapshot))
        .map_err(|error| SnapshotError::Unsupported(error.to_string()))
}

/// Calls `describe()`, so the snapshot includes work done only in the first call. In the Go SDK,
/// the JSON packages examine their types there.
async fn describe(
    engine: &Engine,
    store: &mut Store<StoreData>,
    instance: &Instance,
) -> Result<(), SnapshotError> {
    let described = call::run(engine, &BUDGET, async {
        let guest = bindings::Plugin::new(&mut *store, instance)?;
        guest
            .operetta_controller_reconciler()
            .call_describe(&mut *store)
            .await
    });
    let described = described.await;

    match call::finish(store, described, &BUDGET) {
        Ok(_) => Ok(()),
        Err(CallError::Busy(why)) => Err(SnapshotError::Busy(why)),
        // Loading the plugin reports this in full.
        Err(CallError::Fault(fault)) => Err(SnapshotError::Unsupported(format!(
            "describe() failed: {fault}"
        ))),
    }
}

/// Returns the snapshot with the original's globals in modules without a memory, and without unused
/// data segments.
///
/// Wizer replaces each segment of the original with an empty one and adds its own. Go's linker
/// makes up to 100,000 segments, and a module may not have more.
fn rewrite<'a>(original: &'a [u8], snapshot: &'a [u8]) -> wasmparser::Result<Vec<u8>> {
    let globals = adapters_globals(original)?;
    // The last module that counts its data segments: only the code of such a module can use a
    // segment by its index.
    let mut counted = None;

    rewrite_sections(snapshot, |section| {
        let data = match section.payload {
            Payload::GlobalSection(_) if !section.is_outermost => globals
                .get(section.modules)
                .copied()
                .flatten()
                .unwrap_or(section.data)
                .into(),
            Payload::DataCountSection { .. } => {
                counted = Some(section.modules);
                section.data.into()
            }
            Payload::DataSection(segments) if counted != Some(section.modules) => {
                // Validation reports a malformed section.
                active_segments(snapshot, segments.clone()).map_or(section.data.into(), Cow::Owned)
            }
            _ => section.data.into(),
        };
        Some(data)
    })
}

/// The contents of a data section, without passive segments.
fn active_segments(module: &[u8], section: DataSectionReader<'_>) -> wasmparser::Result<Vec<u8>> {
    let mut count: u32 = 0;
    let mut segments = Vec::new();
    for segment in section {
        let segment = segment?;
        if let DataKind::Active { .. } = segment.kind {
            count += 1;
            segments.extend_from_slice(&module[segment.range]);
        }
    }

    let mut data = Vec::with_capacity(segments.len() + size_of::<u32>() + 1);
    count.encode(&mut data);
    data.append(&mut segments);
    Ok(data)
}

/// The global section of each core module, in order. None for modules with a memory of their own or
/// without globals.
fn adapters_globals(component: &[u8]) -> wasmparser::Result<Vec<Option<&[u8]>>> {
    let mut found = Vec::new();
    // The encodings of the modules and components that the parser is inside of.
    let mut inside = Vec::new();
    // The global section of the current module.
    let mut globals = None;
    // Whether the current module defines a memory.
    let mut memory = false;

    for payload in Parser::new(0).parse_all(component) {
        let payload = payload?;
        match &payload {
            Payload::Version { encoding, .. } => {
                inside.push(*encoding);
                globals = None;
                memory = false;
            }
            Payload::MemorySection(_) => memory = true,
            Payload::GlobalSection(_) => {
                globals = payload.as_section().map(|(_, range)| &component[range]);
            }
            Payload::End(_) if inside.pop() == Some(Encoding::Module) => {
                found.push(globals.filter(|_| !memory));
            }
            _ => {}
        }
    }
    Ok(found)
}

/// The instance for Wizer to read. Wizer's trait returns no errors, so the first one is recorded.
struct State<'a> {
    store: &'a mut Store<StoreData>,
    instance: Instance,
    error: Option<wasmtime::Error>,
}

impl State<'_> {
    async fn call<R: Lift + Send + Sync + 'static>(
        &mut self,
        instance: &str,
        function: &str,
    ) -> Option<R> {
        let result = async {
            let missing =
                || wasmtime::format_err!("the instrumented component has no {instance}#{function}");

            let (_, found) = self
                .instance
                .get_export(&mut *self.store, None, instance)
                .ok_or_else(missing)?;
            let (_, found) = self
                .instance
                .get_export(&mut *self.store, Some(&found), function)
                .ok_or_else(missing)?;
            let function = self
                .instance
                .get_typed_func::<(), (R,)>(&mut *self.store, found)?;
            wasmtime::Result::<R>::Ok(function.call_async(&mut *self.store, ()).await?.0)
        };

        match result.await {
            Ok(value) => Some(value),
            Err(error) => {
                self.error.get_or_insert(error);
                None
            }
        }
    }
}

impl ComponentInstanceState for State<'_> {
    async fn call_func_ret_list_u8(
        &mut self,
        instance: &str,
        func: &str,
        contents: impl FnOnce(&[u8]) + Send,
    ) {
        if let Some(list) = self.call::<WasmList<u8>>(instance, func).await {
            contents(list.as_le_slice(&*self.store));
        }
    }

    async fn call_func_ret_s32(&mut self, instance: &str, func: &str) -> i32 {
        self.call(instance, func).await.unwrap_or_default()
    }

    async fn call_func_ret_s64(&mut self, instance: &str, func: &str) -> i64 {
        self.call(instance, func).await.unwrap_or_default()
    }

    async fn call_func_ret_f32(&mut self, instance: &str, func: &str) -> u32 {
        self.call::<f32>(instance, func)
            .await
            .map_or(0, f32::to_bits)
    }

    async fn call_func_ret_f64(&mut self, instance: &str, func: &str) -> u64 {
        self.call::<f64>(instance, func)
            .await
            .map_or(0, f64::to_bits)
    }
}
