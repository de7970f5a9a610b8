//! Tests of components that do not load, and of the errors that their authors get.

use std::{sync::Arc, time::Duration};

use operetta_core::{
    controller::request::Action,
    ports::{LogLevel, Reconciler},
};
use operetta_testkit::wat_guest::{Guest, MANIFEST, component};
use operetta_wasm::{
    Allocation, CallLimits, Engine, EngineConfig, Format, LoadError, LoadLimits, Plugin,
    PluginReconciler, inspect, offered,
};

use crate::{
    engine,
    ports::{Ports, request},
};

async fn load_error(bytes: Vec<u8>) -> LoadError {
    let limits = LoadLimits {
        timeout: Duration::from_millis(200),
        memory_bytes: 16 << 20,
        ..LoadLimits::default()
    };
    match Plugin::load(engine(), bytes, &limits, Arc::new(Ports::default())).await {
        Ok(plugin) => panic!("{} loaded", plugin.digest()),
        Err(error) => error,
    }
}

/// Loads the component and expects an error with this reason and these parts in its message.
async fn expect(bytes: Vec<u8>, reason: &str, parts: &[&str]) {
    let error = load_error(bytes).await;
    let message = error.to_string();
    assert_eq!(error.reason(), reason, "{message}");
    for part in parts {
        assert!(message.contains(part), "{part:?} is missing in: {message}");
    }
}

fn wat(text: &str) -> Vec<u8> {
    wat::parse_str(text).expect("text")
}

#[tokio::test]
async fn names_the_format_of_non_wasm_bytes() {
    expect(vec![], "NotWasm", &["is empty"]).await;
    expect(b"hello".to_vec(), "NotWasm", &["68 65 6c 6c"]).await;
    expect(
        b"(component)".to_vec(),
        "NotWasm",
        &["text", "wasm-tools parse"],
    )
    .await;
    expect(b"\x1f\x8b\x08\0".to_vec(), "NotWasm", &["gzip"]).await;
    expect(b"\x28\xb5\x2f\xfd\0".to_vec(), "NotWasm", &["zstd"]).await;
    expect(b"\x7fELF\x02".to_vec(), "NotWasm", &["precompiled"]).await;
    expect(
        b"\0asm\x09\0\0\0".to_vec(),
        "NotWasm",
        &["unknown WebAssembly version"],
    )
    .await;
}

#[tokio::test]
async fn core_module_error_explains_conversion_to_component() {
    expect(
        wat("(module)"),
        "CoreModule",
        &["wasm32-wasip2", "wasm-tools component new"],
    )
    .await;
}

#[tokio::test]
async fn truncated_component_is_refused() {
    let whole = Guest::default().build();
    for position in (0..whole.len()).step_by(97) {
        let error = load_error(whole[..position].to_vec()).await;
        assert!(
            [
                "NotWasm",
                "InvalidComponent",
                "MissingExport",
                "CompileFailed"
            ]
            .contains(&error.reason().as_str()),
            "{position}: {error}"
        );
    }
}

#[tokio::test]
async fn flipped_component_byte_never_crashes_host() {
    let whole = Guest::default().build();
    let limits = LoadLimits {
        timeout: Duration::from_secs(1),
        ..LoadLimits::default()
    };
    for position in (8..whole.len()).step_by(61) {
        let mut bytes = whole.clone();
        bytes[position] ^= 0xff;
        let _ignored = Plugin::load(engine(), bytes, &limits, Arc::new(Ports::default())).await;
    }
}

#[tokio::test]
async fn non_plugin_component_lists_its_exports() {
    expect(
        wat("(component)"),
        "MissingExport",
        &["operetta:controller/reconciler@0.1.0", "it exports nothing"],
    )
    .await;
    let greet = wat(r#"(module (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) unreachable)
        (func (export "greet") (result i32) i32.const 0))"#);
    expect(
        component("command", &greet),
        "MissingExport",
        &["it exports greet"],
    )
    .await;
}

