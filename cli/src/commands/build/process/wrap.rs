//! Wraps a program's core module in a component, the format of everything that the host loads.
//!
//! The component imports nothing and instantiates nothing. It exports the module, and the host
//! instantiates that by itself.

use std::borrow::Cow;

use anyhow::{Context, Result, bail, ensure};
use operetta_api::reasons;
use operetta_wasm::{PROCESS, process::IMPORTS};
use wasm_encoder::{
    Component, ComponentExportKind, ComponentExportSection, ComponentSectionId, RawSection,
};
use wasmparser::{Parser, Payload, Validator, WasmFeatures};

use super::imports;

/// What the host needs of a program.
const EXPORTS: [&str; 2] = ["_start", "memory"];

/// Makes the component. Imports of the same function are merged; otherwise the module stays as it
/// is. The same module always gives the same bytes.
///
/// # Errors
/// Returns an error if the module is not a command of WASI's preview 1, imports what the host
/// doesn't have, or is not valid.
pub fn wrap(module: &[u8]) -> Result<Vec<u8>> {
    check(module)?;
    let module = imports::merge(module)?;

    let mut exports = ComponentExportSection::new();
    exports.export(PROCESS, ComponentExportKind::Module, 0, None);

    let mut component = Component::new();
    component.section(&RawSection {
        id: ComponentSectionId::CoreModule.into(),
        data: &module,
    });
    component.section(&exports);
    let component = component.finish();

    Validator::new_with_features(WasmFeatures::default())
        .validate_all(&component)
        .context("the compiler's module is not valid")?;
    Ok(component)
}

/// Checks the module's imports and exports.
fn check(module: &[u8]) -> Result<()> {
    ensure!(
        Parser::is_core_wasm(module),
        "the compiler's output is not a WebAssembly module"
    );
    let mut exported = Vec::new();

    for payload in Parser::new(0).parse_all(module) {
        match payload.context("the compiler's module is malformed")? {
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    let import = import.context("the module's imports are malformed")?;
                    if !IMPORTS.contains(&import.module) {
                        bail!(reasons::NOT_PORTABLE.error(format!(
                            "the program imports {:?} of {:?}, and the host has only {}: leave out the package with \
                             `//go:wasmimport {} {}`",
                            import.name,
                            import.module,
                            IMPORTS.join(" and "),
                            import.module,
                            import.name
                        )));
                    }
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    exported.push(export.context("the module's exports are malformed")?.name);
                }
            }
            _ => {}
        }
    }

    let missing: Vec<Cow<'_, str>> = EXPORTS
        .iter()
        .filter(|name| !exported.contains(name))
        .map(|name| (*name).into())
        .collect();
    ensure!(
        missing.is_empty(),
        "the program's module does not export {}: is it built with -buildmode=exe, Go's default?",
        missing.join(" and ")
    );

    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command that ends at once.
    const COMMAND: &str = r#"(module
        (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (import "operetta_process" "signals" (func $signals (result i32)))
        (memory (export "memory") 1)
        (func $start (export "_start") (call $exit (call $signals))))"#;

    fn module(part: &str, by: &str) -> Vec<u8> {
        assert!(COMMAND.contains(part), "{part}");
        wat::parse_str(COMMAND.replacen(part, by, 1)).expect("a module")
    }

    fn error(module: &[u8]) -> String {
        format!("{:#}", wrap(module).expect_err("an error"))
    }

    #[test]
    fn component_exports_exactly_the_module_and_instantiates_nothing() {
        let module = module("", "");
        let component = wrap(&module).expect("a component");

        let mut modules = Vec::new();
        let mut exports = Vec::new();
        for payload in Parser::new(0).parse_all(&component) {
            match payload.expect("valid") {
                Payload::ModuleSection {
                    unchecked_range, ..
                } => modules.push(component[unchecked_range].to_vec()),
                Payload::ComponentExportSection(section) => {
                    for export in section {
                        let export = export.expect("valid");
                        exports.push((export.name.name.to_owned(), export.kind, export.index));
                    }
                }
                Payload::ComponentImportSection(_)
                | Payload::InstanceSection(_)
                | Payload::ComponentInstanceSection(_)
                | Payload::ComponentStartSection { .. } => panic!("more than a module"),
                _ => {}
            }
        }

        assert_eq!(modules, [module]);
        assert_eq!(
            exports,
            [(
                "process".to_owned(),
                wasmparser::ComponentExternalKind::Module,
                0
            )]
        );

        let inspection = operetta_wasm::inspect(&component);
        assert_eq!(inspection.error, None);
        assert_eq!(inspection.imports, [""; 0]);
    }

    #[test]
    fn function_that_go_imports_twice_is_imported_once() {
        let twice = r#"(import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))
        (import "operetta_process" "#;
        let component = wrap(&module("(import \"operetta_process\" ", twice)).expect("a component");
        assert_eq!(operetta_wasm::inspect(&component).error, None);
    }

    #[test]
    fn same_module_gives_the_same_component() {
        let module = module("", "");
        assert_eq!(
            wrap(&module).expect("a component"),
            wrap(&module).expect("a component")
        );
    }

    #[test]
    fn foreign_import_and_missing_exports_are_named() {
        let imports = error(&module("operetta_process", "env"));
        assert!(imports.contains("\"signals\" of \"env\""), "{imports}");

        let exports = error(&module("(export \"_start\")", ""));
        assert!(exports.contains("does not export _start"), "{exports}");

        assert!(error(b"\0asm\x0d\0\x01\0").contains("not a WebAssembly module"));
    }

    #[test]
    fn invalid_module_is_refused() {
        let valid = module("", "");
        let error = error(&valid[..valid.len() - 1]);
        assert!(error.contains("malformed"), "{error}");

        // Its call lacks an argument.
        let error = self::error(&module("(call $signals)", ""));
        assert!(error.contains("module is not valid"), "{error}");
    }
}
