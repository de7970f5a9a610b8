//! Tests of mapped code: too much of it is unmapped, and the next call maps it again.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use operetta_core::{
    controller::request::{Action, Failure},
    ports::Reconciler,
};
use operetta_testkit::wat_guest::Guest;
use operetta_wasm::{
    CallLimits, Code, CodeCache, Engine, EngineConfig, LoadLimits, Plugin, PluginReconciler,
    WarmLimits,
};

use crate::ports::{Ports, request};

/// Returns an engine without room for mapped code: only code in use stays mapped.
fn engine(cache: Option<&Path>) -> Engine {
    engine_with(
        EngineConfig {
            max_mapped_code_bytes: 0,
            ..EngineConfig::default()
        },
        cache,
    )
}

fn engine_with(config: EngineConfig, cache: Option<&Path>) -> Engine {
    let config = EngineConfig {
        concurrent_calls: 4,
        ..config
    };
    let cache = cache.map(|directory| CodeCache::open(directory, 1 << 30).expect("a cache"));
    Engine::with_code(&config, Code::new(cache, None)).expect("an engine")
}

/// Returns a guest that answers `retry` with its number as the message.
fn guest(number: usize) -> Guest {
    Guest::default()
        .text(&number.to_string())
        .reconcile("(call $retry (global.get $text) (global.get $text_len))")
}

async fn load(engine: &Engine, guest: Guest, ports: &Arc<Ports>) -> PluginReconciler {
    let plugin = Plugin::load(engine, guest.build(), &LoadLimits::default(), ports.clone())
        .await
        .expect("loads");
    PluginReconciler::new(Arc::new(plugin), ports.gate(), CallLimits::default())
}

#[tokio::test]
async fn least_recently_called_code_is_unmapped() {
    let temporary = tempfile::tempdir().expect("a directory");
    let directory = temporary.path().join("compiled");
    let engine = engine(Some(&directory));
    let ports = Arc::new(Ports::default());
    let mut plugins = Vec::new();
    for number in 0..3 {
        plugins.push(load(&engine, guest(number), &ports).await);
    }
    let now = engine.mapped();
    assert_eq!((now.loaded, now.mapped, now.again), (3, 1, 0), "{now:?}");
    // The cache may drop the entries: a loaded plugin keeps its code.
    std::fs::remove_dir_all(&directory).expect("removed");
    for round in 1..=4 {
        for (number, plugin) in plugins.iter().enumerate() {
            let answer = plugin.reconcile(&request("a")).await;
            assert_eq!(answer, Err(Failure::Retry(number.to_string())));
            assert_eq!(engine.mapped().mapped, 1);
        }
        assert_eq!(engine.mapped().again, 3 * round);
    }
    let again = plugins[2].reconcile(&request("a")).await;
    assert_eq!(
        (again, engine.mapped().again),
        (Err(Failure::Retry("2".to_owned())), 12),
        "its code was still mapped"
    );
    drop(plugins);
    assert_eq!((engine.mapped().loaded, engine.mapped().bytes), (0, 0));
}

#[tokio::test]
async fn plugins_of_same_digest_share_code() {
    let temporary = tempfile::tempdir().expect("a directory");
    let engine = engine(Some(&temporary.path().join("compiled")));
    let ports = Arc::new(Ports::default());
    let first = load(&engine, guest(0), &ports).await;
    let second = load(&engine, guest(0), &ports).await;
    assert_eq!((engine.mapped().loaded, engine.mapped().mapped), (1, 1));
    let other = load(&engine, guest(1), &ports).await;
    assert_eq!(
        (engine.mapped().loaded, engine.mapped().mapped),
        (2, 1),
        "only one fits"
    );
    for plugin in [&first, &second] {
        assert_eq!(
            plugin.reconcile(&request("a")).await,
            Err(Failure::Retry("0".to_owned()))
        );
    }
    assert_eq!(
        engine.mapped().again,
        1,
        "mapped for the first, and still mapped for the second"
    );
    drop(first);
    assert_eq!(
        other.reconcile(&request("a")).await,
        Err(Failure::Retry("1".to_owned()))
    );
    let alone = second.reconcile(&request("a")).await;
    assert_eq!(
        alone,
        Err(Failure::Retry("0".to_owned())),
        "the code outlives the plugin that loaded it"
    );
    drop((second, other));
    assert_eq!(engine.mapped().loaded, 0);
}

