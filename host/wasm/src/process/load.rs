//! Loading a process: the same path as a plugin's, up to a core module or a command that is ready to
//! start.

use std::{borrow::Cow, sync::Arc};

use wasmtime::{
    ExternType, InstancePre, Linker, Module,
    component::{Component, Type, types::ComponentItem},
};
use wasmtime_wasi::p2::bindings::CommandPre;

use super::{
    command::{Command, is_run},
    linker::original,
    state::State,
};
use crate::{
    Engine, Inspection, LoadError, LoadLimits, PROCESS, Provenance,
    check::{check_process, checked},
    code::{
        link::{Kind, Linked, exported_module},
        resident::MappedCode,
    },
    load_error::short_message,
    slots::Tenant,
    store::limiter::PROCESS_TABLE_ELEMENTS,
};

/// One program, loaded: its code is mapped, nothing runs yet. Any number of processes can be started
/// from it.
pub struct ProcessProgram {
    engine: Engine,
    code: Arc<MappedCode<ProcessKind>>,
    /// Its `error` is None.
    inspection: Inspection,
    provenance: Provenance,
    initial_memory_bytes: u64,
}

impl ProcessProgram {
    /// Checks, compiles and links a component that is or contains a process. The limits of `describe()` don't
    /// apply.
    ///
    /// # Errors
    /// Returns a [`LoadError`] for the first mistake.
    pub async fn load(
        engine: &Engine,
        bytes: Vec<u8>,
        limits: &LoadLimits,
    ) -> Result<Self, LoadError> {
        let bytes = Arc::new(bytes);
        let inspection = checked(&bytes, limits, check_process).await?;
        Self::load_checked(engine, bytes, inspection, limits).await
    }

    /// Compiles and links a component that was checked.
    pub(crate) async fn load_checked(
        engine: &Engine,
        bytes: Arc<Vec<u8>>,
        inspection: Inspection,
        limits: &LoadLimits,
    ) -> Result<Self, LoadError> {
        let kind = ProcessKind {
            is_command: inspection.is_command,
        };
        let (code, provenance) =
            MappedCode::obtain(engine, bytes, &inspection, kind, limits).await?;
        let initial_memory_bytes = code.linked().await?.initial_memory_bytes;

        Ok(Self {
            engine: engine.clone(),
            code,
            inspection,
            provenance,
            initial_memory_bytes,
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

    /// Returns where the compiled code came from.
    pub fn provenance(&self) -> Provenance {
        self.provenance
    }

    /// Returns the size of the memory with which a process starts, in bytes: what the compiler put
    /// there. It counts towards the process's limit. 0 for a command.
    pub fn initial_memory_bytes(&self) -> u64 {
        self.initial_memory_bytes
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the linked code, mapped again if necessary. It stays mapped while it is held.
    pub(super) async fn linked(&self) -> Result<Arc<Linked<ProcessParts>>, LoadError> {
        self.code.linked().await
    }
}

/// Code of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessKind {
    /// True for a command, false for a component around a core module.
    is_command: bool,
}

/// The linked code of a process.
pub(crate) struct ProcessParts {
    pub program: Linkable,
    /// The pool slots of one instance.
    pub slots: u32,
    /// The size of the memory of a new instance.
    pub initial_memory_bytes: u64,
}

/// A program whose imports are resolved.
pub(crate) enum Linkable {
    Module(InstancePre<State>),
    Command(CommandPre<Command>),
}

impl Kind for ProcessKind {
    type Linked = ProcessParts;

    fn link(&self, engine: &Engine, component: &Component) -> Result<ProcessParts, LoadError> {
        if self.is_command {
            return link_command(engine, component);
        }

        // Even the instance of a component that instantiates nothing takes a slot of the pool.
        let slot = engine.slots().try_acquire(&Tenant::default(), 1);
        let slot =
            slot.ok_or_else(|| LoadError::Busy("all instance slots are in use".to_owned()))?;
        let module = exported_module(engine.wasmtime(), component, PROCESS)
            .map_err(|error| LoadError::InvalidProcess(short_message(&error)))?;
        drop(slot);

        let start = module.get_export("_start");
        let is_command = matches!(&start, Some(ExternType::Func(function))
            if function.params().len() == 0 && function.results().len() == 0);
        if !is_command {
            return Err(invalid("its function \"_start\" has parameters or results"));
        }

        let memory = match module.get_export("memory") {
            Some(ExternType::Memory(memory)) if !memory.is_64() && !memory.is_shared() => memory,
            _ => {
                return Err(invalid(
                    "its memory is shared or has 64-bit addresses, which preview 1 of WASI does not know",
                ));
            }
        };

        let required = module.resources_required();
        let elements = required.max_initial_table_size.unwrap_or_default();
        if elements > PROCESS_TABLE_ELEMENTS as u64 {
            return Err(LoadError::InvalidProcess(format!(
                "its table has {elements} elements, over the limit of {PROCESS_TABLE_ELEMENTS}"
            )));
        }

        let incompatible =
            |error: wasmtime::Error| LoadError::IncompatibleImport(short_message(&error));
        let linker = with_duplicates(engine.process_linker(), &module).map_err(incompatible)?;
        let pre = linker.instantiate_pre(&module).map_err(incompatible)?;
        Ok(ProcessParts {
            program: Linkable::Module(pre),
            slots: engine.slots_for(Some(required)),
            initial_memory_bytes: memory.minimum().saturating_mul(memory.page_size()),
        })
    }
}

fn link_command(engine: &Engine, component: &Component) -> Result<ProcessParts, LoadError> {
    let pre = engine
        .command_linker()
        .instantiate_pre(component)
        .map_err(|error| LoadError::IncompatibleImport(short_message(&error)))?;
    let incompatible = |message| LoadError::IncompatibleExport {
        interface: "wasi:cli/run",
        message,
    };
    let pre = CommandPre::new(pre).map_err(|error| incompatible(short_message(&error)))?;
    // wasmtime would say so only once it is called.
    if !has_main(component) {
        let words =
            "its function \"run\" has parameters, or returns anything but a result without values";
        return Err(incompatible(words.to_owned()));
    }

    Ok(ProcessParts {
        program: Linkable::Command(pre),
        slots: engine.slots_of(component),
        // A component does not say.
        initial_memory_bytes: 0,
    })
}

/// Reports whether the main function of a command has the type that WASI gives it.
fn has_main(component: &Component) -> bool {
    let engine = component.engine();
    let component_type = component.component_type();
    let run = component_type
        .exports(engine)
        .find(|(name, _)| is_run(name))
        .and_then(|(_, export)| match export.ty {
            ComponentItem::ComponentInstance(interface) => {
                interface.get_export(engine, "run").map(|export| export.ty)
            }
            _ => None,
        });
    let Some(ComponentItem::ComponentFunc(main)) = run else {
        return false;
    };

    let results: Vec<Type> = main.results().collect();
    main.params().len() == 0
        && matches!(&results[..], [Type::Result(result)] if result.ok().is_none() && result.err().is_none())
}

/// Returns a linker that also has the names under which a module imports a function again.
fn with_duplicates<'a>(
    linker: &'a Linker<State>,
    module: &Module,
) -> wasmtime::Result<Cow<'a, Linker<State>>> {
    let mut linker = Cow::Borrowed(linker);
    for import in module.imports() {
        let name = original(import.name());
        if name != import.name() {
            linker
                .to_mut()
                .alias(import.module(), name, import.module(), import.name())?;
        }
    }
    Ok(linker)
}

fn invalid(why: &str) -> LoadError {
    LoadError::InvalidProcess(why.to_owned())
}
