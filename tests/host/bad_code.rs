//! Code that the host refuses: why is in the Plugin's status, in its log and in an Event on the
//! ConfigMap.

use std::time::{Duration, Instant};

use operetta_testkit::{
    ControlPlane, DropIn, Host, HostOptions, Kind, any_schema, crd, eventually, guest, kinds,
    wat_guest::{Guest, MANIFEST},
};
use serde_json::{Value, json};

use crate::{MAX_WASM_BYTES, Stage, install, manifest};

/// Drops the ConfigMap `bad` in, and expects that it is refused for this reason, in words that
/// contain these.
async fn refused(prefix: &str, drop_in: DropIn, reason: &str, words: &[&str]) {
    let stage = Stage::new(prefix).await;
    let Stage { host, namespace } = &stage;
    namespace.drop_in(&drop_in).await;

    let message = namespace.until_degraded("bad", reason, words).await;
    for type_ in ["Loaded", "Ready"] {
        let condition = namespace
            .plugin_condition("bad", type_)
            .await
            .expect("a condition");
        assert_eq!(condition.status, "False", "{type_}");
    }

    let event = namespace
        .until_event(kinds::CONFIG_MAP, "bad", reason)
        .await;
    assert_eq!(event, message);

    let lines = host.logs(namespace.name(), "bad");
    let not_loaded = format!("failed to load: {message}");
    assert!(
        lines
            .iter()
            .any(|line| line.level == "error" && line.message == not_loaded),
        "{lines:?}"
    );

    stage.others_keep_working().await;
}

fn bad(wasm: impl Into<Vec<u8>>) -> DropIn {
    DropIn::new("bad", wasm)
}

fn wat(text: &str) -> Vec<u8> {
    wat::parse_str(text).expect("text")
}

#[tokio::test]
async fn bytes_that_are_no_wasm_are_refused() {
    refused("no-wasm", bad(*b"hello"), "NotWasm", &["68 65 6c 6c"]).await;
}

#[tokio::test]
async fn a_core_module_is_told_how_to_become_a_component() {
    refused(
        "core-module",
        bad(wat("(module)")),
        "CoreModule",
        &["wasm-tools component new"],
    )
    .await;
}

#[tokio::test]
async fn a_component_without_reconcile_is_told_what_is_missing() {
    let words = ["operetta:controller/reconciler@0.1.0", "exports nothing"];
    refused(
        "no-reconcile",
        bad(wat("(component)")),
        "MissingExport",
        &words,
    )
    .await;
}

#[tokio::test]
async fn names_missing_import_and_offered_ones() {
    let guest = Guest::default().reconcile("(call $charge) i32.const 16");
    let words = [
        "acme:billing/charge@1.2.3",
        "provided: operetta:controller@0.1",
    ];
    refused(
        "unknown-import",
        bad(guest.build()),
        "MissingImport",
        &words,
    )
    .await;
}

#[tokio::test]
async fn a_describe_that_traps_is_refused() {
    let guest = Guest::default().describe("unreachable");
    refused(
        "describe-traps",
        bad(guest.build()),
        "DescribeTrapped",
        &["unreachable"],
    )
    .await;
}

#[tokio::test]
async fn a_describe_that_hangs_is_ended() {
    let guest = Guest::default().describe("(call $spin) i32.const 8");
    refused(
        "describe-hangs",
        bad(guest.build()),
        "DescribeTimedOut",
        &["10 s"],
    )
    .await;
}

#[tokio::test]
async fn a_describe_that_returns_no_json_is_refused() {
    let guest = Guest::default().manifest("hello");
    refused(
        "describe-no-json",
        bad(guest.build()),
        "InvalidManifest",
        &["expected value"],
    )
    .await;
}

#[tokio::test]
async fn a_manifest_with_an_unknown_field_is_told_where() {
    let guest = Guest::default().manifest(&MANIFEST.replace("\"for\"", "\"of\""));
    let words = ["controllers[0].of", "unknown field"];
    refused(
        "describe-unknown-field",
        bad(guest.build()),
        "InvalidManifest",
        &words,
    )
    .await;
}