#[tokio::test]
async fn idle_code_is_unmapped_and_mapped_again() {
    let temporary = tempfile::tempdir().expect("a directory");
    let idle = Duration::from_millis(100);
    let config = EngineConfig {
        max_idle_code: idle,
        ..EngineConfig::default()
    };
    let engine = engine_with(config, Some(&temporary.path().join("compiled")));
    let ports = Arc::new(Ports::default());
    let plugins = [
        load(&engine, guest(0), &ports).await,
        load(&engine, guest(1), &ports).await,
    ];
    for round in 1..=2 {
        // The first plugin is called all the time, the second one never.
        let started = std::time::Instant::now();
        while engine.mapped().mapped == 2 || started.elapsed() < 3 * idle {
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "{:?}",
                engine.mapped()
            );
            assert_eq!(
                plugins[0].reconcile(&request("a")).await,
                Err(Failure::Retry("0".to_owned()))
            );
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let before = engine.mapped().again;
        assert_eq!(
            plugins[1].reconcile(&request("a")).await,
            Err(Failure::Retry("1".to_owned()))
        );
        assert!(
            engine.mapped().again > before,
            "round {round}: idle code stayed mapped"
        );
    }
}

#[tokio::test]
async fn concurrent_calls_map_code_once() {
    let temporary = tempfile::tempdir().expect("a directory");
    let engine = engine(Some(&temporary.path().join("compiled")));
    let ports = Arc::new(Ports::default());
    let plugins = [
        load(&engine, guest(0), &ports).await,
        load(&engine, guest(1), &ports).await,
    ];
    let request = request("a");
    let one = || async {
        assert_eq!(
            plugins[0].reconcile(&request).await,
            Err(Failure::Retry("0".to_owned()))
        );
    };
    tokio::join!(one(), one(), one(), one());
    assert_eq!(engine.mapped().again, 1);
}

#[tokio::test]
async fn in_flight_calls_and_warm_instances_keep_code() {
    let temporary = tempfile::tempdir().expect("a directory");
    let engine = engine(Some(&temporary.path().join("compiled")));
    let ports = Arc::new(Ports::slow(Some(Duration::from_millis(300))));
    let waiting = Guest::default().reconcile(
        "(call $get_own (local.get $namespace) (local.get $namespace_len) (local.get $name) (local.get $name_len))
         i32.const 16",
    );
    let waiting = load(&engine, waiting, &ports).await;
    let warm = load(&engine, Guest::default(), &ports)
        .await
        .keep_warm(WarmLimits::default());
    let request = request("a");
    assert_eq!(warm.reconcile(&request).await, Ok(Action::Done));
    let other = load(&engine, guest(0), &ports).await;
    let others = async {
        while ports.running.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        for _ in 0..3 {
            assert_eq!(
                other.reconcile(&request).await,
                Err(Failure::Retry("0".to_owned()))
            );
        }
        engine.mapped().mapped
    };
    let (answer, mapped) = tokio::join!(waiting.reconcile(&request), others);
    assert_eq!(
        (answer, mapped),
        (Ok(Action::Done), 3),
        "all three are in use"
    );
    assert_eq!(warm.reconcile(&request).await, Ok(Action::Done));
    let now = engine.mapped();
    assert_eq!(
        now.again, 2,
        "only the waiting plugin's and the other one's code was mapped again: {now:?}"
    );
}

#[tokio::test]
async fn code_without_cache_file_stays_mapped() {
    let engine = engine(None);
    let ports = Arc::new(Ports::default());
    let plugins = [
        load(&engine, guest(0), &ports).await,
        load(&engine, guest(1), &ports).await,
    ];
    assert_eq!(
        plugins[0].reconcile(&request("a")).await,
        Err(Failure::Retry("0".to_owned()))
    );
    assert_eq!((engine.mapped().mapped, engine.mapped().again), (2, 0));
}
