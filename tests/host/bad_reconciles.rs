//! Reconciles that misbehave: each is ended, shows in the Plugin's status, and hurts nobody else.
//!
//! The guest is `fixture-misbehave`; it does what its Plugin's config says. These Plugins are made
//! by hand, with tight limits, and not by dropping a ConfigMap in.

use std::time::Duration;

use operetta_testkit::{DropIn, eventually, guest, kinds, throughout, wat_guest::Guest};
use serde_json::{Value, json};

use crate::{Stage, manifest};

impl Stage {
    /// A namespace where `misbehave` does one thing with the ConfigMap `target`.
    async fn misbehaving(behaviour: &str) -> Self {
        Self::misbehaving_for(behaviour, 2).await
    }

    /// The same, with a timeout of the reconcile in seconds.
    async fn misbehaving_for(behaviour: &str, timeout: u32) -> Self {
        let stage = Self::new(&format!("does-{behaviour}")).await;
        let code = DropIn::new("code", guest("fixture-misbehave")).code();
        stage.namespace.create_object(kinds::CONFIG_MAP, code).await;
        stage.namespace.create_touchable("target").await;

        let spec = json!({
            "source": {"configMap": {"name": "code"}},
            "serviceAccountName": "plugin",
            "config": {"do": behaviour},
            "limits": {"memory": "16Mi", "timeoutSeconds": timeout, "hostCalls": 100},
        });
        let plugin = json!({"metadata": {"name": "bad"}, "spec": spec});
        stage.namespace.create_object(kinds::PLUGIN, plugin).await;

        stage
    }

    /// Expects that the plugin is degraded and that others go on, and then suspends it so that it
    /// does not disturb the other tests.
    async fn is_degraded(&self, reason: &str, words: &[&str]) {
        let key = format!("{}/target", self.namespace.name());
        self.namespace
            .until_degraded("bad", reason, &[&[key.as_str()], words].concat())
            .await;
        self.others_keep_working().await;

        let status = self
            .namespace
            .get(kinds::PLUGIN, "bad")
            .await
            .expect("there")["status"]
            .clone();
        assert_eq!(status["controllers"][0]["failing"], 1, "{status}");

        self.suspend().await;
    }

    async fn suspend(&self) {
        self.namespace
            .patch(kinds::PLUGIN, "bad", json!({"spec": {"suspend": true}}))
            .await;
        self.namespace
            .until_condition("bad", "Ready", "False", "Suspended")
            .await;
    }
}

#[tokio::test]
async fn trap_is_reported_with_the_guests_last_message() {
    Stage::misbehaving("trap")
        .await
        .is_degraded("ReconcileTrapped", &["a fixture that traps"])
        .await;
}

#[tokio::test]
async fn a_reconcile_that_ends_its_process_ends_only_itself() {
    Stage::misbehaving("exit")
        .await
        .is_degraded("ReconcileTrapped", &["exit"])
        .await;
}

#[tokio::test]
async fn endless_loop_ends_at_deadline() {
    Stage::misbehaving("loop")
        .await
        .is_degraded("DeadlineExceeded", &["within 2 s", "limits.timeoutSeconds"])
        .await;
}

#[tokio::test]
async fn long_sleep_ends_at_deadline() {
    Stage::misbehaving("sleep-host")
        .await
        .is_degraded("DeadlineExceeded", &["within 2 s"])
        .await;
}

#[tokio::test]
async fn a_reconcile_that_recurses_without_end_traps() {
    Stage::misbehaving("recurse")
        .await
        .is_degraded("ReconcileTrapped", &[])
        .await;
}

#[tokio::test]
async fn endless_allocation_ends_at_limit() {
    Stage::misbehaving("allocate")
        .await
        .is_degraded("MemoryExceeded", &["16 MiB", "limits.memory"])
        .await;
}

#[tokio::test]
async fn request_flood_stops_at_quota() {
    // On a busy machine, a hundred live reads take longer than two seconds.
    let stage = Stage::misbehaving_for("call-flood", 60).await;
    stage
        .is_degraded("ReconcileFailing", &["limits.hostCalls"])
        .await;
}

#[tokio::test]
async fn a_flood_of_events_is_thinned_out() {
    let stage = Stage::misbehaving("event-flood").await;
    eventually("a few Events", async || {
        match stage.namespace.list(kinds::EVENT).await {
            events if events.len() >= 10 => Ok(()),
            events => Err(format!("{events:?}")),
        }
    })
    .await;
    let few = async || match stage.namespace.list(kinds::EVENT).await {
        events if events.len() <= 40 => Ok(()),
        events => Err(format!("{} Events", events.len())),
    };

    throughout(Duration::from_secs(2), "a burst of Events and no more", few).await;
    stage.others_keep_working().await;
}