#[tokio::test]
async fn refuses_oversized_plugin_plain_or_compressed() {
    let large = vec![0; MAX_WASM_BYTES + 1];
    let words = ["900000 bytes", "maxWasmBytes"];
    refused("too-large", bad(large.clone()), "TooLarge", &words).await;

    let packed = zstd::encode_all(large.as_slice(), 3).expect("packed");
    refused(
        "too-large-packed",
        DropIn::empty("bad").file("bad.wasm.zst", packed),
        "TooLarge",
        &words,
    )
    .await;
}

#[tokio::test]
async fn a_truncated_archive_is_refused() {
    let mut packed = zstd::encode_all(Guest::default().build().as_slice(), 3).expect("packed");
    packed.truncate(packed.len() / 2);
    let drop_in = DropIn::empty("bad").file("bad.wasm.zst", packed);
    refused(
        "truncated",
        drop_in,
        "DamagedArchive",
        &["bad.wasm.zst", "incomplete frame"],
    )
    .await;
}

#[tokio::test]
async fn two_components_in_one_config_map_are_refused_by_name() {
    let drop_in = bad(Guest::default().build()).file("other.wasm", Guest::default().build());
    refused(
        "two-files",
        drop_in,
        "SeveralWasmInConfigMap",
        &["bad.wasm, other.wasm", "keep one"],
    )
    .await;
}

#[tokio::test]
async fn a_config_map_without_a_component_is_refused() {
    let drop_in = DropIn::empty("bad").file("README", *b"hello");
    refused(
        "no-file",
        drop_in,
        "NoWasmInConfigMap",
        &["it has: no component"],
    )
    .await;
}

#[tokio::test]
async fn a_kind_that_does_not_exist_is_waited_for() {
    const LATER: Kind = Kind("test.operetta.dev/v1", "Later");
    let stage = Stage::new("kind-later").await;
    let guest = Guest::default()
        .manifest(&manifest(LATER))
        .reconcile("(call $retry (i32.const 64) (i32.const 2))");

    stage
        .namespace
        .drop_in(&DropIn::new("early", guest.build()))
        .await;

    let message = stage
        .namespace
        .until_condition("early", "Ready", "False", "KindNotFound")
        .await;

    assert!(
        message.contains("Later") && message.contains("is the CRD installed?"),
        "{message}"
    );
    stage.others_keep_working().await;

    install(stage.namespace.control_plane(), LATER);
    stage
        .namespace
        .until_condition("early", "Ready", "True", "Running")
        .await;
    stage
        .namespace
        .create_object(LATER, json!({"metadata": {"name": "one"}}))
        .await;
    stage
        .namespace
        .until_degraded("early", "ReconcileFailing", &["one"])
        .await;
}

#[tokio::test]
async fn misspelled_kind_is_reported_with_the_similar_one() {
    let stage = Stage::new("kind-misspelled").await;
    let guest = Guest::default().manifest(&manifest(Kind("apps/v1", "Deploymnt")));
    stage
        .namespace
        .drop_in(&DropIn::new("misspelled", guest.build()))
        .await;

    let message = stage
        .namespace
        .until_condition("misspelled", "Ready", "False", "KindNotFound")
        .await;
    assert!(
        message.contains("Deploymnt.apps/v1")
            && message.contains("did you mean Deployment in apps/v1?"),
        "{message}"
    );

    stage.others_keep_working().await;
}

/// Takes discovery from everybody but the hosts and the ServiceAccount `plugin` of a namespace.
fn restrict_discovery(control_plane: &ControlPlane, namespace: &str) {
    let role = ["create", "clusterrole", "operetta-discovery", "--verb=get"];
    let urls = ["--non-resource-url=/api,/api/*,/apis,/apis/*"];
    control_plane.kubectl(&[&role[..], &urls].concat());

    let binding = [
        "create",
        "clusterrolebinding",
        "operetta-discovery",
        "--clusterrole=operetta-discovery",
    ];
    let host = ["--serviceaccount=operetta-system:operetta"];
    control_plane.kubectl(&[&binding[..], &host].concat());

    let plugin = json!({"kind": "ServiceAccount", "namespace": namespace, "name": "plugin"});
    let subjects = json!({"subjects": [plugin]}).to_string();
    control_plane.kubectl(&[
        "patch",
        "clusterrolebinding",
        "system:discovery",
        "--type=merge",
        "-p",
        &subjects,
    ]);
}

