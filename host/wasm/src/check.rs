//! Checks of a component before it is compiled.

use crate::{
    CONTRACT_VERSION, Format, Inspection, LoadError,
    code::{compile_cost, inspect},
    cut,
    imports::{self, InterfaceName, SOURCE},
    load_error::MAX_MESSAGE,
    program::Program,
};

const PACKAGE: &str = "operetta:controller";

/// Checks the structure of a file of at most `max_bytes`, as [`crate::Plugin::load`] does before
/// compilation. A file passes if it exports a reconciler and imports only interfaces of this host.
/// Its code is not validated.
///
/// # Errors
/// Returns a [`LoadError`] for the first mistake.
pub fn check(bytes: &[u8], max_bytes: usize) -> Result<Inspection, LoadError> {
    if Program::read(bytes).is_some() {
        return Err(LoadError::DevelopmentBuild);
    }
    check_imports(bytes, max_bytes, Offered::Contract)
}

/// The imports allowed for a component.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offered {
    /// The interfaces offered to every plugin.
    Contract,
    /// The same, and the source of interpreters.
    WithSource,
}

/// Checks a file like [`check`], with these imports.
pub(crate) fn check_imports(
    bytes: &[u8],
    max_bytes: usize,
    offered: Offered,
) -> Result<Inspection, LoadError> {
    let is_offered =
        |name: &str| imports::is_offered(name) || offered == Offered::WithSource && name == SOURCE;

    if bytes.len() > max_bytes {
        return Err(LoadError::TooLarge {
            bytes: bytes.len(),
            limit_bytes: max_bytes,
        });
    }

    let inspection = inspect(bytes);
    match inspection.format {
        Format::Component => {}
        Format::CoreModule => return Err(LoadError::CoreModule),
        Format::NotWasm => {
            return Err(LoadError::NotWasm {
                found: first_bytes(bytes),
            });
        }
    }

    if let Some(error) = inspection.error {
        return Err(LoadError::InvalidComponent(cut(error, MAX_MESSAGE)));
    }

    let Inspection {
        imports, exports, ..
    } = &inspection;

    if !exports
        .iter()
        .any(|name| is_contract(name, Some("reconciler")))
    {
        let other_version = exports.iter().find(|name| {
            InterfaceName::parse(name)
                .is_some_and(|name| name.package == PACKAGE && name.interface == "reconciler")
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
        InterfaceName::parse(name).is_some_and(|parsed| parsed.package == PACKAGE)
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

    compile_cost::check(bytes)
        .map_err(|error| LoadError::CompileFailed(cut(error.to_string(), MAX_MESSAGE)))?;
    Ok(inspection)
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
        name.package == PACKAGE
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
