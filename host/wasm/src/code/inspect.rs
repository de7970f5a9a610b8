//! Inspects a file without compiling it. This is cheap, and works even for files the host would
//! refuse.

use sha2::{Digest, Sha256};
use wasmparser::{ComponentExternalKind, Encoding, Parser, Payload};

use crate::{
    PROCESS, hex,
    imports::{CONTROLLER, InterfaceName},
    process,
};

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A component. Every plugin is one.
    Component,
    /// A core module, as most compilers emit before `wasm-tools component new`.
    CoreModule,
    /// Another format.
    NotWasm,
}

/// The properties of a file known without compilation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The format.
    pub format: Format,
    /// `sha256:` and the hash of the file's bytes in hex.
    pub digest: String,
    /// The file's size in bytes.
    pub size: usize,
    /// The imports, in order: interfaces for a component, `module.name` for a core module.
    pub imports: Vec<String>,
    /// The exports, in order.
    pub exports: Vec<String>,
    /// True if a component runs as a process instead of being called: it exports a core module as
    /// [`PROCESS`](crate::PROCESS), or it is a command.
    pub is_process: bool,
    /// True if a component is a command of WASI 0.2: it exports `wasi:cli/run`, and neither a process
    /// nor an interface of `operetta:controller`.
    pub is_command: bool,
    /// Why the file does not parse. The imports and exports are then those before the mistake.
    pub error: Option<String>,
}

/// Lists the imports and exports of a file. It checks the structure, not the code.
pub fn inspect(bytes: &[u8]) -> Inspection {
    let mut inspection = Inspection {
        format: format(bytes),
        digest: digest(bytes),
        size: bytes.len(),
        imports: vec![],
        exports: vec![],
        is_process: false,
        is_command: false,
        error: None,
    };

    if inspection.format != Format::NotWasm
        && let Err(error) = read(bytes, &mut inspection)
    {
        inspection.error = Some(error.to_string());
    }

    // Some compilers give every component a main.
    inspection.is_command = inspection.format == Format::Component
        && !inspection.is_process
        && !inspection.exports.iter().any(|name| is_contract(name))
        && inspection.exports.iter().any(|name| process::is_run(name));
    inspection.is_process |= inspection.is_command;
    inspection
}

/// Reports whether a name is an interface of the contract, in whatever version.
fn is_contract(name: &str) -> bool {
    InterfaceName::parse(name).is_some_and(|name| name.package == CONTROLLER)
}

/// Returns the digest of a plugin: `sha256:` and the hash of the bytes in hex.
pub fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

fn format(bytes: &[u8]) -> Format {
    if Parser::is_component(bytes) {
        Format::Component
    } else if Parser::is_core_wasm(bytes) {
        Format::CoreModule
    } else {
        Format::NotWasm
    }
}

fn read(bytes: &[u8], inspection: &mut Inspection) -> wasmparser::Result<()> {
    // How many modules and components the parser is inside of, including the file itself.
    let mut depth = 0_usize;

    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload?;
        match payload {
            Payload::Version { encoding, .. } => {
                depth += 1;
                if depth == 1
                    && (encoding == Encoding::Component) != (inspection.format == Format::Component)
                {
                    break;
                }
            }
            Payload::End(_) => depth = depth.saturating_sub(1),
            _ if depth != 1 => {}
            Payload::ComponentImportSection(section) => {
                for import in section {
                    inspection.imports.push(import?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) => {
                for export in section {
                    let export = export?;
                    let name = export.name.name;
                    inspection.is_process |=
                        name == PROCESS && export.kind == ComponentExternalKind::Module;
                    inspection.exports.push(name.to_owned());
                }
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    let import = import?;
                    inspection
                        .imports
                        .push(format!("{}.{}", import.module, import.name));
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    inspection.exports.push(export?.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok(())
}
