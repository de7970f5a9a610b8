//! Makes a component of the contract's world `plugin` or `mapping-plugin` from a core module.
//!
//! A module that imports WASI's preview 1 gets the adapter to preview 2.

use std::borrow::Cow;

use anyhow::{Context, Result};
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME as ADAPTER_NAME,
    WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER as ADAPTER,
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use super::core_module::CoreModule;

const CONTRACT: &str = include_str!("../../../../wit/controller.wit");

/// The name under which a component of [`Start::Exported`] exports its initialisation function.
pub const INITIALIZE: &str = "initialize";

/// When the module's initialisation function runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At the start of each new instance.
    Instantiation,
    /// When the component's export [`INITIALIZE`] is called.
    Exported,
}

/// Makes the component. Where the module has no world embedded, it gets `mapping-plugin` if it
/// exports `map-event`, else `plugin`.
///
/// # Errors
/// Returns an error if the bytes are not a core module, or if its exports or imports are not the
/// contract's.
pub fn encode(bytes: &[u8], start: Start) -> Result<Vec<u8>> {
    let module = CoreModule::read(bytes)?;
    let world = if module.maps_events() {
        "mapping-plugin"
    } else {
        "plugin"
    };

    let mut resolve = Resolve::default();
    let mut package = resolve
        .push_str("controller.wit", CONTRACT)
        .context("failed to parse the contract")?;

    if start == Start::Exported {
        let text = format!(
            "package operetta:build; \
             world {world} {{ include operetta:controller/{world}@0.1.0; export {INITIALIZE}: func(); }}"
        );
        package = resolve
            .push_str("build.wit", &text)
            .context("failed to parse the build's world")?;
    }

    let id = resolve
        .select_world(&[package], Some(world))
        .with_context(|| format!("no world {world}"))?;
    module.check(&resolve, id)?;

    let mut bytes = Cow::Borrowed(bytes);
    if !module.has_world {
        embed_component_metadata(bytes.to_mut(), &resolve, id, StringEncoding::UTF8)
            .context("failed to embed the world")?;
    }

    let encoder = ComponentEncoder::default()
        .module(&bytes)
        .and_then(|encoder| encoder.adapter(ADAPTER_NAME, ADAPTER));
    let encoder = encoder.context("failed to read the module as one of the contract's world")?;
    { encoder.validate(true) }
        .encode()
        .context("the module is not a plugin: its imports or exports differ from the contract")
}

#[cfg(test)]
pub mod tests {
    use super::{super::core_module::REQUIRED, *};

