//! Components are compiled by a process of their own, with limits: the program operetta-compiler.

use std::{os::unix::fs::PermissionsExt, process::Stdio, sync::Arc, time::Duration};

use async_trait::async_trait;
use operetta_core::ports::Nowhere;
use operetta_testkit::wat_guest::Guest;
use operetta_wasm::{
    Code, CodeCache, Engine, EngineConfig, LoadError, LoadLimits, LoadObserver, LoadStage, Origin,
    Plugin, Worker, WorkerLimits, process::ProcessProgram,
};
use parking_lot::Mutex;
use rustix::thread::{CapabilitySet, capabilities};
use tokio::sync::Semaphore;

/// The worker of `operetta-host`.
fn worker(limits: WorkerLimits) -> Worker {
    Worker {
        program: operetta_testkit::program("operetta-compiler"),
        arguments: Vec::new(),
        limits,
        process_limits: limits,
    }
}

/// An engine whose worker compiles within these limits.
fn engine(cache: Option<CodeCache>, limits: WorkerLimits) -> Engine {
    engine_with(worker(limits), cache)
}

fn engine_with(worker: Worker, cache: Option<CodeCache>) -> Engine {
    let config = EngineConfig {
        concurrent_calls: 4,
        ..EngineConfig::default()
    };

    Engine::with_code(&config, Code::new(cache, Some(worker))).expect("an engine")
}

async fn load(engine: &Engine, wasm: Vec<u8>) -> Result<Origin, LoadError> {
    let plugin = Plugin::load(engine, wasm, &LoadLimits::default(), Arc::new(Nowhere)).await?;
    Ok(plugin.provenance().origin)
}

#[tokio::test]
async fn compiled_code_runs_and_is_kept() {
    let place = tempfile::tempdir().expect("a directory");
    let cache = || Some(CodeCache::open(&place.path().join("compiled"), 1 << 30).expect("a cache"));
    let wasm = Guest::default().build();

    assert_eq!(
        load(&engine(cache(), WorkerLimits::default()), wasm.clone())
            .await
            .expect("loads"),
        Origin::Worker
    );

    assert_eq!(
        load(&engine(cache(), WorkerLimits::default()), wasm)
            .await
            .expect("loads"),
        Origin::Cache
    );
}

#[tokio::test]
async fn operetta_is_a_worker_too_and_shares_the_cache() {
    let place = tempfile::tempdir().expect("a directory");
    let cache = || Some(CodeCache::open(&place.path().join("compiled"), 1 << 30).expect("a cache"));
    let limits = WorkerLimits::default();
    let operetta = Worker {
        program: operetta_testkit::program("operetta"),
        arguments: vec!["compile-worker".to_owned()],
        limits,
        process_limits: limits,
    };
    let wasm = Guest::default().build();

    let origin = load(&engine_with(operetta, cache()), wasm.clone()).await;
    assert_eq!(origin.expect("loads"), Origin::Worker);
    let origin = load(&engine(cache(), limits), wasm).await;
    assert_eq!(origin.expect("loads"), Origin::Cache);
}

#[tokio::test]
async fn a_worker_needs_no_place_on_disk() {
    let engine = engine(None, WorkerLimits::default());
    assert_eq!(
        load(&engine, Guest::default().build())
            .await
            .expect("loads"),
        Origin::Worker
    );
}

#[tokio::test]
async fn a_small_component_does_not_wait_for_a_large_one() {
    let small = Guest::default().build();
    let large = Guest::default().with_functions(3000).build();
    assert!(large.len() > 1 << 20, "{} bytes", large.len());

    let engine = engine(None, WorkerLimits::default());
    let compiling = async {
        let origin = load(&engine, large).await.expect("loads");
        (origin, std::time::Instant::now())
    };
    let meanwhile = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let origin = load(&engine, small).await.expect("loads");
        (origin, std::time::Instant::now())
    };

    let ((large, large_at), (small, small_at)) = tokio::join!(compiling, meanwhile);
    assert_eq!((large, small), (Origin::Worker, Origin::Worker));
    assert!(small_at < large_at, "it waited");
}

/// The stages of a load, in order.
#[derive(Debug, Default)]
struct Stages(Mutex<Vec<LoadStage>>);

