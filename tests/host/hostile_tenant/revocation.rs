//! Withdrawn consent takes effect at once, even if the host is busy.

use std::time::Duration;

use operetta_testkit::{
    AuditEvent, ControlPlane, DropIn, Host, HostOptions, digest, eventually, guest, kinds,
    wat_guest::{Guest, numbered},
};
use serde_json::{Value, json};

use crate::Stage;

/// The longest time from the withdrawal until the last write of the plugin, by the API server's
/// clock.
const LIMIT: Duration = Duration::from_secs(1);

/// Returns write requests that take ten seconds or longer.
fn writes(namespace: &str) -> Vec<Value> {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/target");
    let write = |number: u32| {
        json!({
            "method": "PATCH", "path": path, "contentType": "application/merge-patch+json",
            "body": format!(r#"{{"data":{{"number":"{number}"}}}}"#),
        })
    };

    (0..3_500).map(write).collect()
}

impl Stage {
    /// Runs a plugin that writes without a pause, and waits for its first writes.
    async fn writer(&self) {
        let namespace = &self.namespace;
        namespace.create_touchable("target").await;
        let config = json!({"do": "send", "requests": writes(namespace.name())});
        namespace
            .drop_in(&DropIn::compressed("writer", &guest("fixture-misbehave")).config(config))
            .await;
        self.until_writing().await;
    }

    /// Waits until the plugin has made more than 20 writes.
    async fn until_writing(&self) {
        let number = |target: &Value| {
            target["data"]["number"]
                .as_str()
                .and_then(|text| text.parse::<u32>().ok())
        };

        let is_writing = |target: &Value| {
            number(target)
                .filter(|number| *number > 20)
                .map(drop)
                .ok_or_else(|| format!("{}", target["data"]))
        };

        self.namespace
            .until(kinds::CONFIG_MAP, "target", is_writing)
            .await;
    }

    /// Checks that the API server received the plugin's last write at most [`LIMIT`] after the
    /// test's last request of this verb for an object of the namespace. Returns the time from that
    /// request to the write in seconds, which is negative if the write came first.
    ///
    /// # Panics
    /// Panics if the last write came later.
    async fn stopped_writing_after(&self, verb: &str, resource: &str, name: &str) -> f64 {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let namespace = self.namespace.name();
        let audit = self.namespace.control_plane().audit();

        let of_object = |event: &&AuditEvent| {
            event.object_ref.namespace == namespace && event.object_ref.name == name
        };

        let withdrawn = audit
            .done(verb, resource)
            .filter(of_object)
            .map(AuditEvent::at)
            .max()
            .expect("a request");
        let last = audit
            .writes_in(namespace)
            .map(AuditEvent::received)
            .max()
            .expect("writes");

        let late = last.duration_since(withdrawn);
        assert!(
            late.as_secs_f64() <= LIMIT.as_secs_f64(),
            "the last write came {late} after the withdrawal"
        );
        late.as_secs_f64()
    }
}

/// `WITHDRAWALS=20` repeats the test that often, with fifty slow plugins instead of ten.
#[tokio::test]
async fn withdrawn_consent_ends_writes_while_slow_plugins_compile() {
    let rounds = std::env::var("WITHDRAWALS").map_or(1, |text| text.parse().expect("a number"));
    let plugins = if rounds > 1 { 50 } else { 10 };
    let stage = Stage::new("withdrawn").await;

    for round in 0..rounds {
        if round == 0 {
            stage.writer().await;
        } else {
            stage
                .namespace
                .patch(
                    kinds::CONFIG_MAP,
                    "target",
                    json!({"data": {"number": "0"}}),
                )
                .await;
            stage
                .namespace
                .patch(kinds::SERVICE_ACCOUNT, "plugin", consent(json!("*")))
                .await;
            stage.until_writing().await;
        }

        let compiling = stage
            .namespace
            .control_plane()
            .namespace("slow-compiles")
            .await;

        for number in 0..plugins {
            let wasm = Guest::default()
                .text(&format!("slow {round} {number}"))
                .with_functions(3_000)
                .build();
            compiling
                .drop_in(&DropIn::compressed(&format!("slow-{number}"), &wasm))
                .await;
        }

        eventually("each drop-in ConfigMap has a Plugin", async || {
            let found = compiling.list(kinds::PLUGIN).await.len();
            if found == plugins {
                Ok(())
            } else {
                Err(format!("{found} Plugins"))
            }
        })
        .await;

        stage
            .namespace
            .patch(kinds::SERVICE_ACCOUNT, "plugin", consent(Value::Null))
            .await;
        let late = stage
            .stopped_writing_after("patch", "serviceaccounts", "plugin")
            .await;
        println!("round {round}: the last write came {late:.3} s after the withdrawal");
        stage
            .namespace
            .until_degraded("writer", "ConsentMissing", &["operetta.dev/allow-plugins"])
            .await;

        compiling.delete_all(kinds::CONFIG_MAP).await;
    }

    stage.others_keep_working().await;
}

#[tokio::test]
async fn withdrawn_consent_ends_writes_during_swap_of_code() {
    let stage = Stage::new("withdrawn-swap").await;
    stage.writer().await;
    let other = numbered(&guest("fixture-misbehave"), 1);
    let swapped = DropIn::compressed("writer", &other).object();

    stage
        .namespace
        .patch(
            kinds::CONFIG_MAP,
            "writer",
            json!({"binaryData": swapped["binaryData"]}),
        )
        .await;

    let is_swapped = |plugin: &Value| {
        if plugin["status"]["digest"] == digest(&other) {
            Ok(())
        } else {
            Err(plugin["status"].to_string())
        }
    };

    stage
        .namespace
        .until(kinds::PLUGIN, "writer", is_swapped)
        .await;

    // The old code may still be writing, and the new code writes as well.
    stage
        .namespace
        .patch(kinds::SERVICE_ACCOUNT, "plugin", consent(Value::Null))
        .await;

    let late = stage
        .stopped_writing_after("patch", "serviceaccounts", "plugin")
        .await;
    println!("the last write of the old and the new code came {late:.3} s after the withdrawal");

    stage
        .namespace
        .until_degraded("writer", "ConsentMissing", &["operetta.dev/allow-plugins"])
        .await;
    stage.others_keep_working().await;
}

#[tokio::test]
async fn disabled_namespace_ends_writes_at_once() {
    let stage = Stage::new("disabled").await;
    stage.writer().await;
    let control_plane = stage.namespace.control_plane();

    control_plane.kubectl(&[
        "label",
        "namespace",
        stage.namespace.name(),
        "operetta.dev/plugins-",
    ]);

    let late = stage
        .stopped_writing_after("patch", "namespaces", stage.namespace.name())
        .await;
    println!("the last write came {late:.3} s after the namespace was opted out");
}

#[tokio::test]
async fn suspended_plugin_ends_writes_after_its_drain() {
    let stage = Stage::new("suspended").await;
    stage.writer().await;
    let started = std::time::Instant::now();

    stage
        .namespace
        .patch(kinds::CONFIG_MAP, "writer", suspend("true"))
        .await;
    eventually("the plugin stops writing", async || {
        let number = || async {
            stage
                .namespace
                .get(kinds::CONFIG_MAP, "target")
                .await
                .expect("it")["data"]["number"]
                .clone()
        };
        let before = number().await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        let after = number().await;
        if before == after {
            Ok(())
        } else {
            Err(format!("{before} then {after}"))
        }
    })
    .await;

    assert!(
        started.elapsed() < Duration::from_secs(10),
        "{:?}",
        started.elapsed()
    );

    // When the plugin is resumed, it writes again.
    stage
        .namespace
        .patch(kinds::CONFIG_MAP, "writer", suspend("false"))
        .await;

    let before = stage
        .namespace
        .get(kinds::CONFIG_MAP, "target")
        .await
        .expect("it")["data"]["number"]
        .clone();

    let writes_again = |target: &Value| {
        if target["data"]["number"] == before {
            Err(format!("still {before}"))
        } else {
            Ok(())
        }
    };

    stage
        .namespace
        .until(kinds::CONFIG_MAP, "target", writes_again)
        .await;
}

/// Consent belongs to the ServiceAccount and not to its name.
#[tokio::test]
async fn recreated_service_account_has_to_consent_again() {
    let stage = Stage::new("recreated").await;
    stage.writer().await;
    let namespace = &stage.namespace;
    namespace.kubectl(&["delete", "serviceaccount", "plugin"]);

    namespace
        .create_object(
            kinds::SERVICE_ACCOUNT,
            json!({"metadata": {"name": "plugin"}}),
        )
        .await;

    let late = stage
        .stopped_writing_after("delete", "serviceaccounts", "plugin")
        .await;
    println!("the last write came {late:.3} s after the ServiceAccount was deleted");

    namespace
        .until_degraded("writer", "ConsentMissing", &["operetta.dev/allow-plugins"])
        .await;

    // With the consent of the new one it goes on.
    namespace
        .patch(
            kinds::CONFIG_MAP,
            "target",
            json!({"data": {"number": "0"}}),
        )
        .await;
    namespace
        .patch(kinds::SERVICE_ACCOUNT, "plugin", consent(json!("*")))
        .await;

    stage.until_writing().await;
    stage.others_keep_working().await;
}

/// While a namespace is deleted, its plugins go before their ServiceAccounts do, and nobody else
/// notices.
#[tokio::test]
async fn deleted_namespace_takes_its_plugins_with_it() {
    let control_plane = ControlPlane::with_controllers().await;
    let host = Host::start(control_plane, &HostOptions::default()).await;
    let doomed = control_plane.namespace("doomed").await;
    let neighbour = control_plane.namespace("beside-doomed").await;

    for namespace in [&doomed, &neighbour] {
        namespace.allow_all("plugin").await;
        namespace
            .drop_in(&DropIn::new("touch", guest("fixture-touch-v1")))
            .await;
        namespace.create_touchable("before").await;
        namespace.until_touched("before", "v1").await;
    }

    control_plane.kubectl(&["delete", "namespace", doomed.name(), "--timeout=60s"]);
    eventually("the host has no metrics of the namespace", async || {
        let of_namespace = format!("namespace=\"{}\"", doomed.name());
        let metrics = host.metrics();
        metrics
            .lines()
            .find(|line| line.contains(&of_namespace))
            .map_or(Ok(()), |line| Err(line.to_owned()))
    })
    .await;

    neighbour.create_touchable("after").await;
    neighbour.until_touched("after", "v1").await;
    host.assert_sound();
}

fn consent(value: Value) -> Value {
    json!({"metadata": {"annotations": {"operetta.dev/allow-plugins": value}}})
}

fn suspend(value: &str) -> Value {
    json!({"metadata": {"annotations": {"operetta.dev/suspend": value}}})
}
