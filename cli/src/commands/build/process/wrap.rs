//! Wraps a program's core module in a component, the format of everything that the host loads.
//!
//! The component imports nothing and instantiates nothing. It exports the module, and the host
//! instantiates that by itself. Whether the host has what the module imports is for its own check
//! to say, which the build calls at the end.

use anyhow::{Context, Result, ensure};
use operetta_wasm::PROCESS;
use wasm_encoder::{
    Component, ComponentExportKind, ComponentExportSection, ComponentSectionId, RawSection,
};
use wasmparser::{Parser, Validator, WasmFeatures};

use super::imports;

/// Makes the component. Imports of the same function are merged; otherwise the module stays as it
/// is. The same module always gives the same bytes.
///
/// # Errors
/// Returns an error if this is no module, or it is not valid.
pub fn wrap(module: &[u8]) -> Result<Vec<u8>> {
    ensure!(
        Parser::is_core_wasm(module),
        "the compiler's output is not a WebAssembly module"
    );
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

#[cfg(test)]
mod tests {
    use wasmparser::Payload;

    use super::*;
    use crate::commands::check::without_compiling;

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

        without_compiling(&component).expect("the host takes it");
    }

    #[test]
    fn function_that_go_imports_twice_is_imported_once() {
        let twice = r#"(import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))
        (import "operetta_process" "#;
        let component = wrap(&module("(import \"operetta_process\" ", twice)).expect("a component");
        without_compiling(&component).expect("the host takes it");
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
    fn host_names_what_it_lacks_in_the_component() {
        let refused = |part: &str, by: &str| {
            let component = wrap(&module(part, by)).expect("a component");
            format!("{:#}", without_compiling(&component).expect_err(by))
        };
        for (part, by, expected) in [
            ("operetta_process", "env", "env.signals"),
            // The module is the host's, the function isn't.
            ("\"signals\"", "\"fork\"", "operetta_process.fork"),
            ("proc_exit", "sock_open", "wasi_snapshot_preview1.sock_open"),
        ] {
            let said = refused(part, by);
            assert!(
                said.contains("the host would refuse it") && said.contains(expected),
                "{said}"
            );
        }
        let said = refused("(export \"_start\")", "");
        assert!(
            said.contains("does not export a function \"_start\""),
            "{said}"
        );

        assert!(error(b"\0asm\x0d\0\x01\0").contains("not a WebAssembly module"));
    }

    #[test]
    fn invalid_module_is_refused() {
        let valid = module("", "");
        let error = error(&valid[..valid.len() - 1]);
        assert!(error.contains("module is not valid"), "{error}");

        // Its call lacks an argument.
        let error = self::error(&module("(call $signals)", ""));
        assert!(error.contains("module is not valid"), "{error}");
    }
}
