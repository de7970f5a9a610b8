//! A key that waits because it failed is retried at once when the reason may be gone. The delays
//! are a quarter of an hour from the first failure on, longer than any test.

use operetta_testkit::{ControlPlane, DropIn, Kind, LogLine, eventually, kinds, wat_guest::Guest};
use serde_json::json;

use crate::{Stage, manifest};

const NAME: &str = "waits";

/// A plugin that may fail, and then waits.
fn guest(kind: Kind, reconcile: &str) -> Guest {
    let mut manifest: serde_json::Value = serde_json::from_str(&manifest(kind)).expect("JSON");
    manifest["controllers"][0]["rateLimiter"] =
        json!({"baseDelayMs": 900_000, "maxDelayMs": 900_000});
    Guest::default()
        .manifest(&manifest.to_string())
        .text("failed on purpose")
        .reconcile(reconcile)
}

/// A plugin that fails for each Secret. Another number makes another digest.
fn fails(number: u32) -> Vec<u8> {
    let version = format!("(drop (i32.const {number}))");
    guest(
        kinds::SECRET,
        &format!("{version} (call $retry (global.get $text) (global.get $text_len))"),
    )
    .build()
}

/// A plugin that fails unless it can read the Pod of its key.
fn reads() -> Vec<u8> {
    guest(
        kinds::POD,
        "(call $get_own (local.get $namespace) (local.get $namespace_len) (local.get $name) (local.get $name_len))
         (if (result i32) (i32.load8_u (i32.const 256))
           (then (call $retry (global.get $text) (global.get $text_len)))
           (else (i32.const 16)))",
    )
    .build()
}

impl Stage {
    /// Drops the plugin in, and waits until it watches: what it then fails of is an event, and no
    /// list.
    async fn watches(&self, plugin: &str, wasm: Vec<u8>) {
        self.namespace.drop_in(&DropIn::new(plugin, wasm)).await;
        self.namespace
            .until_condition(plugin, "Ready", "True", "Running")
            .await;
    }

    async fn secret(&self, name: &str) {
        self.namespace
            .create_object(kinds::SECRET, json!({"metadata": {"name": name}}))
            .await;
    }

    /// Returns the number of retries at each failed reconcile of an object.
    fn failures(&self, plugin: &str, name: &str) -> Vec<String> {
        let key = format!("{}/{name}", self.namespace.name());
        let lines = self.host.logs(self.namespace.name(), plugin);
        let failed = |line: &&LogLine| {
            line.level == "error" && line.key == key && line.message.contains("failed")
        };
        let retries = |line: &LogLine| {
            let field = line.fields.iter().find(|(name, _)| name == "retries");
            field.map(|(_, value)| value.clone()).unwrap_or_default()
        };
        lines.iter().filter(failed).map(retries).collect()
    }

    /// Waits until reconciles of an object have failed this often, and returns the number of
    /// retries at each.
    async fn until_failed(&self, plugin: &str, name: &str, times: usize) -> Vec<String> {
        eventually(&format!("{name} fails {times} times"), async || {
            let found = self.failures(plugin, name);
            if found.len() == times {
                Ok(found)
            } else {
                let lines = self.host.logs(self.namespace.name(), plugin);
                Err(format!("{lines:?}"))
            }
        })
        .await
    }
}

#[tokio::test]
async fn new_code_ends_the_backoff_of_its_keys() {
    let stage = Stage::new("swap-retries").await;
    stage.watches("waits", fails(1)).await;
    stage.secret(NAME).await;
    stage.until_failed("waits", NAME, 1).await;
    // No new list enqueues a key whose object is gone.
    stage.namespace.delete(kinds::SECRET, NAME).await;
    stage.until_failed("waits", NAME, 2).await;

    let newer = DropIn::new("waits", fails(2)).object();
    stage
        .namespace
        .patch(
            kinds::CONFIG_MAP,
            "waits",
            json!({"binaryData": newer["binaryData"]}),
        )
        .await;

    let retries = stage.until_failed("waits", NAME, 3).await;
    assert_eq!(
        retries,
        ["0", "1", "0"],
        "the failures of the old code are forgotten"
    );

    stage.others_keep_working().await;
}

#[tokio::test]
async fn regained_permission_ends_the_backoff() {
    let host = crate::host().await;
    let namespace = ControlPlane::shared().await.namespace("regained").await;
    let stage = Stage { host, namespace };
    stage.namespace.consenting("plugin").await;

    let role = |name: &str, verbs: &str| {
        let verbs = format!("--verb={verbs}");
        stage
            .namespace
            .kubectl(&["create", "role", name, &verbs, "--resource=pods"]);
        let account = format!("--serviceaccount={}:plugin", stage.namespace.name());
        stage.namespace.kubectl(&[
            "create",
            "rolebinding",
            name,
            &format!("--role={name}"),
            &account,
        ]);
    };

    role("watches", "list,watch");
    let spec = json!({"containers": [{"name": "c", "image": "nginx"}]});
    stage
        .namespace
        .create_object(
            kinds::POD,
            json!({"metadata": {"name": NAME}, "spec": spec}),
        )
        .await;
    stage
        .namespace
        .drop_in(&DropIn::new("waits", reads()))
        .await;

    let failing =
        async |count: u64| {
            stage
                .namespace
                .until(Kind("operetta.dev/v1alpha1", "Plugin"), "waits", |plugin| {
                    match plugin["status"]["controllers"][0]["failing"]
                        .as_u64()
                        .unwrap_or_default()
                    {
                        now if now == count => Ok(()),
                        now => Err(format!("{now} keys fail")),
                    }
                })
                .await;
        };
    failing(1).await;
    let before = stage.failures("waits", NAME);

    role("unrelated", "delete");
    role("reads", "get");
    failing(0).await;
    assert_eq!(
        stage.failures("waits", NAME),
        before,
        "the right came before the retry"
    );

    let lines = host.logs(stage.namespace.name(), "waits");
    let says = |line: &&LogLine| {
        line.message.contains("may now get pods in namespace") && line.level == "info"
    };
    assert_eq!(lines.iter().filter(says).count(), 1, "{lines:?}");

    stage.others_keep_working().await;
}

#[tokio::test]
async fn retry_command_reconciles_failed_keys_now() {
    let stage = Stage::new("retry-command").await;
    stage.watches("waits", fails(1)).await;
    for name in ["one", "two"] {
        stage.secret(name).await;
    }

    for name in ["one", "two"] {
        stage.until_failed("waits", name, 1).await;
    }

    let retry = |keys: &[&str]| {
        let output = stage
            .host
            .run(&[&["retry", "waits", "-n", stage.namespace.name()], keys].concat());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };

    let done = |text: &str| (Some(0), text.to_owned(), String::new());
    assert_eq!(
        retry(&[]),
        done("plugin.operetta.dev/waits retried (2 keys)")
    );
    stage.until_failed("waits", "one", 2).await;
    assert_eq!(
        stage.until_failed("waits", "two", 2).await,
        ["0", "0"],
        "the backoff begins anew"
    );

    let key = format!("{}/two", stage.namespace.name());
    assert_eq!(
        retry(&["two", &key]),
        done("plugin.operetta.dev/waits retried (2 keys)")
    );
    stage.until_failed("waits", "two", 3).await;
    stage.until_failed("waits", "one", 2).await;

    let (code, _, error) = retry(&["absent", "one"]);
    assert!(
        code == Some(1) && error.contains("absent") && error.ends_with("(KeyNotFound)"),
        "{error}"
    );
    stage.until_failed("waits", "one", 3).await;
}
