//! Tests of programs that an interpreter runs: only an engine for development has the import, and
//! the source is the only difference between two plugins of one interpreter.

use std::{fs, sync::Arc, time::Duration};

use operetta_core::{controller::request::Failure, ports::Reconciler};
use operetta_testkit::wat_guest::{Guest, MANIFEST};
use operetta_wasm::{
    Allocation, CallLimits, Engine, EngineConfig, LoadError, LoadLimits, Origin, Plugin,
    PluginReconciler, Program, check,
};
use tempfile::TempDir;

use crate::{
    engine,
    ports::{Ports, request},
};

/// An interpreter whose manifest is its source, and whose reconciles fail with the source.
fn interpreter() -> Guest {
    Guest::default()
        .describe("(call $source (i32.const 256)) i32.const 256")
        .reconcile("(call $source (i32.const 256)) (call $retry (i32.load (i32.const 256)) (i32.load (i32.const 260)))")
}

fn development(interpreter: &Guest) -> (Engine, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(
        folder.path().join("i.wasm"),
        interpreter.build_in("interpreter"),
    )
    .expect("written");
    let interpreters = Some(folder.path().to_owned());
    let config = EngineConfig {
        allocation: Allocation::OnDemand,
        interpreters,
        ..EngineConfig::default()
    };
    (Engine::new(&config).expect("an engine"), folder)
}

fn program(interpreter: &str, source: &str) -> Vec<u8> {
    Program {
        interpreter: interpreter.to_owned(),
        source: source.to_owned(),
    }
    .encode()
}

async fn load(engine: &Engine, bytes: Vec<u8>) -> Result<Plugin, LoadError> {
    let limits = LoadLimits {
        timeout: Duration::from_secs(10),
        ..LoadLimits::default()
    };
    Plugin::load(engine, bytes, &limits, Arc::new(Ports::default())).await
}

#[tokio::test]
async fn each_call_gets_the_source_of_its_plugin() {
    let (engine, _folder) = development(&interpreter());
    let ports = Arc::new(Ports::default());
    let mut digests = Vec::new();
    for name in ["first", "second"] {
        let source = MANIFEST.replace(r#""name":"c""#, &format!(r#""name":"{name}""#));
        let plugin = load(&engine, program("i.wasm", &source))
            .await
            .expect("loads");
        assert_eq!(
            (
                plugin.manifest().controllers[0].name.as_str(),
                plugin.provenance().origin
            ),
            (name, Origin::Cache)
        );
        digests.push(plugin.digest().to_owned());
        let reconciler =
            PluginReconciler::new(Arc::new(plugin), ports.gate(), CallLimits::default());
        let failure = reconciler
            .reconcile(&request("a"))
            .await
            .expect_err("the source");
        assert_eq!(failure, Failure::Retry(source));
    }
    assert_ne!(digests[0], digests[1]);
    assert_eq!(engine.mapped().loaded, 1, "they share the code");
}

#[tokio::test]
async fn source_that_the_interpreter_refuses_is_reported_with_its_message() {
    let guest = interpreter()
        .text("plugin.ts:3: no such thing")
        .describe("(call $source_fail (global.get $text) (global.get $text_len)) i32.const 8");
    let (engine, _folder) = development(&guest);
    let error = load(&engine, program("i.wasm", "x"))
        .await
        .err()
        .expect("refused");
    assert_eq!(
        (error.to_string().as_str(), error.reason().as_str()),
        ("plugin.ts:3: no such thing", "DescribeTrapped")
    );
}

#[tokio::test]
async fn interpreter_is_a_file_in_the_folder() {
    let (engine, folder) = development(&interpreter());
    fs::write(
        folder.path().with_extension("wasm"),
        interpreter().build_in("interpreter"),
    )
    .expect("written");
    let outside = format!(
        "../{}.wasm",
        folder.path().file_name().expect("a name").to_string_lossy()
    );
    for name in [outside.as_str(), "none.wasm", "..", ""] {
        let error = load(&engine, program(name, MANIFEST))
            .await
            .err()
            .expect("refused");
        assert!(
            matches!(error, LoadError::MissingInterpreter { .. }),
            "{name}: {error}"
        );
    }
    fs::remove_file(folder.path().with_extension("wasm")).expect("removed");
}

#[tokio::test]
async fn host_runs_no_program_and_no_interpreter() {
    let program = program("i.wasm", MANIFEST);
    for error in [
        load(engine(), program.clone()).await.err(),
        check(&program, &LoadLimits::default()).err(),
    ] {
        let error = error.expect("refused").to_string();
        assert!(error.contains("build with `operetta build`"), "{error}");
    }
    let error = load(engine(), interpreter().build_in("interpreter"))
        .await
        .err()
        .expect("refused");
    assert_eq!(error.reason(), "MissingImport", "{error}");
    // Neither does a host for development, except with a program.
    let (development, _folder) = development(&interpreter());
    let error = load(&development, interpreter().build_in("interpreter"))
        .await
        .err()
        .expect("refused");
    assert_eq!(error.reason(), "MissingImport", "{error}");
}