#[tokio::test]
async fn missing_kind_suggests_only_what_the_account_may_discover() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let host = Host::start(&control_plane, &HostOptions::default()).await;
    let namespace = control_plane.namespace("discovery").await;
    namespace.allow_all("plugin").await;
    namespace.allow_all("blind").await;
    namespace.consenting("nobody").await;

    namespace.create_touchable("go").await;
    restrict_discovery(&control_plane, namespace.name());

    let asks = json!({"do": "send", "requests": [{"method": "GET", "path": "/apis/apps/v1"}]});
    for (account, status) in [("plugin", "200"), ("blind", "403")] {
        let name = format!("asks-{account}");
        let drop_in = DropIn::new(&name, guest("fixture-misbehave"))
            .config(asks.clone())
            .service_account(account);
        namespace.drop_in(&drop_in).await;
        eventually("the answer of discovery", async || {
            let lines = host.logs(namespace.name(), &name);
            let fields = lines
                .iter()
                .flat_map(|line| &line.fields)
                .find(|(name, _)| name == "status");
            if fields.is_some_and(|(_, found)| found == status) {
                Ok(())
            } else {
                Err(format!("{lines:?}"))
            }
        })
        .await;
    }

    let misspelled = Guest::default()
        .manifest(&manifest(Kind("apps/v1", "Deploymnt")))
        .build();

    namespace
        .drop_in(&DropIn::new("misspelled", misspelled))
        .await;
    let message = namespace
        .until_condition("misspelled", "Ready", "False", "KindNotFound")
        .await;
    assert!(
        message.contains("did you mean Deployment in apps/v1?"),
        "{message}"
    );

    // Nothing of it remains under another account.
    let blind = json!({"metadata": {"annotations": {"operetta.dev/service-account": "blind"}}});
    namespace
        .patch(kinds::CONFIG_MAP, "misspelled", blind)
        .await;
    let is_blind = |plugin: &Value| match plugin["spec"]["serviceAccountName"].as_str() {
        Some("blind") => Ok(()),
        other => Err(format!("it acts as {other:?}")),
    };

    namespace.until(kinds::PLUGIN, "misspelled", is_blind).await;
    let message = namespace
        .until_condition("misspelled", "Ready", "False", "KindNotFound")
        .await;
    assert!(
        message.contains("Deploymnt.apps/v1") && !message.contains("did you mean"),
        "{message}"
    );

    println!("a missing kind, without discovery: {message}");

    // The host looks up the kinds that a manifest names: whether they are served is no secret.
    let named = Guest::default()
        .manifest(&manifest(Kind("apps/v1", "Deployment")))
        .build();

    namespace
        .drop_in(&DropIn::new("named", named).service_account("nobody"))
        .await;
    namespace
        .until_condition("named", "Ready", "False", "Forbidden")
        .await;

    host.assert_sound();
}

#[tokio::test]
async fn refused_plugin_runs_after_its_code_is_fixed() {
    let stage = Stage::new("repaired").await;
    stage.namespace.drop_in(&bad(*b"hello")).await;
    stage.namespace.until_degraded("bad", "NotWasm", &[]).await;

    let good = bad(guest("fixture-touch-v1")).object();
    stage.namespace.patch(kinds::CONFIG_MAP, "bad", good).await;
    stage
        .namespace
        .until_condition("bad", "Ready", "True", "Running")
        .await;
    stage
        .namespace
        .until_condition("bad", "Degraded", "False", "AsExpected")
        .await;
}

/// The longest time until a changed definition is followed. Five seconds are promised, but other
/// tests may keep the machine busy.
const FOLLOWED: Duration = Duration::from_secs(20);

/// The definition of a kind that is deleted and made again.
fn recycled(plural: &str, scope: &str) -> Value {
    crd("recycled.example", "Recycled", plural, scope, &any_schema())
}

/// The same definition with a second version, which is stored.
fn recycled_in_two_versions(plural: &str, scope: &str, first_is_served: bool) -> Value {
    let mut definition = recycled(plural, scope);
    let version = |name: &str, served: bool, storage: bool| {
        json!({
            "name": name, "served": served, "storage": storage,
            "schema": {"openAPIV3Schema": any_schema()},
        })
    };
    definition["spec"]["versions"] = json!([
        version("v1", first_is_served, false),
        version("v2", true, true)
    ]);
    definition
}

