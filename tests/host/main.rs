//! The whole host on a real API server: what it makes of plugins, good, bad and changing.
//!
//! All tests share one host, and each has its own namespace. So every test is also a test that the
//! bad plugins of all others hurt nobody; those that are about a bad plugin check it once more at
//! their end, with [`Stage::others_keep_working`].

mod backoff;
mod bad_code;
mod bad_reconciles;
mod configuration;
mod drop_in;
mod escalations;
mod field_conflicts;
mod hostile;
mod hostile_tenant;
mod hot_loops;
mod least_rights;
mod log_levels;
mod mapping;
mod metrics;
mod metrics_page;
mod opt_in;
mod parts;
mod path_source;
mod plugin_spec;
mod process;
mod shared_watches;
mod swap;
mod tenancy;

use std::{
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use operetta_testkit::{
    ControlPlane, DropIn, Host, HostOptions, Kind, TestNamespace, guest, kinds,
};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// What the host takes at most, in bytes.
const MAX_WASM_BYTES: usize = 900_000;

/// The shared host, and a namespace of the test's own where the ServiceAccount `plugin` may do
/// everything.
struct Stage {
    host: &'static Host,
    namespace: TestNamespace<'static>,
}

/// The host of this test program.
async fn host() -> &'static Host {
    static HOST: OnceCell<Host> = OnceCell::const_new();
    let start = async || {
        let control_plane = ControlPlane::shared().await;
        let directory = plugin_directory(control_plane);
        std::fs::create_dir_all(&directory).expect("a folder");
        let directory = directory.display();
        let config = format!(
            "maxWasmBytes: {MAX_WASM_BYTES}\npluginDirectory: {directory}\nhotLoopRounds: 3"
        );

        // What compiling does to others is a part of what is tested here.
        let options = HostOptions {
            config,
            compiles_anew: true,
            ..HostOptions::default()
        };
        Host::shared(control_plane, &options).await
    };

    HOST.get_or_init(start).await
}

/// The host's own files that Plugins may name.
fn plugin_directory(control_plane: &ControlPlane) -> PathBuf {
    control_plane.folder().join("plugins")
}

/// Rights that were given or taken away are in effect after this.
const IN_EFFECT: Duration = Duration::from_secs(5);

/// Runs the command of kubectl that a message ends with, as an administrator would.
fn run_what_it_says(namespace: &TestNamespace<'_>, message: &str) {
    operetta_testkit::run_what_it_says(namespace.control_plane(), &[], "kubectl ", message);
}

impl Stage {
    async fn new(prefix: &str) -> Self {
        let host = host().await;
        let namespace = ControlPlane::shared().await.namespace(prefix).await;
        namespace.allow_all("plugin").await;
        Self { host, namespace }
    }

    /// Creates a Plugin with this spec, and a ConfigMap with its component that creates no Plugin
    /// by itself.
    async fn plugin(&self, name: &str, wasm: Vec<u8>, mut spec: Value) {
        let code = format!("{name}-code");
        self.namespace
            .create_object(kinds::CONFIG_MAP, DropIn::new(&code, wasm).code())
            .await;

        spec["source"] = json!({"configMap": {"name": code}});
        if spec["serviceAccountName"].is_null() {
            spec["serviceAccountName"] = json!("plugin");
        }

        self.namespace
            .create_object(
                kinds::PLUGIN,
                json!({"metadata": {"name": name}, "spec": spec}),
            )
            .await;
    }

    /// Checks that the host runs, and that a healthy plugin in it still does its work.
    async fn others_keep_working(&self) {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let control_plane = self.namespace.control_plane();

        let start = async || {
            let namespace = control_plane.namespace("healthy").await;
            namespace.allow_all("plugin").await;
            namespace
                .drop_in(&DropIn::new("touch", guest("fixture-touch-v1")))
                .await;
            namespace.name().to_owned()
        };

        let healthy = control_plane
            .existing_namespace(&control_plane.once("healthy", start).await)
            .await;

        let name = format!(
            "after-{}-{}",
            self.namespace.name(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );

        healthy.create_touchable(&name).await;
        healthy.until_touched(&name, "v1").await;
        self.host.assert_sound();
    }
}

/// A manifest with one controller, `c`, for a kind.
fn manifest(kind: Kind) -> String {
    let source = json!({"apiVersion": kind.0, "kind": kind.1, "namespaces": "Own"});
    let controllers = json!([{"name": "c", "for": source}]);
    json!({"apiVersion": "operetta.dev/v1alpha1", "kind": "Manifest", "controllers": controllers})
        .to_string()
}

/// Installs a namespaced kind of the group `test.operetta.dev/v1`.
fn install(control_plane: &ControlPlane, kind: Kind) {
    let singular = kind.1.to_lowercase();
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});

    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{singular}s.test.operetta.dev")},
        "spec": {
            "group": "test.operetta.dev",
            "scope": "Namespaced",
            "names": {"kind": kind.1, "plural": format!("{singular}s"), "singular": singular},
            "versions": [version],
        },
    });
    control_plane.apply(&crd.to_string());
}