#[async_trait]
impl LoadObserver for Stages {
    async fn enters(&self, stage: LoadStage) {
        self.0.lock().push(stage);
    }
}

#[tokio::test]
async fn load_says_when_the_component_waits_and_leaves_the_process() {
    let engine = engine(None, WorkerLimits::default());
    let stages = Arc::new(Stages::default());
    let owner = Arc::new(Semaphore::new(1));
    let limits = LoadLimits {
        compilations: Some(owner.clone()),
        observer: Some(stages.clone()),
        ..LoadLimits::default()
    };

    let another = owner.acquire().await.expect("a permit");
    let wasm = Guest::default().build();
    let loading = Plugin::load(&engine, wasm, &limits, Arc::new(Nowhere));
    let end_of_another = async {
        while stages.0.lock().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        drop(another);
    };
    let (loaded, ()) = tokio::join!(loading, end_of_another);
    assert_eq!(loaded.expect("loads").provenance().origin, Origin::Worker);
    assert_eq!(
        *stages.0.lock(),
        [
            LoadStage::Waiting,
            LoadStage::Here,
            LoadStage::InWorker,
            LoadStage::Here
        ]
    );
}

#[tokio::test]
async fn refuses_component_over_compile_memory() {
    let wasm = Guest::default().with_functions(12_000).build();
    let size = format!("{:.1} MB", wasm.len() as f64 / 1e6);
    let limits = WorkerLimits {
        memory_bytes: 32 << 20,
        ..WorkerLimits::default()
    };

    let error = load(&engine(None, limits), wasm.clone())
        .await
        .expect_err("refused");
    assert_eq!(error.reason(), "CompileMemoryExceeded", "{error}");

    let text = error.to_string();
    assert!(
        text.contains(&size) && text.contains("32 MiB") && text.contains("compileMemoryMiB"),
        "{text}"
    );
    assert_eq!(
        load(&engine(None, WorkerLimits::default()), wasm)
            .await
            .expect("loads"),
        Origin::Worker
    );
}

/// A process with so many functions that its compilation takes more than 32 MiB.
fn large_process() -> Vec<u8> {
    let work = "i32.const 7 i32.mul i32.const 3 i32.add ".repeat(40);
    let function = format!("(func (param i32) (result i32) local.get 0 {work})\n");
    let text = format!(
        r#"(component
            (core module $m
                (memory (export "memory") 1)
                (func (export "_start"))
                {})
            (export "process" (core module $m)))"#,
        function.repeat(12_000)
    );
    wat::parse_str(text).expect("text")
}

#[tokio::test]
async fn process_has_a_compile_limit_of_its_own() {
    let little = WorkerLimits {
        memory_bytes: 32 << 20,
        ..WorkerLimits::default()
    };
    let engine = |limits, process_limits| {
        let worker = Worker {
            process_limits,
            ..worker(limits)
        };
        engine_with(worker, None)
    };
    let load = async |engine: &Engine| {
        let limits = LoadLimits::default();
        ProcessProgram::load(engine, large_process(), &limits).await
    };

    let refused = load(&engine(WorkerLimits::default(), little)).await;
    let error = refused.err().expect("refused");
    assert_eq!(error.reason(), "CompileMemoryExceeded", "{error}");
    let text = error.to_string();
    assert!(
        text.contains("32 MiB") && text.contains("(processCompileMemoryMiB of the host)"),
        "{text}"
    );

    load(&engine(little, WorkerLimits::default()))
        .await
        .expect("the limit of plugins isn't that of processes");
}

#[tokio::test]
async fn refuses_component_over_compile_time() {
    let wasm = Guest::default().with_functions(6000).build();
    let limits = WorkerLimits {
        cpu_seconds: 1,
        ..WorkerLimits::default()
    };

    let error = load(&engine(None, limits), wasm)
        .await
        .expect_err("refused");
    assert_eq!(error.reason(), "CompileTimedOut", "{error}");
    assert!(
        error
            .to_string()
            .contains("1 s of processor time (compileSeconds of the host)"),
        "{error}"
    );
}

