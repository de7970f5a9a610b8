//! Checks the imports and exports of a core module against the contract, before a component is made
//! from it.

use anyhow::{Context, Result, bail, ensure};
use wasmparser::{Parser, Payload};
use wit_parser::{Resolve, WorldId, WorldItem};

/// The module of WASI's preview 1, which the adapter implements.
const WASI: &str = "wasi_snapshot_preview1";

/// The prefix of the component model's newer core names (`cm32p2|…`). The encoder checks those
/// itself.
const STANDARD_NAMES: &str = "cm32p2";

/// The exports of every plugin, with a description of each.
pub const REQUIRED: [(&str, &str); 4] = [
    (
        "memory",
        "the linear memory; linkers export it unless they import it (`--import-memory`)",
    ),
    (
        "cabi_realloc",
        "a function (old pointer, old size, alignment, new size: i32) -> i32 that returns memory for the host's \
         arguments",
    ),
    (
        "operetta:controller/reconciler@0.1.0#describe",
        "a function () -> i32 that returns the address of the manifest's address and length",
    ),
    (
        "operetta:controller/reconciler@0.1.0#reconcile",
        "a function with ten i32 parameters, the fields of `request` in their order, that returns the address of the \
         result as an i32",
    ),
];

/// The export of a plugin that maps events to keys.
pub const MAP_EVENT: &str = "operetta:controller/mapper@0.1.0#map-event";

/// The imports and exports of a core module.
pub struct CoreModule<'a> {
    /// Pairs of a module and a name.
    imports: Vec<(&'a str, &'a str)>,
    exports: Vec<&'a str>,
    /// True if the toolchain has embedded a world, as wit-bindgen's C generator does.
    pub has_world: bool,
}

impl<'a> CoreModule<'a> {
    /// Reads a module.
    ///
    /// # Errors
    /// Returns an error if the bytes are a component, no WebAssembly, or malformed.
    pub fn read(bytes: &'a [u8]) -> Result<Self> {
        ensure!(
            !Parser::is_component(bytes),
            "it is a component already: check it with `operetta check`"
        );

        if !Parser::is_core_wasm(bytes) {
            let text = bytes.trim_ascii_start().starts_with(b"(");
            let hint = if text {
                "; translate WebAssembly text with `wasm-tools parse` first"
            } else {
                ""
            };
            bail!("it is not a WebAssembly module: it does not begin with \"\\0asm\"{hint}");
        }

        let mut module = Self {
            imports: Vec::new(),
            exports: Vec::new(),
            has_world: false,
        };

        for payload in Parser::new(0).parse_all(bytes) {
            match payload.context("the module is malformed")? {
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        let import = import.context("the module's imports are malformed")?;
                        module.imports.push((import.module, import.name));
                    }
                }
                Payload::ExportSection(section) => {
                    for export in section {
                        module
                            .exports
                            .push(export.context("the module's exports are malformed")?.name);
                    }
                }
                Payload::CustomSection(section) => {
                    module.has_world |= section.name().starts_with("component-type");
                }
                _ => {}
            }
        }

        Ok(module)
    }

    /// Reports whether the module exports a function that maps events.
    pub fn maps_events(&self) -> bool {
        self.exports.contains(&MAP_EVENT)
    }

    /// Checks that the module has a plugin's exports, and imports only what the host provides.
    ///
    /// # Errors
    /// Returns an error that names the missing exports or the first import that is not the world's.
    pub fn check(&self, resolve: &Resolve, world: WorldId) -> Result<()> {
        if self
            .exports
            .iter()
            .any(|name| name.starts_with(STANDARD_NAMES))
        {
            return Ok(());
        }

        let missing: Vec<_> = REQUIRED
            .iter()
            .filter(|(name, _)| !self.exports.contains(name))
            .collect();
        if !missing.is_empty() {
            let lines: Vec<_> = missing
                .iter()
                .map(|(name, fix)| format!("{name:?} ({fix})"))
                .collect();
            bail!("the module does not export {}", lines.join(", "));
        }

        for (module, name) in &self.imports {
            // The toolchain's own world may have interfaces of WASI, which the host provides.
            let of_its_world = self.has_world && module.contains(':');
            if *module != WASI && !of_its_world {
                check_import(module, name, resolve, world)?;
            }
        }

        Ok(())
    }
}

fn check_import(module: &str, name: &str, resolve: &Resolve, world: WorldId) -> Result<()> {
    let interfaces = interfaces(resolve, world);
    let Some((_, functions)) = interfaces.iter().find(|(interface, _)| interface == module) else {
        let known: Vec<_> = interfaces
            .iter()
            .map(|(interface, _)| interface.as_str())
            .collect();
        bail!(
            "the module imports {module:?} {name:?}, which is not part of the contract: link that function in, or declare \
             the import with one of the modules {}, {WASI}",
            known.join(", ")
        );
    };

    ensure!(
        functions.contains(&name),
        "the module imports {name:?} of {module}, which has no such function; it has {}",
        functions.join(", ")
    );

    Ok(())
}

/// Returns the interfaces that a world imports, with their functions.
fn interfaces(resolve: &Resolve, world: WorldId) -> Vec<(String, Vec<&str>)> {
    let imports = resolve.worlds[world].imports.values();
    let ids = imports.filter_map(|item| {
        if let WorldItem::Interface { id, .. } = item {
            Some(*id)
        } else {
            None
        }
    });

    let with_functions = ids.filter_map(|id| {
        let functions: Vec<_> = resolve.interfaces[id]
            .functions
            .keys()
            .map(String::as_str)
            .collect();
        Some((resolve.id_of(id)?, functions))
    });

    with_functions
        .filter(|(_, functions)| !functions.is_empty())
        .collect()
}