/// Waits until the plugin `follows` has followed a change that was just made, and returns the
/// message of its condition `Ready`.
async fn followed(stage: &Stage, change: &str, status: &str, reason: &str) -> String {
    let begin = Instant::now();
    let message = stage
        .namespace
        .until_condition("follows", "Ready", status, reason)
        .await;

    let took = begin.elapsed();
    println!("{change}: {reason} after {took:?}");
    assert!(took < FOLLOWED, "{change}: {reason} after {took:?}");
    message
}

/// How often the plugin `follows` has reconciled a key.
fn reconciles(stage: &Stage, key: &str) -> usize {
    let lines = stage.host.logs(stage.namespace.name(), "follows");
    lines
        .iter()
        .filter(|line| line.key == key && line.message == "reconciled")
        .count()
}

/// Waits until the plugin `follows` has reconciled a key.
async fn until_reconciled(stage: &Stage, key: &str) {
    eventually(&format!("{key} is reconciled"), async || {
        match reconciles(stage, key) {
            0 => Err("it has not been reconciled".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
}

#[tokio::test]
async fn a_kind_that_is_deleted_and_made_again_is_followed() {
    const RECYCLED: Kind = Kind("recycled.example/v1", "Recycled");
    let stage = Stage::new("kind-recycled").await;
    let namespace = &stage.namespace;
    let control_plane = namespace.control_plane();
    control_plane.apply(&recycled("recycleds", "Namespaced").to_string());

    // For the objects without a namespace.
    let account = format!("--serviceaccount={}:plugin", namespace.name());
    control_plane.kubectl(&[
        "create",
        "clusterrolebinding",
        "recycled",
        "--clusterrole=cluster-admin",
        &account,
    ]);

    let source = json!({"apiVersion": RECYCLED.0, "kind": RECYCLED.1});
    let controllers = json!([{"name": "c", "for": source}]);
    let guest = Guest::default()
        .controllers(&controllers)
        .text("reconciled")
        .reconcile(
            "(call $log (i32.const 2) (global.get $text) (global.get $text_len)
               (i32.const 0) (i32.const 0))
             i32.const 16",
        );
    namespace
        .drop_in(&DropIn::new("follows", guest.build()))
        .await;
    namespace
        .until_condition("follows", "Ready", "True", "Running")
        .await;

    let keys = ["first", "other"].map(|name| format!("{}/{name}", namespace.name()));
    for name in ["first", "other"] {
        namespace
            .create_object(RECYCLED, json!({"metadata": {"name": name}}))
            .await;
    }
    for key in &keys {
        until_reconciled(&stage, key).await;
    }

    // The new binding may restart the watch once, which delivers its objects again.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = keys.each_ref().map(|key| reconciles(&stage, key));

    // kubectl waits until the definition is gone, and its objects with it.
    control_plane.kubectl(&["delete", "crd", "recycleds.recycled.example"]);
    let message = followed(&stage, "deleted", "False", "KindNotFound").await;
    assert!(message.contains("Recycled"), "{message}");

    // It comes back with another plural and another scope.
    control_plane.apply(&recycled("recycledthings", "Cluster").to_string());
    followed(&stage, "made again", "True", "Running").await;
    let second =
        json!({"apiVersion": RECYCLED.0, "kind": RECYCLED.1, "metadata": {"name": "second"}});
    control_plane.apply(&second.to_string());
    until_reconciled(&stage, "second").await;

    // Each deletion was delivered once.
    let after = keys.each_ref().map(|key| reconciles(&stage, key));
    assert_eq!(after, before.map(|count| count + 1), "{keys:?}");

    // A second version is added; then the plugin's is no longer served, and is served again. Which
    // versions are served comes from discovery, which is read once in ten seconds at most.
    let two = |is_served| recycled_in_two_versions("recycledthings", "Cluster", is_served);
    control_plane.apply(&two(true).to_string());
    tokio::time::sleep(Duration::from_secs(11)).await;
    control_plane.apply(&two(false).to_string());
    let message = followed(&stage, "v1 not served", "False", "KindNotFound").await;
    assert!(
        message.contains("it serves Recycled of recycled.example in v2, not in v1"),
        "{message}"
    );
    let before = reconciles(&stage, "second");

    control_plane.apply(&two(true).to_string());
    followed(&stage, "v1 served again", "True", "Running").await;
    eventually(
        "the object is reconciled again",
        async || match reconciles(&stage, "second") {
            count if count > before => Ok(()),
            count => Err(format!("{count} reconciles")),
        },
    )
    .await;

    control_plane.kubectl(&["delete", "crd", "recycledthings.recycled.example"]);
    control_plane.kubectl(&["delete", "clusterrolebinding", "recycled"]);
    stage.others_keep_working().await;
}

/// The definition of a kind with these versions: their names, and whether each is served and stored.
fn moved(versions: &[(&str, bool, bool)]) -> Value {
    let mut definition = crd(
        "moved.example",
        "Moved",
        "moveds",
        "Namespaced",
        &any_schema(),
    );
    let version = |(name, served, storage): &(&str, bool, bool)| {
        json!({
            "name": name, "served": served, "storage": storage,
            "schema": {"openAPIV3Schema": any_schema()},
        })
    };
    definition["spec"]["versions"] = versions.iter().map(version).collect();
    definition
}

#[tokio::test]
async fn versions_of_a_kind_move_without_an_event_lost_or_doubled() {
    const OLD: Kind = Kind("moved.example/v1alpha1", "Moved");
    const NEW: Kind = Kind("moved.example/v1", "Moved");
    let stage = Stage::new("kind-moved").await;
    let namespace = &stage.namespace;
    let control_plane = namespace.control_plane();
    control_plane.apply(&moved(&[("v1alpha1", true, true)]).to_string());

    let source = json!({"apiVersion": OLD.0, "kind": OLD.1, "namespaces": "Own"});
    let guest = Guest::default()
        .controllers(&json!([{"name": "c", "for": source}]))
        .text("reconciled")
        .reconcile(
            "(call $log (i32.const 2) (global.get $text) (global.get $text_len)
               (i32.const 0) (i32.const 0))
             i32.const 16",
        );
    namespace
        .drop_in(&DropIn::new("follows", guest.build()))
        .await;
    namespace
        .until_condition("follows", "Ready", "True", "Running")
        .await;

    let key = |name: &str| format!("{}/{name}", namespace.name());
    for name in ["kept", "changed", "deleted"] {
        namespace
            .create_object(OLD, json!({"metadata": {"name": name}}))
            .await;
        until_reconciled(&stage, &key(name)).await;
    }
    // The new binding may restart the watch once, which delivers its objects again.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let counts =
        || ["kept", "changed", "deleted", "made"].map(|name| reconciles(&stage, &key(name)));
    let [kept, changed, deleted, _] = counts();

    // Both versions are served, and the new one is stored from now on.
    let both = moved(&[("v1alpha1", true, false), ("v1", true, true)]).to_string();
    control_plane.apply(&both);
    eventually("v1 is served", async || {
        let list = ["get", "moveds.v1.moved.example", "-n", namespace.name()];
        let output = control_plane.kubectl_output(&list);
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    })
    .await;

    let began = Instant::now();
    namespace
        .create_object(NEW, json!({"metadata": {"name": "made"}}))
        .await;
    namespace
        .patch(NEW, "changed", json!({"spec": {"size": 2}}))
        .await;
    namespace.delete(NEW, "deleted").await;
    let each_once = [kept, changed + 1, deleted + 1, 1];
    eventually("each change is delivered", async || match counts() {
        found if found == each_once => Ok(()),
        found => Err(format!("{found:?}, not {each_once:?}")),
    })
    .await;
    let took = began.elapsed();
    println!("stored in another version: followed after {took:?}");
    assert!(took < FOLLOWED, "{took:?}");

    // What was delivered twice would be so when the watch begins again.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(counts(), each_once);

    let only_new = moved(&[("v1alpha1", false, false), ("v1", true, true)]).to_string();
    control_plane.apply(&only_new);
    let message = followed(&stage, "v1alpha1 not served", "False", "KindNotFound").await;
    assert!(
        message.contains("it serves Moved of moved.example in v1, not in v1alpha1"),
        "{message}"
    );

    namespace
        .create_object(NEW, json!({"metadata": {"name": "late"}}))
        .await;
    control_plane.apply(&both);
    followed(&stage, "v1alpha1 served again", "True", "Running").await;
    until_reconciled(&stage, &key("late")).await;

    control_plane.kubectl(&["delete", "crd", "moveds.moved.example"]);
    stage.others_keep_working().await;
}
