//! Tests of what is loaded as a process, and what is refused.

use operetta_core::ports::LogSink;
use operetta_testkit::wat_guest::Guest as PluginGuest;
use operetta_wasm::{
    LoadError, LoadLimits, Plugin, Process, ProcessConfig, ProcessProgram, check, inspect,
};

use crate::{Guest, Logs, component, engine, network::World};

async fn refusal(bytes: Vec<u8>) -> LoadError {
    let loaded = ProcessProgram::load(engine(), bytes.clone(), &LoadLimits::default()).await;
    loaded.err().expect("refused")
}

fn parse(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[tokio::test]
async fn process_is_recognised_and_checked() {
    let bytes = Guest::default().build();
    assert!(inspect(&bytes).is_process);
    let checked = check(&bytes, &LoadLimits::default()).expect("a process");
    assert_eq!(
        (checked.exports, checked.imports),
        (vec!["process".to_owned()], vec![])
    );
    let program = ProcessProgram::load(engine(), bytes.clone(), &LoadLimits::default()).await;
    let program = program.expect("loads");
    assert_eq!(
        (program.digest(), program.size()),
        (&*checked.digest, bytes.len())
    );
    assert_eq!(program.initial_memory_bytes(), 2 << 16);
}

#[tokio::test]
async fn processes_and_plugins_have_limits_of_their_own() {
    let process = Guest::default().build();
    let plugin = PluginGuest::default().build();
    let limits = |max_wasm_bytes, max_process_bytes| LoadLimits {
        max_wasm_bytes,
        max_process_bytes,
        ..LoadLimits::default()
    };
    let refusal = |bytes: &[u8], limits: &LoadLimits| match check(bytes, limits) {
        Err(LoadError::TooLarge {
            limit_bytes,
            setting,
            ..
        }) => Some((limit_bytes, setting)),
        checked => {
            checked.expect("it is not too large");
            None
        }
    };

    let (small, large) = (process.len(), plugin.len());
    assert_eq!(refusal(&process, &limits(1, small)), None);
    assert_eq!(
        refusal(&process, &limits(1 << 20, small - 1)),
        Some((small - 1, "maxProcessBytes"))
    );
    assert_eq!(refusal(&plugin, &limits(large, 1)), None);
    assert_eq!(
        refusal(&plugin, &limits(large - 1, 1 << 20)),
        Some((large - 1, "maxWasmBytes"))
    );
    // Over both limits, nothing is read.
    assert_eq!(
        refusal(&[0; 11], &limits(9, 10)),
        Some((10, "maxProcessBytes"))
    );

    let error = ProcessProgram::load(engine(), process, &limits(1 << 20, small - 1)).await;
    assert_eq!(
        error.err().map(|error| error.reason()),
        Some(operetta_api::reasons::TOO_LARGE)
    );
}

#[tokio::test]
async fn plugin_and_process_are_not_mistaken_for_each_other() {
    let process = Guest::default().build();
    let logs: std::sync::Arc<dyn LogSink> = std::sync::Arc::new(Logs::default());
    let loaded = Plugin::load(engine(), process, &LoadLimits::default(), logs).await;
    assert!(matches!(loaded.err(), Some(LoadError::NotPlugin)));

    let plugin = PluginGuest::default().build();
    assert!(!inspect(&plugin).is_process);
    match refusal(plugin).await {
        LoadError::NotProcess { exports } => {
            assert!(exports[0].contains("reconciler"), "{exports:?}");
        }
        other => panic!("{other}"),
    }

    let both = r#"(component
        (core module $m (memory (export "memory") 1) (func (export "_start")))
        (component $c (type $t string) (export "t" (type $t)))
        (instance $i (instantiate $c))
        (export "process" (core module $m))
        (export "operetta:controller/reconciler@0.1.0" (instance $i)))"#;
    assert!(matches!(
        check(&parse(both), &LoadLimits::default()),
        Err(LoadError::ProcessAndPlugin)
    ));
    assert!(matches!(
        refusal(parse(both)).await,
        LoadError::ProcessAndPlugin
    ));
}

