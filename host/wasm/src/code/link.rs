//! Links compiled code with the host's imports.

use wasmtime::component::Component;

use crate::{
    Engine, LoadError, MAPPER, RECONCILER, bindings::PluginPre, load_error::short_message, mapper_bindings::MappingPre,
    store_data::Call,
};

/// The linked code that instances are created from.
pub(crate) struct Linked {
    pub pre: PluginPre<Call>,
    /// The mapper; None when the component exports none.
    pub mapper: Option<MappingPre<Call>>,
    /// The pool slots that an instance takes.
    pub slots: u32,
}

/// Resolves the imports once, so that creating an instance takes microseconds.
///
/// # Errors
/// Returns [`LoadError::IncompatibleImport`] or [`LoadError::IncompatibleExport`] if an interface differs from the
/// contract.
pub(crate) fn link(engine: &Engine, component: &Component, has_mapper: bool) -> Result<Linked, LoadError> {
    let pre = engine
        .linker()
        .instantiate_pre(component)
        .map_err(|error| LoadError::IncompatibleImport(short_message(&error)))?;
    let incompatible = |interface: &'static str| {
        move |error: wasmtime::Error| LoadError::IncompatibleExport { interface, message: short_message(&error) }
    };
    let mapper = has_mapper.then(|| MappingPre::new(pre.clone()).map_err(incompatible(MAPPER))).transpose()?;
    let slots = engine.slots_of(component);
    Ok(Linked { pre: PluginPre::new(pre).map_err(incompatible(RECONCILER))?, mapper, slots })
}
