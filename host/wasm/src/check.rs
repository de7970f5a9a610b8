//! Checks of a component before it is compiled.

use std::{ops::Range, sync::Arc};

use operetta_core::nondeterminism;
use wasmparser::{Encoding, ExternalKind, Parser, Payload, TypeRef};

use crate::{
    CONTRACT_VERSION, Format, Inspection, LoadError, LoadLimits,
    code::{compile_cost, inspect},
    cut,
    imports::{self, CONTROLLER, InterfaceName, SOURCE},
    load_error::MAX_MESSAGE,
    process,
    program::Program,
};

/// Checks the size and the structure of a file, as [`crate::Plugin::load`] and
/// [`crate::ProcessProgram::load`] do before compilation. A file passes if it is a plugin, which
/// exports a reconciler and imports only interfaces of this host, or a process, which imports only
/// functions or WASI interfaces of this host. Its code is not validated.
///
/// # Errors
/// Returns a [`LoadError`] for the first mistake.
pub fn check(bytes: &[u8], limits: &LoadLimits) -> Result<Inspection, LoadError> {
    if Program::read(bytes).is_some() {
        return Err(LoadError::DevelopmentBuild);
    }

    let inspection = check_component(bytes, limits)?;
    if inspection.is_process {
        check_program(bytes, &inspection)?;
    } else {
        check_interfaces(&inspection, Offered::Contract)?;
    }
    check_cost(bytes)?;
    Ok(inspection)
}

/// Runs one of the checks on a thread that may block: a large component takes a second.
///
/// # Errors
/// Returns that of the check, or [`LoadError::Busy`] when the host stops.
pub(crate) async fn checked(
    bytes: &Arc<Vec<u8>>,
    limits: &LoadLimits,
    check: impl FnOnce(&[u8], &LoadLimits) -> Result<Inspection, LoadError> + Send + 'static,
) -> Result<Inspection, LoadError> {
    let (bytes, limits) = (bytes.clone(), limits.clone());
    nondeterminism::blocking(move || check(&bytes, &limits))
        .await
        .map_err(|stopped| LoadError::Busy(stopped.to_string()))?
}

/// The imports allowed for a component.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offered {
    /// The interfaces offered to every plugin.
    Contract,
    /// The same, and the source of interpreters.
    WithSource,
}

/// Checks a plugin with these imports.
///
/// # Errors
/// Returns a [`LoadError`] for the first mistake.
pub(crate) fn check_plugin(
    bytes: &[u8],
    limits: &LoadLimits,
    offered: Offered,
) -> Result<Inspection, LoadError> {
    let inspection = check_component(bytes, limits)?;
    if inspection.is_process {
        check_program(bytes, &inspection)?;
        return Err(LoadError::NotPlugin);
    }

    check_interfaces(&inspection, offered)?;
    check_cost(bytes)?;
    Ok(inspection)
}

/// Checks a process.
///
/// # Errors
/// Returns a [`LoadError`] for the first mistake.
pub(crate) fn check_process(bytes: &[u8], limits: &LoadLimits) -> Result<Inspection, LoadError> {
    let inspection = check_component(bytes, limits)?;
    if !inspection.is_process {
        return Err(LoadError::NotProcess {
            exports: inspection.exports,
        });
    }

    check_program(bytes, &inspection)?;
    check_cost(bytes)?;
    Ok(inspection)
}

/// Checks what a process needs of the host.
fn check_program(bytes: &[u8], inspection: &Inspection) -> Result<(), LoadError> {
    if !inspection.is_command {
        return check_module(bytes, inspection);
    }

    let missing: Vec<String> = inspection
        .imports
        .iter()
        .filter(|name| !imports::is_offered_to_commands(name))
        .cloned()
        .collect();
    if !missing.is_empty() {
        return Err(LoadError::MissingProcessImport { missing });
    }
    Ok(())
}

