//! Latencies of the honest plugins and of the native controller.

use std::{
    fmt,
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config, ResourceExt,
    api::{PostParams, WatchEvent, WatchParams},
};
use operetta_testkit::{ControlPlane, DropIn, Host, TestNamespace, guest, kinds};

/// The longest time that an object may wait for an honest plugin.
const PATIENCE: Duration = Duration::from_secs(30);

/// Two namespaces with a plugin each, and one with a native controller that does the same.
pub struct Honest<'a> {
    pub plugins: Vec<TestNamespace<'a>>,
    native: TestNamespace<'a>,
    host: &'a Host,
}

impl<'a> Honest<'a> {
    pub async fn new(control_plane: &'a ControlPlane, host: &'a Host) -> Self {
        let mut plugins = Vec::new();
        for name in ["good-a", "good-b"] {
            let namespace = control_plane.namespace(name).await;
            namespace.allow_all("plugin").await;
            namespace
                .drop_in(&DropIn::new("touch", guest("fixture-touch-v1")))
                .await;
            namespace
                .until_condition("touch", "Ready", "True", "Running")
                .await;
            plugins.push(namespace);
        }

        let native = control_plane.namespace("native").await;
        touch_natively(control_plane.config().await, native.name().to_owned());

        Self {
            plugins,
            native,
            host,
        }
    }

    /// Creates objects one after another for `time`, each once the previous one was touched, and
    /// returns their latencies.
    pub async fn touch(&self, round: &str, time: Duration) -> Times {
        let began = Instant::now();
        let mut times = Times::default();

        while began.elapsed() < time {
            for namespace in &self.plugins {
                let name = format!("{round}-{}", times.plugins.len());
                let took = touched(namespace, &name).await.unwrap_or_else(|problem| {
                    panic!("{problem}\n{}", self.why(namespace, &name));
                });
                times.plugins.push(took);
            }
            let name = format!("{round}-{}", times.native.len());
            let took = touched(&self.native, &name).await;
            times
                .native
                .push(took.unwrap_or_else(|problem| panic!("{problem}")));
            times.host_bytes = times.host_bytes.max(self.host.memory_bytes());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }

        times
    }

    /// What the host says about an object that its plugin left alone.
    fn why(&self, namespace: &TestNamespace<'_>, name: &str) -> String {
        let of_namespace = format!("namespace=\"{}\"", namespace.name());
        let metric = |metric| {
            let sum = self.host.metric(metric, &[&of_namespace]);
            format!("{metric} {sum}\n")
        };
        let metrics = [
            "workqueue_depth",
            "controller_runtime_active_workers",
            "controller_runtime_reconcile_total",
            "controller_runtime_reconcile_errors_total",
            "operetta_plugin_wait_seconds_total",
            "operetta_plugin_throttled_seconds_total",
        ];

        let key = format!("{}/{name}", namespace.name());
        let why = self
            .host
            .run(&["why", "touch", &key, "-n", namespace.name()]);
        let said = [why.stdout, why.stderr].concat();
        metrics.map(metric).concat() + &String::from_utf8_lossy(&said)
    }
}

/// Creates an object, waits until it is touched, and deletes it. Returns the time until it was
/// touched.
///
/// # Errors
/// Returns an error if it is not touched within [`PATIENCE`].
async fn touched(namespace: &TestNamespace<'_>, name: &str) -> Result<Duration, String> {
    let created = Instant::now();
    namespace.create_touchable(name).await;

    loop {
        let found = namespace
            .get(kinds::CONFIG_MAP, name)
            .await
            .expect("it is there");
        if found["data"]["touched"] == "v1" {
            break;
        }

        if created.elapsed() >= PATIENCE {
            return Err(format!(
                "{name} of {} was not touched in {PATIENCE:?}",
                namespace.name()
            ));
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }

    let took = created.elapsed();
    namespace.delete(kinds::CONFIG_MAP, name).await;
    Ok(took)
}

/// Runs a native controller that does what the plugins do, on its own thread, until the program
/// ends.
fn touch_natively(config: Config, namespace: String) {
    let touching = async move {
        let client = Client::try_from(config).expect("a client");
        let maps: Api<ConfigMap> = Api::namespaced(client, &namespace);

        loop {
            let watch = WatchParams::default()
                .labels("operetta-fixture=true")
                .timeout(290);
            // The watch starts with the objects that exist. When it ends, for whatever reason, a
            // new one starts.
            let Ok(events) = maps.watch(&watch, "0").await else {
                continue;
            };

            let mut events = events.boxed();
            while let Ok(Some(event)) = events.try_next().await {
                let (WatchEvent::Added(mut map) | WatchEvent::Modified(mut map)) = event else {
                    continue;
                };

                let value = map
                    .data
                    .get_or_insert_default()
                    .insert("touched".to_owned(), "v1".to_owned());
                if value.as_deref() != Some("v1") {
                    // An error is ignored: the object may be deleted by now.
                    let _written = maps
                        .replace(&map.name_any(), &PostParams::default(), &map)
                        .await;
                }
            }
        }
    };

    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(touching)
    });
}

/// The latencies of a round, and the host's largest memory in it.
#[derive(Default)]
pub struct Times {
    plugins: Vec<Duration>,
    native: Vec<Duration>,
    /// The host's largest memory, in bytes.
    pub host_bytes: u64,
}

impl Times {
    /// Describes these latencies, and their ratios to the latencies without an attack.
    pub fn beside(&self, alone: &Self) -> String {
        let ratio = |part| percentile(&self.plugins, part) / percentile(&alone.plugins, part);
        let native = |part| percentile(&self.native, part) / percentile(&alone.native, part);

        format!(
            "{self}; to alone p50 {:.2}x p99 {:.2}x, the native one's {:.2}x {:.2}x",
            ratio(50),
            ratio(99),
            native(50),
            native(99)
        )
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99] = [50, 99].map(|part| percentile(&self.plugins, part));
        let [native50, native99] = [50, 99].map(|part| percentile(&self.native, part));

        write!(
            f,
            "p50 {p50:.1} ms p99 {p99:.1} ms of {}; native p50 {native50:.1} p99 {native99:.1} of {}; host {} MiB",
            self.plugins.len(),
            self.native.len(),
            self.host_bytes >> 20
        )
    }
}

/// Returns a percentile in milliseconds.
pub fn percentile(took: &[Duration], part: usize) -> f64 {
    let mut took = took.to_vec();
    took.sort_unstable();
    took.get(took.len() * part / 100)
        .map_or(0.0, |took| took.as_secs_f64() * 1e3)
}
