//! Code that is replaced again and again, each time with other controllers or indexes: nothing of
//! them is left behind.

use std::time::Instant;

use k8s_openapi::jiff::Timestamp;
use operetta_testkit::{
    AuditEvent, DropIn, Kind, LogLine, digest, eventually, kinds,
    wat_guest::{Guest, numbered},
};
use serde_json::{Value, json};

use crate::{Stage, install};

const RENAMED: Kind = Kind("test.operetta.dev/v1", "Renamed");
const INDEXED: Kind = Kind("test.operetta.dev/v1", "Indexed");

/// The number of swaps.
const ROUNDS: usize = 10;

/// Returns a plugin with two controllers of a kind, whose names have this prefix, and these
/// indexes.
fn code(kind: Kind, prefix: &str, indexes: &[Value]) -> Vec<u8> {
    let source = json!({"apiVersion": kind.0, "kind": kind.1, "namespaces": "Own"});
    let controller = |name: &str| json!({"name": format!("{prefix}-{name}"), "for": source});
    let manifest = json!({
        "apiVersion": "operetta.dev/v1alpha1", "kind": "Manifest",
        "controllers": [controller("a"), controller("b")], "indexes": indexes,
    });
    Guest::default().manifest(&manifest.to_string()).build()
}

impl Stage {
    /// Installs a kind, and waits until the API server serves it.
    async fn serve(&self, kind: Kind) {
        let control_plane = self.namespace.control_plane();
        install(control_plane, kind);
        let path = format!("/apis/{}/{}s", kind.0, kind.1.to_lowercase());
        eventually(&format!("the API server serves {path}"), async || {
            let output = control_plane.kubectl_output(&["get", "--raw", &path]);
            if output.status.success() {
                Ok(())
            } else {
                Err(String::from_utf8_lossy(&output.stderr).into_owned())
            }
        })
        .await;
    }

    /// Gives the Plugin `swapped` this code, and waits until both of its controllers have
    /// reconciled.
    async fn swap(&self, prefix: &str, wasm: Vec<u8>) {
        let namespace = &self.namespace;
        let drop_in = DropIn::new("swapped", wasm);

        if namespace.get(kinds::CONFIG_MAP, "swapped").await.is_some() {
            let code = drop_in.object();
            namespace
                .patch(
                    kinds::CONFIG_MAP,
                    "swapped",
                    json!({"binaryData": code["binaryData"]}),
                )
                .await;
        } else {
            namespace.drop_in(&drop_in).await;
        }

        let of_namespace = format!("namespace=\"{}\"", namespace.name());
        for name in ["a", "b"] {
            let controller = format!("controller=\"{prefix}-{name}\"");
            eventually(
                &format!("controller {prefix}-{name} reconciles"),
                async || match self.host.metric(
                    "controller_runtime_reconcile_total",
                    &[&of_namespace, &controller],
                ) {
                    count if count > 0.0 => Ok(()),
                    _ => Err(format!(
                        "{:?}",
                        namespace
                            .get(kinds::PLUGIN, "swapped")
                            .await
                            .map(|it| it["status"].clone())
                    )),
                },
            )
            .await;
        }
    }

    /// Returns a gauge of the informers of a kind.
    fn informers(&self, metric: &str, kind: Kind) -> f64 {
        self.host
            .metric(metric, &[&format!("kind=\"{}.{}\"", kind.1, kind.0)])
    }
}

#[tokio::test]
async fn controllers_renamed_by_swap_leave_nothing_behind() {
    let stage = Stage::new("renamed").await;
    stage.serve(RENAMED).await;
    stage
        .namespace
        .create_object(RENAMED, json!({"metadata": {"name": "one"}}))
        .await;

    for round in 0..ROUNDS {
        let prefix = format!("round-{round}");
        stage.swap(&prefix, code(RENAMED, &prefix, &[])).await;
    }

    let of_namespace = format!("namespace=\"{}\"", stage.namespace.name());
    let last = format!("\"round-{}-", ROUNDS - 1);
    eventually("only the last controllers have metrics", async || {
        let text = stage.host.metrics();
        let of_plugin = text
            .lines()
            .filter(|line| line.contains(&of_namespace) && line.contains("\"round-"));
        let left: Vec<&str> = of_plugin.filter(|line| !line.contains(&last)).collect();
        if left.is_empty() {
            Ok(())
        } else {
            Err(left.join("\n"))
        }
    })
    .await;

    assert!(stage.host.metrics().contains(&last));
    assert_eq!(
        stage.quota("operetta_quota_used", "quota=\"controllers\""),
        2.0
    );
    assert_eq!(stage.informers("operetta_informers", RENAMED), 1.0);

    let audit = stage.namespace.control_plane().audit();
    let ended = audit.done("watch", "renameds").count();
    let open = audit.open_watches("renameds").len();
    println!(
        "after {ROUNDS} swaps with new names: {open} watch open, {ended} ended, metrics of the last names only"
    );
    assert_eq!((open, ended), (1, 0), "one watch for all of them");
    stage.others_keep_working().await;

    // When the Plugin is deleted, its metrics end as well.
    stage.namespace.delete(kinds::CONFIG_MAP, "swapped").await;
    stage.namespace.until_gone(kinds::PLUGIN, "swapped").await;
    eventually("the deleted Plugin has no metrics", async || {
        let text = stage.host.metrics();
        let of_plugin =
            |line: &&str| line.contains(&of_namespace) && line.contains("plugin=\"swapped\"");
        let left: Vec<&str> = text.lines().filter(of_plugin).collect();
        if left.is_empty() {
            Ok(())
        } else {
            Err(left.join("\n"))
        }
    })
    .await;
}

