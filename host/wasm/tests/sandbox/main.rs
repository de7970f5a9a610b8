//! Tests of the sandbox from the outside: components that it refuses, guests that misbehave, and
//! calls to the host.
//!
//! Each guest is a few instructions long, so that a test shows the whole attack.

mod code;
mod faults;
mod hostcalls;
mod interpreted;
mod load;
mod mapped;
mod mapper;
mod ports;
mod snapshot;
mod warm;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use operetta_core::{
    controller::request::{Action, Failure},
    ports::Reconciler,
};
use operetta_testkit::wat_guest::Guest;
use operetta_wasm::{CallLimits, Engine, EngineConfig, LoadLimits, Plugin, PluginReconciler};
use ports::{Ports, request};

/// Returns the one engine of the process, as in the host.
fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(&EngineConfig::default()).expect("an engine"))
}

/// Loads a guest with a tight memory limit and this deadline.
async fn reconciler(guest: Guest, ports: &Arc<Ports>, timeout: Duration) -> PluginReconciler {
    let plugin = Plugin::load(
        engine(),
        guest.build(),
        &LoadLimits::default(),
        ports.clone(),
    )
    .await
    .expect("loads");
    let limits = CallLimits {
        memory_bytes: 16 << 20,
        timeout,
        ..CallLimits::default()
    };
    PluginReconciler::new(Arc::new(plugin), ports.gate(), limits)
}

/// Loads the guest and reconciles once, within ten seconds.
async fn run(guest: Guest, ports: &Arc<Ports>) -> Result<Action, Failure> {
    reconciler(guest, ports, Duration::from_secs(10))
        .await
        .reconcile(&request("a"))
        .await
}