#[tokio::test]
async fn other_contract_names_the_hosts_version() {
    let later = wat(r#"(module (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) unreachable)
        (func (export "operetta:controller/reconciler@0.2.0#describe") (result i32) i32.const 0))"#);
    let parts = [
        "operetta:controller/reconciler@0.2.0",
        "supports operetta:controller@0.1.0",
    ];
    expect(component("later", &later), "UnsupportedVersion", &parts).await;
    let import = r#"(component (import "operetta:controller/objects@0.7.0" (instance))
        (instance $r) (export "operetta:controller/reconciler@0.1.0" (instance $r)))"#;
    expect(
        wat(import),
        "UnsupportedVersion",
        &["operetta:controller/objects@0.7.0"],
    )
    .await;
}

#[tokio::test]
async fn unknown_imports_are_listed_with_offered_interfaces() {
    let guest = Guest::default().reconcile("(call $charge) (call $lone) i32.const 16");
    let parts = [
        "acme:billing/charge@1.2.3",
        "lone",
        "provided: operetta:controller@0.1",
        "wasi:cli@0.2 (environment",
    ];
    expect(guest.build(), "MissingImport", &parts).await;
    assert!(offered().contains(&"operetta:controller/objects@0.1".to_owned()));
}

#[tokio::test]
async fn incompatible_interfaces_are_named_with_function() {
    let import = r#"(component (import "operetta:controller/config@0.1.0" (instance (export "set" (func))))
        (instance $r) (export "operetta:controller/reconciler@0.1.0" (instance $r)))"#;
    expect(
        wat(import),
        "IncompatibleImport",
        &["operetta:controller/config@0.1.0", "set"],
    )
    .await;
    let export = r#"(component (instance $r) (export "operetta:controller/reconciler@0.1.0" (instance $r)))"#;
    expect(wat(export), "IncompatibleExport", &["describe"]).await;
}

