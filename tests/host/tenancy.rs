//! Consents and rights: what a plugin must be given before it runs, what it then sees, and what
//! becomes of it when something is taken away. Every refusal prints the command that ends it, and
//! the tests run that command.

use std::time::Duration;

use operetta_testkit::{DropIn, Kind, eventually, guest, kinds, throughout, within};
use serde_json::json;

use crate::{IN_EFFECT, Stage, manifest, run_what_it_says};

const SERVICE_ACCOUNT: Kind = Kind("v1", "ServiceAccount");
fn touch(account: &str) -> DropIn {
    DropIn::new("touch", guest("fixture-touch-v1")).service_account(account)
}

#[tokio::test]
async fn namespace_without_opt_in_gets_an_event() {
    let stage = Stage::new("opt-in").await;
    let name = stage.namespace.name().to_owned();
    stage
        .namespace
        .kubectl(&["label", "namespace", &name, "operetta.dev/plugins-"]);

    // Gives the host time to see the change.
    tokio::time::sleep(Duration::from_secs(1)).await;
    stage.namespace.create_touchable("target").await;
    stage.namespace.drop_in(&touch("plugin")).await;

    let message = stage
        .namespace
        .until_event(kinds::CONFIG_MAP, "touch", "NamespaceNotEnabled")
        .await;
    assert_eq!(
        stage.namespace.get(kinds::PLUGIN, "touch").await,
        None,
        "no Plugin is made for it"
    );

    // A Plugin made by hand does not get further.
    let spec = json!({"source": {"configMap": {"name": "touch"}}, "serviceAccountName": "plugin"});
    stage
        .namespace
        .create_object(
            kinds::PLUGIN,
            json!({"metadata": {"name": "by-hand"}, "spec": spec}),
        )
        .await;
    stage
        .namespace
        .until_degraded(
            "by-hand",
            "NamespaceNotEnabled",
            &["kubectl label namespace"],
        )
        .await;

    stage.namespace.delete(kinds::PLUGIN, "by-hand").await;

    run_what_it_says(&stage.namespace, &message);
    stage.namespace.until_touched("target", "v1").await;

    // When the opt-in is taken back, everything in the namespace stops.
    stage
        .namespace
        .kubectl(&["label", "namespace", &name, "operetta.dev/plugins-"]);
    stage
        .namespace
        .until_degraded("touch", "NamespaceNotEnabled", &[&name])
        .await;

    stage.namespace.create_touchable("later").await;
    throughout(Duration::from_secs(2), "nothing is touched", async || {
        let later = stage
            .namespace
            .get(kinds::CONFIG_MAP, "later")
            .await
            .ok_or("gone")?;
        if later["data"]["touched"].is_null() {
            Ok(())
        } else {
            Err(later.to_string())
        }
    })
    .await;

    stage.others_keep_working().await;
    stage
        .namespace
        .kubectl(&["label", "namespace", &name, "operetta.dev/plugins=enabled"]);
    stage.namespace.until_touched("later", "v1").await;
}

#[tokio::test]
async fn plugin_acts_as_a_consenting_service_account() {
    let stage = Stage::new("consent").await;
    stage.namespace.create_touchable("target").await;

    for account in ["default", "no-such-account"] {
        let mut plugin = touch(account).object();
        plugin["metadata"]["name"] = json!(format!("as-{account}"));
        stage
            .namespace
            .create_object(kinds::CONFIG_MAP, plugin)
            .await;
    }

    stage
        .namespace
        .until_degraded(
            "as-default",
            "ServiceAccountRequired",
            &["default", "allow-plugins"],
        )
        .await;

    let missing = stage
        .namespace
        .until_degraded(
            "as-no-such-account",
            "ServiceAccountNotFound",
            &["no-such-account"],
        )
        .await;

    run_what_it_says(&stage.namespace, &missing);
    stage
        .namespace
        .until_degraded(
            "as-no-such-account",
            "Forbidden",
            &["may not list and watch configmaps"],
        )
        .await;

    let account = json!({"metadata": {"name": "silent", "annotations": {"operetta.dev/allow-plugins": "another"}}});
    stage
        .namespace
        .create_object(SERVICE_ACCOUNT, account)
        .await;
    stage.namespace.drop_in(&touch("silent")).await;

    let message = stage
        .namespace
        .until_degraded("touch", "ConsentMissing", &["another,touch"])
        .await;
    run_what_it_says(&stage.namespace, &message);

    let message = stage
        .namespace
        .until_degraded(
            "touch",
            "Forbidden",
            &["--verb=get,list,watch", "kubectl create role"],
        )
        .await;
    run_what_it_says(&stage.namespace, &message);

    // It is woken now, and the API server refuses what it then does.
    let user = format!("system:serviceaccount:{}:silent", stage.namespace.name());
    let words = [
        user.as_str(),
        "cannot update resource",
        "kubectl create role",
    ];
    let message = stage
        .namespace
        .until_degraded("touch", "ReconcileFailing", &words)
        .await;

    let events = async |words: &[&str]| {
        eventually(&format!("an Event Forbidden with {words:?}"), async || {
            let events = stage.namespace.list(kinds::EVENT).await;
            let of_plugin = events
                .iter()
                .filter(|event| event["involvedObject"]["kind"] == "Plugin");
            let mut texts = of_plugin
                .filter(|event| event["reason"] == "Forbidden")
                .map(|event| event["message"].to_string());
            let found = texts.any(|text| words.iter().all(|word| text.contains(word)));
            if found {
                Ok(())
            } else {
                Err(format!("{events:?}"))
            }
        })
        .await;
    };

    events(&["may not list and watch configmaps", "kubectl create role"]).await;
    events(&["cannot update resource", "kubectl create role"]).await;

    run_what_it_says(&stage.namespace, &message);
    stage.namespace.until_touched("target", "v1").await;
    stage
        .namespace
        .until_condition("touch", "Degraded", "False", "AsExpected")
        .await;
    stage.others_keep_working().await;
}