#[tokio::test]
async fn indexes_by_swap_leave_nothing_behind() {
    let stage = Stage::new("indexed").await;
    stage.serve(INDEXED).await;

    for object in 0..20 {
        let fields: Value = (0..ROUNDS)
            .map(|round| (format!("f{round}"), json!(format!("{object:04}"))))
            .collect();
        stage
            .namespace
            .create_object(
                INDEXED,
                json!({"metadata": {"name": format!("o-{object}")}, "spec": fields}),
            )
            .await;
    }

    let bytes = || stage.informers("operetta_informer_bytes", INDEXED);
    let mut with_one = 0.0;
    for round in 0..ROUNDS {
        let prefix = format!("round-{round}");
        let path = format!(".spec.f{round}");
        let index =
            json!({"name": prefix, "apiVersion": INDEXED.0, "kind": INDEXED.1, "path": path});
        stage.swap(&prefix, code(INDEXED, &prefix, &[index])).await;

        if round == 0 {
            with_one = bytes();
        }
    }

    // Reconciles of replaced code have a second to end, and use its index until then.
    eventually("only the last index is left", async || match bytes() {
        now if now <= with_one => Ok(()),
        now => Err(format!("{now} bytes, and {with_one} with the first index")),
    })
    .await;

    println!(
        "{with_one} bytes with the first index, {} after {ROUNDS} swaps of it",
        bytes()
    );

    stage.swap("without", code(INDEXED, "without", &[])).await;
    eventually("no index is left", async || match bytes() {
        now if 0.0 < now && now < with_one => Ok(()),
        now => Err(format!("{now} bytes, and {with_one} with an index")),
    })
    .await;

    stage.others_keep_working().await;
}

/// A tenant that replaces code continually costs the host no more than one that does so every
/// second.
#[tokio::test]
async fn code_replaced_continually_is_loaded_every_second() {
    /// The replacements that are followed at once.
    const BURST: usize = 10;
    const TIMES: usize = 300;

    let stage = Stage::new("churn").await;
    let namespace = &stage.namespace;
    let source = json!({"apiVersion": "v1", "kind": "ConfigMap", "namespaces": "Own"});
    let guest = Guest::default()
        .controllers(&json!([{"name": "c", "for": source}]))
        .build();

    namespace
        .drop_in(&DropIn::new("churn", guest.clone()))
        .await;
    namespace
        .until_condition("churn", "Ready", "True", "Running")
        .await;

    let (began, since) = (Timestamp::now(), Instant::now());
    let code = |number: usize| numbered(&guest, number);
    for number in 0..TIMES {
        let object = DropIn::new("churn", code(number)).object();
        namespace
            .patch(
                kinds::CONFIG_MAP,
                "churn",
                json!({"binaryData": object["binaryData"]}),
            )
            .await;
    }

    let newest = digest(&code(TIMES - 1));
    let runs_newest = |plugin: &Value| {
        if plugin["status"]["digest"] == newest {
            Ok(())
        } else {
            Err(plugin["status"].to_string())
        }
    };

    namespace.until(kinds::PLUGIN, "churn", runs_newest).await;
    let took = since.elapsed();
    let is_load = |line: &&LogLine| line.message.starts_with("loaded ");
    let loads = stage
        .host
        .logs(namespace.name(), "churn")
        .iter()
        .filter(is_load)
        .count();

    let is_ours = |event: &&AuditEvent| {
        event.object_ref.namespace == namespace.name() && event.received() > began
    };
    let audit = namespace.control_plane().audit();
    let writes = audit.done("patch", "plugins").filter(is_ours).count();
    println!(
        "{TIMES} replacements of code in {took:?} caused {loads} loads and {writes} writes of the Plugin"
    );

    // The first load, the burst, one in each second begun, and the last.
    assert!(
        loads <= 1 + BURST + took.as_secs() as usize + 2,
        "{loads} loads in {took:?}"
    );

    stage.others_keep_working().await;
}
