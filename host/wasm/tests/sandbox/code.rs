//! Tests of the code cache: code is compiled once, and damaged or foreign entries are not trusted.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use operetta_core::{controller::request::Action, ports::Reconciler};
use operetta_testkit::wat_guest::Guest;
use operetta_wasm::{
    Allocation, CallLimits, Code, CodeCache, Engine, EngineConfig, LoadLimits, Origin, Plugin,
    PluginReconciler,
};

use crate::ports::{Ports, request};

/// Loads the guest with a new engine, as a host that has just started, and reconciles once.
async fn load(guest: &Guest, directory: &Path, allocation: Allocation) -> Origin {
    let config = EngineConfig {
        concurrent_calls: 4,
        allocation,
        ..EngineConfig::default()
    };
    let cache = CodeCache::open(directory, 1 << 30).expect("a cache");
    let engine = Engine::with_code(&config, Code::new(Some(cache), None)).expect("an engine");
    let ports = Arc::new(Ports::default());
    let plugin = Plugin::load(
        &engine,
        guest.build(),
        &LoadLimits::default(),
        ports.clone(),
    )
    .await
    .expect("loads");
    let origin = plugin.provenance().origin;
    let reconciler = PluginReconciler::new(Arc::new(plugin), ports.gate(), CallLimits::default());
    assert_eq!(reconciler.reconcile(&request("a")).await, Ok(Action::Done));
    origin
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .collect()
}

#[tokio::test]
async fn second_load_does_not_compile() {
    let temporary = tempfile::tempdir().expect("a directory");
    let directory = temporary.path().join("compiled");
    let guest = Guest::default();
    assert_eq!(
        load(&guest, &directory, Allocation::Auto).await,
        Origin::Here
    );
    assert_eq!(
        load(&guest, &directory, Allocation::Auto).await,
        Origin::Cache
    );
    assert_eq!(
        load(&guest, &directory, Allocation::OnDemand).await,
        Origin::Cache
    );
    let other = Guest::default().reconcile("(drop (i32.const 1)) i32.const 16");
    assert_eq!(
        load(&other, &directory, Allocation::Auto).await,
        Origin::Here
    );
    assert_eq!(entries(&directory).len(), 2);
}

#[tokio::test]
async fn code_that_this_process_compiled_is_mapped_from_its_file() {
    let temporary = tempfile::tempdir().expect("a directory");
    let directory = temporary.path().join("compiled");
    let cache = CodeCache::open(&directory, 1 << 30).expect("a cache");
    let config = EngineConfig {
        concurrent_calls: 4,
        ..EngineConfig::default()
    };
    let engine = Engine::with_code(&config, Code::new(Some(cache), None)).expect("an engine");
    let guest = Guest::default().build();
    let limits = LoadLimits::default();
    let plugin = Plugin::load(&engine, guest, &limits, Arc::new(Ports::default()))
        .await
        .expect("loads");

    assert_eq!(plugin.provenance().origin, Origin::Here);
    let entry = entries(&directory).remove(0);
    let maps = fs::read_to_string("/proc/self/maps").expect("maps");
    let entry = entry.to_str().expect("UTF-8");
    let is_code = |line: &str| line.ends_with(entry) && line.contains(" r-x");
    assert!(maps.lines().any(is_code), "{maps}");
}

#[tokio::test]
async fn second_load_from_memory_does_not_compile() {
    let config = EngineConfig {
        concurrent_calls: 4,
        ticks: false,
        ..EngineConfig::default()
    };
    let engine = Engine::with_code(&config, Code::in_memory()).expect("an engine");
    let ports = Arc::new(Ports::default());
    let mut origins = Vec::new();
    for _ in 0..2 {
        let guest = Guest::default().build();
        let plugin = Plugin::load(&engine, guest, &LoadLimits::default(), ports.clone())
            .await
            .expect("loads");
        origins.push(plugin.provenance().origin);
        let reconciler =
            PluginReconciler::new(Arc::new(plugin), ports.gate(), CallLimits::default());
        assert_eq!(reconciler.reconcile(&request("a")).await, Ok(Action::Done));
    }
    assert_eq!(origins, [Origin::Here, Origin::Cache]);
}

#[tokio::test]
async fn recompiles_damaged_and_foreign_code() {
    let temporary = tempfile::tempdir().expect("a directory");
    let directory = temporary.path().join("compiled");
    let guest = Guest::default();
    assert_eq!(
        load(&guest, &directory, Allocation::Auto).await,
        Origin::Here
    );
    let entry = entries(&directory).remove(0);
    let whole = fs::read(&entry).expect("reads");
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for damage in [
        flipped,
        whole[..whole.len() / 2].to_vec(),
        vec![],
        b"\x7fELF".to_vec(),
    ] {
        fs::write(&entry, damage).expect("writes");
        assert_eq!(
            load(&guest, &directory, Allocation::Auto).await,
            Origin::Here
        );
        assert_eq!(
            load(&guest, &directory, Allocation::Auto).await,
            Origin::Cache
        );
        assert_eq!(entries(&directory), std::slice::from_ref(&entry));
    }
    fs::set_permissions(&entry, fs::Permissions::from_mode(0o666)).expect("chmod");
    assert_eq!(
        load(&guest, &directory, Allocation::Auto).await,
        Origin::Here
    );
}

#[tokio::test]
async fn recompiles_code_of_another_engine() {
    use sha2::{Digest, Sha256};
    let temporary = tempfile::tempdir().expect("a directory");
    let directory = temporary.path().join("compiled");
    let guest = Guest::default();
    assert_eq!(
        load(&guest, &directory, Allocation::Auto).await,
        Origin::Here
    );
    let entry = entries(&directory).remove(0);
    let key = entry
        .file_name()
        .and_then(|name| name.to_str()?.split('.').next())
        .expect("a name")
        .to_owned();
    // An entry that another version of the host would leave if the key lacked the version: whole,
    // with the right hash.
    let mut other = fs::read(&entry).expect("reads");
    let version = other
        .windows(7)
        .position(|window| window == b"48.0.8\0" || window.starts_with(b"48.0."))
        .unwrap_or(64);
    other[version] ^= 1;
    for content in [other, b"no code at all".to_vec()] {
        entries(&directory)
            .iter()
            .for_each(|path| fs::remove_file(path).expect("removes"));
        let hash: String = Sha256::digest(&content)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let path = directory.join(format!("{key}.{hash}.cwasm"));
        fs::write(&path, content).expect("writes");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("chmod");
        assert_eq!(
            load(&guest, &directory, Allocation::Auto).await,
            Origin::Here
        );
        assert_eq!(
            load(&guest, &directory, Allocation::Auto).await,
            Origin::Cache
        );
    }
}

#[tokio::test]
async fn concurrent_loads_compile_once() {
    let cache = CodeCache::temporary(1 << 30).expect("a cache");
    let config = EngineConfig {
        concurrent_calls: 4,
        ..EngineConfig::default()
    };
    let engine = Engine::with_code(&config, Code::new(Some(cache), None)).expect("an engine");
    let wasm = Guest::default().with_functions(200).build();
    let limits = LoadLimits::default();
    let load = || async {
        let plugin = Plugin::load(&engine, wasm.clone(), &limits, Arc::new(Ports::default()))
            .await
            .expect("loads");
        plugin.provenance().origin
    };
    let mut origins = <[Origin; 2]>::from(tokio::join!(load(), load()));
    origins.sort_by_key(|origin| *origin == Origin::Cache);
    assert_eq!(origins, [Origin::Here, Origin::Cache]);
}