#[tokio::test]
async fn another_namespace_s_service_account_cannot_be_named() {
    let stage = Stage::new("names").await;
    let victim = Stage::new("victim").await;
    let theirs = victim.namespace.name();

    for (at, account) in [
        format!("{theirs}:plugin"),
        format!("../{theirs}/plugin"),
        format!("{theirs}/plugin"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut plugin = touch(&account).object();
        plugin["metadata"]["name"] = json!(format!("touch-{at}"));
        stage
            .namespace
            .create_object(kinds::CONFIG_MAP, plugin)
            .await;

        let message = stage
            .namespace
            .until_event(kinds::CONFIG_MAP, &format!("touch-{at}"), "InvalidPlugin")
            .await;
        assert!(message.contains("spec.serviceAccountName"), "{message}");
    }

    stage.others_keep_working().await;
}

#[tokio::test]
async fn revoked_permission_ends_reads_and_shows_in_status() {
    let stage = Stage::new("revoked").await;
    stage.namespace.drop_in(&touch("plugin")).await;
    stage.namespace.create_touchable("before").await;
    stage.namespace.until_touched("before", "v1").await;

    stage
        .namespace
        .kubectl(&["delete", "rolebinding", "plugin-may-do-all"]);
    within(IN_EFFECT, "the status", async || {
        match stage.namespace.plugin_condition("touch", "Degraded").await {
            Some(now) if now.status == "True" && now.reason == "Forbidden" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;

    stage.namespace.create_touchable("meanwhile").await;
    throughout(Duration::from_secs(2), "it is not reconciled", async || {
        let lines = stage.host.logs(stage.namespace.name(), "touch");
        if lines
            .iter()
            .any(|line| format!("{line:?}").contains("meanwhile"))
        {
            Err(format!("{lines:?}"))
        } else {
            Ok(())
        }
    })
    .await;

    stage.others_keep_working().await;
    stage.namespace.allow_all("plugin").await;
    stage.namespace.until_touched("meanwhile", "v1").await;
    stage
        .namespace
        .until_condition("touch", "Ready", "True", "Running")
        .await;
}

#[tokio::test]
async fn withdrawn_consent_stops_in_flight_reconciles() {
    let stage = Stage::new("in-flight").await;
    stage.namespace.create_touchable("target").await;

    let flood =
        DropIn::new("flood", guest("fixture-misbehave")).config(json!({"do": "call-flood"}));
    stage.namespace.drop_in(&flood).await;

    let user = format!("system:serviceaccount:{}:plugin", stage.namespace.name());
    let reads = || {
        let audit = stage.namespace.control_plane().audit();
        audit
            .done("get", "configmaps")
            .filter(|event| event.impersonated_user.username == user)
            .count()
    };

    within(Duration::from_secs(60), "it reads", async || {
        if reads() > 100 {
            Ok(())
        } else {
            Err(String::new())
        }
    })
    .await;

    stage.namespace.kubectl(&[
        "annotate",
        "serviceaccount",
        "plugin",
        "operetta.dev/allow-plugins-",
    ]);
    stage
        .namespace
        .until_degraded("flood", "ConsentMissing", &["does not consent"])
        .await;

    let then = reads();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let late = reads() - then;
    println!("{then} reads with consent, {late} afterwards");
    assert!(late <= 1, "{late} reads after consent was gone");

    stage.others_keep_working().await;
}

#[tokio::test]
async fn unpinned_digest_is_not_run() {
    let stage = Stage::new("pinned").await;
    let code = |version: &str| DropIn::new("code", guest(version)).code();
    let digest = |version: &str| operetta_testkit::digest(&guest(version));

    stage
        .namespace
        .create_object(kinds::CONFIG_MAP, code("fixture-touch-v1"))
        .await;

    let spec = json!({
        "source": {"configMap": {"name": "code"}}, "serviceAccountName": "plugin", "digest": digest("fixture-touch-v1"),
    });
    stage
        .namespace
        .create_object(
            kinds::PLUGIN,
            json!({"metadata": {"name": "touch"}, "spec": spec}),
        )
        .await;

    stage.namespace.create_touchable("first").await;
    stage.namespace.until_touched("first", "v1").await;

    // Whoever may change ConfigMaps tries to run something else.
    stage.namespace.delete(kinds::CONFIG_MAP, "code").await;
    stage
        .namespace
        .create_object(kinds::CONFIG_MAP, code("fixture-touch-v2"))
        .await;

    let words = [digest("fixture-touch-v2"), digest("fixture-touch-v1")];
    stage
        .namespace
        .until_degraded("touch", "DigestMismatch", &[&words[0], &words[1]])
        .await;

    let pinned = json!({"spec": {"digest": words[0]}});
    stage.namespace.patch(kinds::PLUGIN, "touch", pinned).await;
    stage.namespace.until_touched("first", "v2").await;
    stage
        .namespace
        .until_condition("touch", "Degraded", "False", "AsExpected")
        .await;
}

#[tokio::test]
async fn edited_status_is_corrected_and_not_trusted() {
    let stage = Stage::new("forged").await;
    stage.namespace.drop_in(&touch("plugin")).await;
    stage
        .namespace
        .until_condition("touch", "Ready", "True", "Running")
        .await;

    let forged =
        json!({"status": {"digest": "sha256:forged", "host": "elsewhere:1", "conditions": []}})
            .to_string();
    stage.namespace.kubectl(&[
        "patch",
        "plugin",
        "touch",
        "--subresource=status",
        "--type=merge",
        "-p",
        &forged,
    ]);

    stage
        .namespace
        .until(
            kinds::PLUGIN,
            "touch",
            |plugin| match plugin["status"]["digest"].as_str() {
                Some(digest) if *digest == operetta_testkit::digest(&guest("fixture-touch-v1")) => {
                    Ok(())
                }
                other => Err(format!("the digest is {other:?}")),
            },
        )
        .await;
    stage
        .namespace
        .until_condition("touch", "Ready", "True", "Running")
        .await;
}

#[tokio::test]
async fn rights_in_one_namespace_are_a_view_of_that_one() {
    let stage = Stage::new("view").await;
    let other = Stage::new("not-in-view").await;

    for namespace in [&stage.namespace, &other.namespace] {
        namespace.create_touchable("everywhere").await;
    }

    // One that watches all namespaces.
    let source =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": "operetta-fixture=true"});
    let guest = operetta_testkit::wat_guest::Guest::default()
        .controllers(&json!([{"name": "c", "for": source}]))
        .reconcile("(call $retry (i32.const 64) (i32.const 2))");
    stage
        .namespace
        .drop_in(&DropIn::new("wide", guest.build()))
        .await;

    let message = stage
        .namespace
        .until_condition("wide", "Ready", "True", "Running")
        .await;
    assert!(
        message.contains(&format!(
            "in these namespaces only: {}",
            stage.namespace.name()
        )),
        "{message}"
    );

    stage
        .namespace
        .until(kinds::PLUGIN, "wide", |plugin| {
            match &plugin["status"]["controllers"][0]["failing"] {
                failing if *failing == 1 => Ok(()),
                failing => Err(format!("{failing} keys fail, not 1")),
            }
        })
        .await;

    other
        .namespace
        .delete(kinds::CONFIG_MAP, "everywhere")
        .await;
}

#[tokio::test]
async fn report_of_load_hides_that_others_run_the_code() {
    // No other test has this component.
    let guest = operetta_testkit::wat_guest::Guest::default().manifest(&manifest(kinds::POD));
    let wasm = guest.text("code of two tenants").build();

    let mut reports = Vec::new();
    for prefix in ["first-tenant", "second-tenant"] {
        let stage = Stage::new(prefix).await;
        stage
            .namespace
            .drop_in(&DropIn::new("same", wasm.clone()))
            .await;
        stage
            .namespace
            .until_condition("same", "Ready", "True", "Running")
            .await;

        let event = stage
            .namespace
            .until_event(kinds::PLUGIN, "same", "Loaded")
            .await;
        let lines = stage.host.logs(stage.namespace.name(), "same");
        let loaded = lines
            .into_iter()
            .map(|line| line.message)
            .find(|message| message.contains("loaded"));
        reports.push((event, loaded));
    }

    println!(
        "code that was compiled: {:?}; that was in the cache: {:?}",
        reports[0], reports[1]
    );
    assert_eq!(
        reports[0], reports[1],
        "the second tenant learns that somebody has this code"
    );
}
