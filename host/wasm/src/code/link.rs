//! Links compiled code with the host's imports.

use std::{ops::Deref, sync::Arc};

use wasmtime::component::Component;

use crate::{
    Engine, LoadError, MAPPER, RECONCILER, bindings::PluginPre, free_slots::FreeSlots,
    load_error::short_message, mapper_bindings::MappingPre, store::StoreData,
};

/// Linked code, ready to create instances from. Dropping it unloads the code from the pool's slots.
pub(crate) struct Linked {
    /// None only while it is dropped.
    parts: Option<Parts>,
    free_slots: Option<Arc<FreeSlots>>,
}

pub(crate) struct Parts {
    pub pre: PluginPre<StoreData>,
    /// None if the component exports no mapper.
    pub mapper: Option<MappingPre<StoreData>>,
    /// The pool slots of one instance.
    pub slots: u32,
}

impl Deref for Linked {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        self.parts.as_ref().expect("not dropped")
    }
}

impl Drop for Linked {
    fn drop(&mut self) {
        if let (Some(free), Some(parts)) = (&self.free_slots, self.parts.take()) {
            free.unload(parts);
        }
    }
}

/// Resolves the imports once, so that creating an instance takes microseconds.
///
/// # Errors
/// Returns [`LoadError::IncompatibleImport`] or [`LoadError::IncompatibleExport`] if an interface
/// differs from the contract.
pub(crate) fn link(
    engine: &Engine,
    component: &Component,
    has_mapper: bool,
) -> Result<Linked, LoadError> {
    let pre = engine
        .linker()
        .instantiate_pre(component)
        .map_err(|error| LoadError::IncompatibleImport(short_message(&error)))?;

    let incompatible = |interface: &'static str| {
        move |error: wasmtime::Error| LoadError::IncompatibleExport {
            interface,
            message: short_message(&error),
        }
    };

    let mapper = has_mapper
        .then(|| MappingPre::new(pre.clone()).map_err(incompatible(MAPPER)))
        .transpose()?;
    let slots = engine.slots_of(component);
    let parts = Parts {
        pre: PluginPre::new(pre).map_err(incompatible(RECONCILER))?,
        mapper,
        slots,
    };
    Ok(Linked {
        parts: Some(parts),
        free_slots: engine.free_slots().cloned(),
    })
}