#[tokio::test]
async fn refuses_component_with_the_compilers_reason() {
    // It parses, but one function leaves nothing where its type says a number.
    let broken = wat::parse_str(
        r#"(component
            (core module (func (export "f") (result i32)))
            (component $inner)
            (instance $r (instantiate $inner))
            (export "operetta:controller/reconciler@0.1.0" (instance $r)))"#,
    );

    let broken = broken.expect("text");
    let here = Engine::new(&EngineConfig {
        concurrent_calls: 1,
        ..EngineConfig::default()
    })
    .expect("an engine");

    let expected = load(&here, broken.clone())
        .await
        .expect_err("refused")
        .to_string();
    let error = load(&engine(None, WorkerLimits::default()), broken)
        .await
        .expect_err("refused");
    assert_eq!(
        (error.reason().as_str(), error.to_string()),
        ("CompileFailed", expected)
    );
}

#[tokio::test]
async fn refuses_component_too_large_for_any_slot() {
    let table = |elements: u32| {
        let guest = Guest::default().with(&format!("(table $t {elements} funcref)"));
        guest.describe("(drop (table.size $t)) i32.const 8").build()
    };

    let config = EngineConfig {
        concurrent_calls: 4,
        ..EngineConfig::default()
    };
    for engine in [
        engine(None, WorkerLimits::default()),
        Engine::new(&config).expect("an engine"),
    ] {
        assert!(engine.is_pooled(), "this machine reserves the pool");
        load(&engine, table(65_536))
            .await
            .expect("Go with controller-runtime needs half of that");

        let error = load(&engine, table(66_000)).await.expect_err("refused");
        assert_eq!(error.reason(), "CompileFailed", "{error}");
        assert!(error.to_string().contains("66000"), "{error}");
    }
}

#[tokio::test]
async fn a_worker_of_another_version_compiles_nothing() {
    let worker = tokio::process::Command::new(operetta_testkit::program("operetta-compiler"))
        .env("_RJEM_MALLOC_CONF", "background_thread:false")
        .args([
            "--memory-bytes",
            "1000000000",
            "--cpu-seconds",
            "9",
            "--compatibility",
            "other",
        ])
        .stdin(Stdio::null())
        .output();

    let output = tokio::time::timeout(Duration::from_secs(60), worker)
        .await
        .expect("it ends")
        .expect("runs");

    assert_eq!(output.status.code(), Some(70));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("not of the same version"));
}

#[tokio::test]
async fn confined_worker_reaches_neither_token_nor_network() {
    let token = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(token.path(), "secret").expect("written");
    let program = operetta_testkit::program("operetta-compiler");
    let output = tokio::process::Command::new(&program)
        .env("_RJEM_MALLOC_CONF", "background_thread:false")
        .args([
            "--memory-bytes",
            "1000000000",
            "--cpu-seconds",
            "9",
            "--check-sandbox",
        ])
        .args([token.path(), &program])
        .output();

    let output = tokio::time::timeout(Duration::from_secs(60), output)
        .await
        .expect("it ends")
        .expect("runs");

    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );

    assert!(said.starts_with("seccomp"), "{said}");
    println!("the confined worker: {}", said.trim_end());
}

/// Reports whether this process, and so the workers that it starts, may change users.
fn may_change_users() -> bool {
    let held = capabilities(None).expect("known").effective;
    held.contains(CapabilitySet::SETUID | CapabilitySet::SETGID)
}

#[tokio::test]
async fn worker_is_another_user_who_reaches_nothing_of_the_host() {
    // The check attempts these before it applies seccomp and Landlock.
    let token = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(token.path(), "secret").expect("written");

    let mode = std::fs::metadata(token.path())
        .expect("there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600, "only its owner may read it");
    let checked = Code::new(None, Some(worker(WorkerLimits::default())))
        .check_sandbox(&[token.path().to_owned()])
        .await
        .expect("a worker");
    let description = checked.expect("nothing is possible");

    let user = rustix::process::geteuid().as_raw();
    let expected = match may_change_users() {
        true => "as user 65533".to_owned(),
        false => {
            format!("as the host's user {user}: it may not change users (CAP_SETUID, CAP_SETGID)")
        }
    };

    assert!(description.ends_with(&expected), "{description}");
    println!("the worker: {description}");
}