#[tokio::test]
async fn a_flood_of_log_lines_is_cut_off() {
    let stage = Stage::misbehaving("log-flood").await;
    eventually("lines in `operetta logs`", async || {
        let lines = stage.host.logs(stage.namespace.name(), "bad");
        let own: Vec<_> = lines
            .iter()
            .filter(|line| line.message.starts_with("xxx"))
            .collect();
        if own.is_empty() {
            Err(format!("{lines:?}"))
        } else {
            Ok(())
        }
    })
    .await;

    stage.others_keep_working().await;
    let lines = stage.host.logs(stage.namespace.name(), "bad");
    assert!(lines.len() <= 1_000, "{} lines are kept", lines.len());

    stage.suspend().await;
}

#[tokio::test]
async fn an_update_with_a_stale_resource_version_is_a_conflict() {
    let stage = Stage::misbehaving("conflict").await;
    stage
        .is_degraded("ReconcileFailing", &["the object has been modified"])
        .await;
}

#[tokio::test]
async fn object_rejected_by_the_api_server_is_invalid() {
    let stage = Stage::misbehaving("invalid").await;
    stage
        .is_degraded(
            "TerminalError",
            &["is invalid", "spec.replicas", "spec.selector"],
        )
        .await;
}

#[tokio::test]
async fn endless_loop_is_reported_with_its_stack_before_its_deadline() {
    let stage = Stage::new("long-run").await;
    let spinning = Guest::default()
        .manifest(&manifest(kinds::SECRET))
        .with("(func $looks_for_ever (call $spin))");
    let spinning = spinning
        .reconcile("(call $looks_for_ever) i32.const 16")
        .build();

    stage
        .namespace
        .create_object(kinds::SECRET, json!({"metadata": {"name": "target"}}))
        .await;
    stage
        .plugin("bad", spinning, json!({"limits": {"timeoutSeconds": 60}}))
        .await;

    let said = stage
        .namespace
        .until_event(kinds::PLUGIN, "bad", "LongReconcile")
        .await;
    let key = format!(
        "running for 2 s in reconcile of {}/target",
        stage.namespace.name()
    );
    assert!(
        said.starts_with(&key) && said.contains("in spin < looks_for_ever < "),
        "{said}"
    );

    let lines = stage.host.logs(stage.namespace.name(), "bad");
    let same: Vec<_> = lines.iter().filter(|line| line.message == said).collect();
    assert!(
        same.len() == 1 && same[0].level == "warn" && same[0].controller == "c",
        "{lines:?}"
    );

    stage.suspend().await;
    stage.others_keep_working().await;
}

#[tokio::test]
async fn deleted_config_map_stops_its_plugin_until_recreated() {
    let stage = Stage::new("deleted-midway").await;
    let spinning = Guest::default().manifest(&manifest(kinds::POD)).text("spinning").reconcile(
        "(call $log (i32.const 2) (global.get $text) (global.get $text_len) (i32.const 0) (i32.const 0))
         (call $spin) i32.const 16",
    );
    stage
        .namespace
        .drop_in(&DropIn::new("bad", spinning.build()))
        .await;

    let spec = json!({"containers": [{"name": "c", "image": "nginx"}]});
    stage
        .namespace
        .create_object(kinds::POD, json!({"metadata": {"name": "p"}, "spec": spec}))
        .await;

    eventually("the reconcile is in flight", async || {
        let lines = stage.host.logs(stage.namespace.name(), "bad");
        if lines.iter().any(|line| line.message == "spinning") {
            Ok(())
        } else {
            Err(format!("{lines:?}"))
        }
    })
    .await;

    stage.namespace.delete(kinds::CONFIG_MAP, "bad").await;
    stage.namespace.until_gone(kinds::PLUGIN, "bad").await;
    stage.others_keep_working().await;

    stage
        .namespace
        .drop_in(&DropIn::new("bad", guest("fixture-touch-v1")))
        .await;

    stage.namespace.create_touchable("target").await;
    stage.namespace.until_touched("target", "v1").await;
}

#[tokio::test]
async fn what_the_api_server_warns_about_is_reported_once() {
    let stage = Stage::new("warned").await;
    let namespace = &stage.namespace;
    let path = format!("/api/v1/namespaces/{}/configmaps", namespace.name());
    let requests: Vec<Value> = ["one", "two", "three"]
        .iter()
        .map(|name| {
            let written = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name}, "datta": {"misspelled": "and dropped"},
            });
            json!({"method": "POST", "path": path, "body": written.to_string()})
        })
        .collect();
    let warned = DropIn::new("warned", guest("fixture-misbehave"))
        .config(json!({"do": "send", "requests": requests}));
    namespace.create_touchable("target").await;
    namespace.drop_in(&warned).await;

    let said = namespace
        .until_event(kinds::PLUGIN, "warned", "APIWarning")
        .await;
    assert!(
        said.contains(&format!("warns about POST {path}: ")) && said.contains("datta"),
        "{said}"
    );
    let lines = stage.host.logs(namespace.name(), "warned");
    let same: Vec<_> = lines.iter().filter(|line| line.message == said).collect();
    assert!(same.len() == 1 && same[0].level == "warn", "{lines:?}");
}