/// Checks the size and the format of a component.
fn check_component(bytes: &[u8], limits: &LoadLimits) -> Result<Inspection, LoadError> {
    let plugins = (limits.max_wasm_bytes, "maxWasmBytes");
    let processes = (limits.max_process_bytes, "maxProcessBytes");
    let within = |(limit_bytes, setting)| match bytes.len() {
        bytes if bytes > limit_bytes => Err(LoadError::TooLarge {
            bytes,
            limit_bytes,
            setting,
        }),
        _ => Ok(()),
    };

    // Before anything is read of it.
    within(plugins.max(processes))?;
    let mut inspection = inspect(bytes);
    within(if inspection.is_process {
        processes
    } else {
        plugins
    })?;

    match inspection.format {
        Format::Component => {}
        Format::CoreModule => return Err(LoadError::CoreModule),
        Format::NotWasm => {
            return Err(LoadError::NotWasm {
                found: first_bytes(bytes),
            });
        }
    }

    match inspection.error.take() {
        Some(error) => Err(LoadError::InvalidComponent(cut(error, MAX_MESSAGE))),
        None => Ok(inspection),
    }
}

/// Checks the imports and exports of a plugin.
fn check_interfaces(inspection: &Inspection, offered: Offered) -> Result<(), LoadError> {
    let is_offered =
        |name: &str| imports::is_offered(name) || offered == Offered::WithSource && name == SOURCE;
    let Inspection {
        imports, exports, ..
    } = inspection;

    if !exports
        .iter()
        .any(|name| is_contract(name, Some("reconciler")))
    {
        let other_version = exports.iter().find(|name| {
            InterfaceName::parse(name)
                .is_some_and(|name| name.package == CONTROLLER && name.interface == "reconciler")
        });

        return Err(match other_version {
            Some(found) => LoadError::UnsupportedVersion {
                found: cut(found.clone(), MAX_MESSAGE),
            },
            None => LoadError::MissingExport {
                exports: exports.clone(),
            },
        });
    }

    let missing: Vec<String> = imports
        .iter()
        .filter(|name| !is_offered(name))
        .cloned()
        .collect();
    let is_other_version = |name: &&String| {
        InterfaceName::parse(name).is_some_and(|parsed| parsed.package == CONTROLLER)
            && !is_contract(name, None)
    };

    if let Some(found) = missing.iter().find(is_other_version) {
        return Err(LoadError::UnsupportedVersion {
            found: cut(found.clone(), MAX_MESSAGE),
        });
    }

    if !missing.is_empty() {
        return Err(LoadError::MissingImport { missing });
    }

    Ok(())
}

fn check_cost(bytes: &[u8]) -> Result<(), LoadError> {
    compile_cost::check(bytes)
        .map_err(|error| LoadError::CompileFailed(cut(error.to_string(), MAX_MESSAGE)))
}

/// Checks that a component is only the wrapping of one module, and that the host has the module's
/// imports.
///
/// The host instantiates the module itself, to reach its memory and its globals. A component that
/// did more would run code that the host does not see.
fn check_module(bytes: &[u8], inspection: &Inspection) -> Result<(), LoadError> {
    let invalid = |why: &str| Err(LoadError::InvalidProcess(why.to_owned()));
    let is_plugin =
        |name: &String| InterfaceName::parse(name).is_some_and(|name| name.package == CONTROLLER);

    if inspection.exports.iter().any(is_plugin) {
        return Err(LoadError::ProcessAndPlugin);
    }
    if inspection.exports.len() > 1 {
        return invalid("the component has other exports beside it");
    }
    if !inspection.imports.is_empty() {
        return invalid("the component has imports, but only its module may have some");
    }

    let Some(module) = only_module(bytes)? else {
        return invalid("the component must have exactly one core module, and instantiate nothing");
    };
    check_functions(bytes.get(module).unwrap_or_default())
}