/// A component with the types that `raw` and `outcome` had when interface `warnings` was added. A field
/// more in a record would refuse every plugin that was compiled before.
#[tokio::test]
async fn accepts_imports_compiled_before_warnings() {
    let component = r#"(component
        (import "operetta:controller/raw@0.1.0" (instance
            (type $request' (record (field "method" string) (field "path" string) (field "query" string)
                (field "content-type" (option string)) (field "accept" (option string))
                (field "body" (option string)) (field "cached" bool)))
            (export "request" (type $request (eq $request')))
            (type $response' (record (field "status" u16) (field "content-type" string)
                (field "retry-after-seconds" (option u32)) (field "body" string)))
            (export "response" (type $response (eq $response')))
            (export "send" (func (param "request" $request) (result $response)))))
        (import "operetta:controller/outcome@0.1.0" (instance
            (export "fail" (func (param "message" string)))))
        (instance $r) (export "operetta:controller/reconciler@0.1.0" (instance $r)))"#;
    // Imports are checked before exports.
    expect(wat(component), "IncompatibleExport", &["describe"]).await;

    let with_field = component.replace(
        r#"(field "body" string)"#,
        r#"(field "body" string) (field "warnings" (list string))"#,
    );
    expect(
        wat(&with_field),
        "IncompatibleImport",
        &["operetta:controller/raw@0.1.0"],
    )
    .await;
}

#[tokio::test]
async fn rejects_oversized_component_unread() {
    let limits = LoadLimits {
        max_wasm_bytes: 1000,
        max_process_bytes: 1000,
        ..LoadLimits::default()
    };
    let loaded = Plugin::load(engine(), vec![0; 1001], &limits, Arc::new(Ports::default())).await;
    let error = loaded.err().expect("too large");
    assert_eq!(error.reason(), "TooLarge");
    assert!(
        error
            .to_string()
            .contains("1001 bytes, over the limit of 1000"),
        "{error}"
    );
}

#[tokio::test]
async fn invalid_manifest_error_names_location() {
    expect(
        Guest::default().manifest("hello").build(),
        "InvalidManifest",
        &["expected value"],
    )
    .await;
    let unknown = MANIFEST.replace("\"for\"", "\"of\"");
    expect(
        Guest::default().manifest(&unknown).build(),
        "InvalidManifest",
        &["controllers[0].of", "unknown field"],
    )
    .await;
    let huge = Guest::default()
        .describe("(i32.store (i32.const 12) (i32.const 0x200000)) (drop (memory.grow (i32.const 40))) i32.const 8");
    expect(huge.build(), "DescribeTrapped", &[]).await;
}

#[tokio::test]
async fn describe_can_log_but_not_reach_the_api_server() {
    let ports = Arc::new(Ports::default());
    let guest = Guest::default().text("describing").describe(
        "(call $get (i32.const 64) (i32.const 2) (i32.const 66) (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 0)
           (i32.const 64) (i32.const 2) (i32.const 0) (i32.const 256))
         (if (i32.ne (i32.load8_u (i32.const 260)) (i32.const 5)) (then unreachable))
         (call $log (i32.const 2) (global.get $text) (global.get $text_len) (i32.const 0) (i32.const 0))
         i32.const 8",
    );
    let plugin = Plugin::load(
        engine(),
        guest.build(),
        &LoadLimits::default(),
        ports.clone(),
    )
    .await
    .expect("loads");
    assert_eq!(plugin.manifest().controllers[0].name, "c");
    assert_eq!(ports.lines(), [(LogLevel::Info, "describing".to_owned())]);
    assert!(ports.operations.lock().is_empty());
}

#[tokio::test]
async fn loaded_plugin_reports_imports_exports_size_digest() {
    let bytes = Guest::default()
        .reconcile("(call $config (i32.const 256)) i32.const 16")
        .build();
    let plugin = Plugin::load(
        engine(),
        bytes.clone(),
        &LoadLimits::default(),
        Arc::new(Ports::default()),
    )
    .await;
    let plugin = plugin.expect("loads");
    assert!(
        plugin
            .imports()
            .contains(&"operetta:controller/config@0.1.0".to_owned()),
        "{:?}",
        plugin.imports()
    );
    assert!(
        plugin
            .exports()
            .contains(&"operetta:controller/reconciler@0.1.0".to_owned())
    );
    assert_eq!(
        (plugin.size(), plugin.digest().len()),
        (bytes.len(), "sha256:".len() + 64)
    );
    assert_eq!(plugin.digest(), inspect(&bytes).digest);
}

#[test]
fn inspects_files_that_do_not_load() {
    let module = inspect(&wat(
        r#"(module (import "env" "f" (func)) (func (export "g")))"#,
    ));
    assert_eq!((module.format, module.error), (Format::CoreModule, None));
    assert_eq!(
        (module.imports, module.exports),
        (vec!["env.f".to_owned()], vec!["g".to_owned()])
    );
    let nested = inspect(&wat(
        r#"(component (import "a:b/c@1.0.0" (instance)) (core module (func (export "inner"))))"#,
    ));
    assert_eq!(
        (nested.imports, nested.exports),
        (vec!["a:b/c@1.0.0".to_owned()], vec![])
    );
    let text = inspect(b"hello");
    assert_eq!(text.format, Format::NotWasm);
    assert_eq!(
        text.digest,
        "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    );
    let torn = inspect(&Guest::default().build()[..200]);
    assert!(torn.error.is_some());
}

#[tokio::test]
async fn small_machine_runs_with_smaller_pool() {
    // A million slots of 4 GiB fit into no address space; thousands do.
    let many = EngineConfig {
        concurrent_calls: 1_000_000,
        ..EngineConfig::default()
    };
    // Not even a few slots of 64 TiB do.
    let large = EngineConfig {
        max_memory_bytes: 64 << 40,
        ..EngineConfig::default()
    };
    for (config, pooled) in [(many, true), (large, false)] {
        assert!(
            Engine::new(&EngineConfig {
                allocation: Allocation::Pooling,
                ..config.clone()
            })
            .is_err()
        );
        let engine = Engine::new(&config).expect("an engine");
        assert_eq!(engine.is_pooled(), pooled);
        assert!(
            engine
                .pool_slots()
                .is_none_or(|slots| (16..1_000_000).contains(&slots)),
            "{:?}",
            engine.pool_slots()
        );
        let ports = Arc::new(Ports::default());
        let loaded = Plugin::load(
            &engine,
            Guest::default().build(),
            &LoadLimits::default(),
            ports.clone(),
        )
        .await;
        let plugin = Arc::new(loaded.expect("loads"));
        let reconciler = PluginReconciler::new(plugin, ports.gate(), CallLimits::default());
        assert_eq!(reconciler.reconcile(&request("a")).await, Ok(Action::Done));
    }
}
