//! Links compiled code with the host's imports: those of a plugin, or those of a process.

use std::{ops::Deref, sync::Arc};

use wasmtime::{
    Module, Store,
    component::{Component, InstancePre, Linker},
};

use crate::{
    Engine, LoadError, MAPPER, RECONCILER,
    bindings::PluginPre,
    free_slots::FreeSlots,
    load_error::short_message,
    mapper_bindings::MappingPre,
    store::{StoreData, limiter::TABLE_ELEMENTS},
};

/// What compiled code is linked as.
pub(crate) trait Kind: Clone + Send + Sync + 'static {
    /// The linked code: all that is needed to create instances.
    type Linked: Send + Sync;

    /// Resolves the imports once, so that creating an instance takes microseconds.
    ///
    /// # Errors
    /// Returns [`LoadError::IncompatibleImport`], [`LoadError::IncompatibleExport`] or
    /// [`LoadError::InvalidProcess`] if the code differs from what the host links it as.
    fn link(&self, engine: &Engine, component: &Component) -> Result<Self::Linked, LoadError>;
}

/// Linked code, ready to create instances from. Dropping it unloads the code from the pool's slots.
pub(crate) struct Linked<P> {
    /// None only while it is dropped.
    parts: Option<P>,
    free_slots: Option<Arc<FreeSlots>>,
}

impl<P> Linked<P> {
    pub(super) fn new(engine: &Engine, parts: P) -> Self {
        Self {
            parts: Some(parts),
            free_slots: engine.free_slots().cloned(),
        }
    }
}

impl<P> Deref for Linked<P> {
    type Target = P;

    fn deref(&self) -> &P {
        self.parts.as_ref().expect("not dropped")
    }
}

impl<P> Drop for Linked<P> {
    fn drop(&mut self) {
        if let (Some(free), Some(parts)) = (&self.free_slots, self.parts.take()) {
            free.unload(parts);
        }
    }
}

/// Code of a plugin, linked for calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PluginKind {
    /// True if the component exports a mapper.
    pub has_mapper: bool,
}

/// A plugin's linked code.
pub(crate) struct PluginParts {
    pub pre: PluginPre<StoreData>,
    /// None if the component exports no mapper.
    pub mapper: Option<MappingPre<StoreData>>,
    /// The pool slots of one instance.
    pub slots: u32,
}

impl Kind for PluginKind {
    type Linked = PluginParts;

    fn link(&self, engine: &Engine, component: &Component) -> Result<PluginParts, LoadError> {
        // The pool's tables are those of processes.
        let required = component.resources_required();
        let elements = required.and_then(|required| required.max_initial_table_size);
        if let Some(elements) = elements.filter(|elements| *elements > TABLE_ELEMENTS as u64) {
            return Err(LoadError::CompileFailed(format!(
                "a table has a minimum element size of {elements} which exceeds the limit of {TABLE_ELEMENTS}"
            )));
        }

        let pre: InstancePre<StoreData> = engine
            .linker()
            .instantiate_pre(component)
            .map_err(|error| LoadError::IncompatibleImport(short_message(&error)))?;

        let incompatible = |interface: &'static str| {
            move |error: wasmtime::Error| LoadError::IncompatibleExport {
                interface,
                message: short_message(&error),
            }
        };

        let mapper = self
            .has_mapper
            .then(|| MappingPre::new(pre.clone()).map_err(incompatible(MAPPER)))
            .transpose()?;
        let slots = engine.slots_of(component);
        Ok(PluginParts {
            pre: PluginPre::new(pre).map_err(incompatible(RECONCILER))?,
            mapper,
            slots,
        })
    }
}

/// Returns a core module that a component without imports exports. The component is instantiated for
/// it, which takes a slot of the pool for a moment.
///
/// # Errors
/// Returns wasmtime's error if the component cannot be instantiated or exports no such module.
pub(crate) fn exported_module(
    engine: &wasmtime::Engine,
    component: &Component,
    name: &str,
) -> wasmtime::Result<Module> {
    let mut store = Store::new(engine, ());
    let instance = Linker::new(engine).instantiate(&mut store, component)?;
    instance
        .get_module(&mut store, name)
        .ok_or_else(|| wasmtime::format_err!("it exports no module {name:?}"))
}