/// Returns where the module of a component is. None if the component contains anything else.
fn only_module(bytes: &[u8]) -> Result<Option<Range<usize>>, LoadError> {
    let mut module = None;
    let mut depth = 0_usize;

    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(malformed)?;
        match payload {
            Payload::Version { encoding, .. } => {
                depth += 1;
                if depth > 1 && encoding == Encoding::Component {
                    return Ok(None);
                }
            }
            Payload::End(_) => depth = depth.saturating_sub(1),
            _ if depth != 1 => {}
            Payload::ModuleSection {
                unchecked_range, ..
            } => {
                if module.replace(unchecked_range).is_some() {
                    return Ok(None);
                }
            }
            Payload::ComponentTypeSection(_)
            | Payload::CoreTypeSection(_)
            | Payload::ComponentExportSection(_)
            | Payload::CustomSection(_) => {}
            _ => return Ok(None),
        }
    }
    Ok(module)
}

/// Checks that a module imports only functions of this host, and exports those of a WASI command.
fn check_functions(module: &[u8]) -> Result<(), LoadError> {
    let mut missing = Vec::new();
    let (mut has_start, mut has_memory) = (false, false);

    for payload in Parser::new(0).parse_all(module) {
        match payload.map_err(malformed)? {
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    let import = import.map_err(malformed)?;
                    let is_function = matches!(import.ty, TypeRef::Func(_) | TypeRef::FuncExact(_));
                    if !is_function || !process::is_offered(import.module, import.name) {
                        missing.push(format!("{}.{}", import.module, import.name));
                    }
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    let export = export.map_err(malformed)?;
                    match (export.name, export.kind) {
                        ("_start", ExternalKind::Func) => has_start = true,
                        ("memory", ExternalKind::Memory) => has_memory = true,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    if !missing.is_empty() {
        return Err(LoadError::MissingFunction { missing });
    }
    for (found, name) in [
        (has_start, "function \"_start\""),
        (has_memory, "memory \"memory\""),
    ] {
        if !found {
            let why = format!("its module does not export a {name}, as a WASI command does");
            return Err(LoadError::InvalidProcess(why));
        }
    }
    Ok(())
}

fn malformed(error: wasmparser::BinaryReaderError) -> LoadError {
    LoadError::InvalidComponent(cut(error.to_string(), MAX_MESSAGE))
}

pub(crate) fn exports_mapper(inspection: &Inspection) -> bool {
    inspection
        .exports
        .iter()
        .any(|name| is_contract(name, Some("mapper")))
}

/// Reports whether a name is an interface of the contract, or this one if given, in a supported
/// version.
fn is_contract(name: &str, interface: Option<&str>) -> bool {
    let major_minor = CONTRACT_VERSION
        .rsplit_once('.')
        .map_or(CONTRACT_VERSION, |(major_minor, _)| major_minor);
    InterfaceName::parse(name).is_some_and(|name| {
        name.package == CONTROLLER
            && interface.is_none_or(|interface| interface == name.interface)
            && name.agrees_with(major_minor)
    })
}

/// Describes a file that is not WebAssembly by its first bytes.
fn first_bytes(bytes: &[u8]) -> String {
    let known: &[(&[u8], &str)] = &[
        (b"\x28\xb5\x2f\xfd", "is compressed with zstd"),
        (b"\x1f\x8b", "is compressed with gzip"),
        (b"\x7fELF", "is a native program or a precompiled module"),
        (
            b"(",
            "is WebAssembly text; convert it with `wasm-tools parse`",
        ),
        (b"\0asm", "has an unknown WebAssembly version"),
    ];

    if bytes.is_empty() {
        return "is empty".to_owned();
    }

    match known.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        Some((_, description)) => (*description).to_owned(),
        None => {
            let first: Vec<String> = bytes
                .iter()
                .take(4)
                .map(|byte| format!("{byte:02x}"))
                .collect();
            format!("begins with {}", first.join(" "))
        }
    }
}