#[tokio::test]
async fn imports_that_are_not_offered_are_named() {
    let body = r#"(memory (export "memory") 1) (func (export "_start"))"#;
    for (imports, named) in [
        (r#"(import "env" "magic" (func))"#, "env.magic"),
        (
            r#"(import "wasi_snapshot_preview1" "sock_open" (func))"#,
            "wasi_snapshot_preview1.sock_open",
        ),
        (
            r#"(import "operetta_process" "fork" (func))"#,
            "operetta_process.fork",
        ),
        // The name is right, but it is no function.
        (
            r#"(import "wasi_snapshot_preview1" "fd_read" (global i32))"#,
            "wasi_snapshot_preview1.fd_read",
        ),
        (r#"(import "env" "memory" (memory 1))"#, "env.memory"),
    ] {
        let text = format!(
            "{imports} {}",
            if imports.contains("memory\" (") {
                r#"(export "memory" (memory 0)) (func (export "_start"))"#
            } else {
                body
            }
        );
        let bytes = component(&text);
        for error in [
            check(&bytes, &LoadLimits::default()).expect_err(named),
            refusal(bytes).await,
        ] {
            let LoadError::MissingFunction { missing } = &error else {
                panic!("{error}");
            };
            assert_eq!(missing[..], [named]);
            let message = error.to_string();
            assert!(
                message.contains(named) && message.contains("dial"),
                "{message}"
            );
        }
    }
}

/// As Go imports functions, and whoever wraps its modules renames them.
#[tokio::test]
async fn function_may_be_imported_again_under_a_numbered_name() {
    let module = r#"
        (import "wasi_snapshot_preview1" "sched_yield" (func (result i32)))
        (import "wasi_snapshot_preview1" "sched_yield [v2]" (func $again (result i32)))
        (import "wasi_snapshot_preview1" "proc_exit [v3]" (func $exit (param i32)))
        (memory (export "memory") 1)
        (func (export "_start") (call $exit (i32.add (i32.const 5) (call $again))))"#;
    let program = ProcessProgram::load(engine(), component(module), &LoadLimits::default()).await;
    let program = std::sync::Arc::new(program.expect("loads"));
    let (_, running) = Process::start(
        &program,
        ProcessConfig::default(),
        std::sync::Arc::new(World),
        std::sync::Arc::new(Logs::default()),
    );
    assert_eq!(running.await.code, 5);
}

#[tokio::test]
async fn import_with_another_signature_is_refused() {
    let module = r#"(import "wasi_snapshot_preview1" "fd_read" (func (param i64) (result i32)))
        (memory (export "memory") 1) (func (export "_start"))"#;
    match refusal(component(module)).await {
        LoadError::IncompatibleImport(why) => assert!(why.contains("fd_read"), "{why}"),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn module_that_is_no_command_is_refused() {
    for (module, why) in [
        (r#"(func (export "_start"))"#, "memory \"memory\""),
        (
            r#"(global (export "memory") i32 (i32.const 0)) (func (export "_start"))"#,
            "memory \"memory\"",
        ),
        (r#"(memory (export "memory") 1)"#, "function \"_start\""),
        (
            r#"(memory (export "memory") 1) (func (export "_start") (param i32))"#,
            "parameters or results",
        ),
        (
            r#"(memory (export "memory") 1) (func (export "_start") (result i32) i32.const 0)"#,
            "parameters or results",
        ),
        (
            r#"(memory (export "memory") i64 1) (func (export "_start"))"#,
            "64-bit",
        ),
    ] {
        match refusal(component(module)).await {
            LoadError::InvalidProcess(message) => assert!(message.contains(why), "{message}"),
            other => panic!("{module}: {other}"),
        }
    }
}

#[tokio::test]
async fn table_over_the_limit_is_refused() {
    let table = |elements: u32| {
        let table = format!("(table {elements} funcref)");
        component(&format!(
            r#"(memory (export "memory") 1) (func (export "_start")) {table}"#
        ))
    };
    let large = ProcessProgram::load(engine(), table(262_144), &LoadLimits::default()).await;
    assert!(large.is_ok(), "operators have large tables");
    let error = refusal(table(270_000)).await.to_string();
    assert!(
        error.contains("270000") && error.contains("262144"),
        "{error}"
    );
}

#[tokio::test]
async fn component_that_does_more_is_refused() {
    let module = r#"(core module $m (memory (export "memory") 1) (func (export "_start")))"#;
    let export = r#"(export "process" (core module $m))"#;
    for (fields, why) in [
        (format!("{module} (core module $n) {export}"), "exactly one"),
        (
            format!("{module} (core instance (instantiate $m)) {export}"),
            "instantiate nothing",
        ),
        (format!("{module} (component) {export}"), "exactly one"),
        (
            format!(r#"(import "f" (func)) {module} {export}"#),
            "has imports",
        ),
        (
            format!(r#"{module} {export} (export "again" (core module $m))"#),
            "other exports",
        ),
        (
            r#"(import "m" (core module $m)) (export "process" (core module $m))"#.to_owned(),
            "has imports",
        ),
    ] {
        match refusal(parse(&format!("(component {fields})"))).await {
            LoadError::InvalidProcess(message) => assert!(message.contains(why), "{message}"),
            other => panic!("{fields}: {other}"),
        }
    }

    let module =
        wat::parse_str(r#"(module (memory (export "memory") 1) (func (export "_start")))"#);
    let module = module.expect("text");
    assert!(matches!(refusal(module).await, LoadError::CoreModule));

    let truncated = Guest::default().build();
    let truncated = truncated[..truncated.len() / 2].to_vec();
    assert!(matches!(
        refusal(truncated).await,
        LoadError::InvalidComponent(_)
    ));
}

#[tokio::test]
async fn function_named_process_is_no_process() {
    let text = r#"(component
        (core module $m (func (export "f")))
        (core instance $i (instantiate $m))
        (func $f (canon lift (core func $i "f")))
        (export "process" (func $f)))"#;
    assert!(!inspect(&parse(text)).is_process);
    assert!(matches!(
        refusal(parse(text)).await,
        LoadError::NotProcess { .. }
    ));
    assert!(matches!(
        check(&parse(text), &LoadLimits::default()),
        Err(LoadError::MissingExport { .. })
    ));
}