    /// A module of the world, without code.
    pub const MODULE: &str = r#"(module
        (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 64)
        (func (export "operetta:controller/reconciler@0.1.0#describe") (result i32) i32.const 8)
        (func (export "operetta:controller/reconciler@0.1.0#reconcile")
            (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32) i32.const 16))"#;

    /// Returns the module with a part of its text replaced.
    fn module(part: &str, by: &str) -> Vec<u8> {
        assert!(MODULE.contains(part), "{part}");
        wat::parse_str(MODULE.replacen(part, by, 1)).expect("a module")
    }

    fn error(bytes: &[u8]) -> String {
        format!(
            "{:#}",
            encode(bytes, Start::Instantiation).expect_err("an error")
        )
    }

    /// Returns the sorted exports.
    fn exports(component: &[u8]) -> Vec<String> {
        let mut inspection = operetta_wasm::inspect(component);
        assert_eq!(inspection.error, None);
        inspection.exports.sort();
        inspection.exports
    }

    #[test]
    fn module_of_the_contract_becomes_component() {
        let component = encode(&module("", ""), Start::Instantiation).expect("a component");
        assert_eq!(
            exports(&component),
            ["operetta:controller/reconciler@0.1.0"]
        );
    }

    #[test]
    fn example_manifest_of_the_contract_is_valid() {
        let lines = CONTRACT
            .lines()
            .map(str::trim)
            .skip_while(|line| *line != "/// ```json")
            .skip(1);
        let text: String = lines
            .map_while(|line| line.strip_prefix("/// ").filter(|line| *line != "```"))
            .collect();

        let manifest: operetta_core::manifest::Manifest =
            serde_json::from_str(&text).expect("the manifest");
        assert_eq!(
            crate::commands::check::summary(&manifest),
            "controller greeting for Greeting.example.com/v1"
        );
    }

    #[test]
    fn module_with_map_event_gets_world_of_mappers() {
        let mapper = "(module (func (export \"operetta:controller/mapper@0.1.0#map-event\") \
            (param i32) (result i32) i32.const 32)";
        let component =
            encode(&module("(module", mapper), Start::Instantiation).expect("a component");
        assert_eq!(
            exports(&component),
            [
                "operetta:controller/mapper@0.1.0",
                "operetta:controller/reconciler@0.1.0"
            ]
        );
    }

    #[test]
    fn embedded_world_is_kept() {
        let mut resolve = Resolve::default();
        let text = "package my:plugin; interface extra { f: func(); } \
            world plugin { include operetta:controller/plugin@0.1.0; export extra; }";
        resolve
            .push_str("controller.wit", CONTRACT)
            .expect("the contract");

        let package = resolve.push_str("plugin.wit", text).expect("a world");
        let world = resolve.select_world(&[package], None).expect("the world");

        let mut module = module("(module", "(module (func (export \"my:plugin/extra#f\"))");
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
            .expect("embedded");

        let component = encode(&module, Start::Instantiation).expect("a component");
        assert_eq!(
            exports(&component),
            ["my:plugin/extra", "operetta:controller/reconciler@0.1.0"]
        );
    }

    #[test]
    fn import_of_wasi_preview_1_gets_the_adapter() {
        let import = "(module (import \"wasi_snapshot_preview1\" \"proc_exit\" (func (param i32)))";
        let component =
            encode(&module("(module", import), Start::Instantiation).expect("a component");
        let imports = operetta_wasm::inspect(&component).imports;
        assert!(
            imports
                .iter()
                .any(|import| import.starts_with("wasi:cli/exit@0.2.")),
            "{imports:?}"
        );
    }

    #[test]
    fn rejects_bytes_that_are_no_module() {
        assert_eq!(
            error(b"hello"),
            "it is not a WebAssembly module: it does not begin with \"\\0asm\""
        );
        assert!(
            error(b"\n(module)")
                .ends_with("translate WebAssembly text with `wasm-tools parse` first")
        );
        assert!(error(b"\0asm\x01\0\0\0\x02\x05\x01").starts_with("the module is malformed: "));
    }

    #[test]
    fn rejects_component() {
        let component = encode(&module("", ""), Start::Instantiation).expect("a component");
        assert_eq!(
            error(&component),
            "it is a component already: check it with `operetta check`"
        );
    }

    #[test]
    fn names_missing_export_and_its_fix() {
        let names = [
            ("memory", "the linear memory; "),
            ("cabi_realloc", "a function (old pointer"),
            (
                "operetta:controller/reconciler@0.1.0#describe",
                "a function () -> i32",
            ),
            (
                "operetta:controller/reconciler@0.1.0#reconcile",
                "a function with ten i32 parameters",
            ),
        ];
        for (name, fix) in names {
            let error = error(&module(&format!("\"{name}\""), "\"other\""));
            assert!(
                error.starts_with(&format!("the module does not export {name:?} ({fix}")),
                "{error}"
            );
        }
    }

    #[test]
    fn names_all_missing_exports_at_once() {
        let error = error(&wat::parse_str("(module)").expect("a module"));
        for (name, _) in REQUIRED {
            assert!(error.contains(&format!("{name:?} (")), "{error}");
        }
    }

    #[test]
    fn names_import_that_is_not_of_the_contract() {
        let import =
            |module: &str, name: &str| format!("(module (import \"{module}\" \"{name}\" (func))");
        let error = |module_: &str, name: &str| error(&module("(module", &import(module_, name)));
        let text = error("env", "puts");
        assert!(
            text.starts_with(
                "the module imports \"env\" \"puts\", which is not part of the contract: "
            ),
            "{text}"
        );
        assert!(
            text.contains("operetta:controller/objects@0.1.0, "),
            "{text}"
        );
        let text = error("operetta:controller/config@0.1.0", "set");
        assert_eq!(
            text,
            "the module imports \"set\" of operetta:controller/config@0.1.0, which has no such function; it has get"
        );
        assert!(
            error("operetta:controller/objects@9.0.0", "get").contains("not part of the contract")
        );
    }

    #[test]
    fn names_function_of_wrong_type() {
        let error = error(&module(
            "(result i32) i32.const 8)",
            "(result i64) i64.const 8)",
        ));
        assert!(
            error.contains("describe") && error.contains("I64"),
            "{error}"
        );
    }
}
