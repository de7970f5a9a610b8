//! How a plugin with finalizers ends: with its namespace, alone, or with its objects; and what
//! becomes of the host's own finalizers when a right is revoked or the host is uninstalled.
//!
//! It is a file of its own because each test has a control plane and a host of its own.

use std::{
    env,
    time::{Duration, Instant},
};

use operetta_testkit::{
    Ask, ControlPlane, DropIn, Fault, FaultProxy, Host, HostOptions, Kind, TestNamespace,
    any_schema, crd, eventually, guest, kinds, process_path, wat_guest::Guest,
};
use serde_json::{Value, json};

const OURS: &str = "operetta.dev/teardown";
const ITS: &str = "configmap-secret-syncer.nullable.se/cleanup";
const LAMP: Kind = Kind("teardown.example/v1", "Lamp");
/// The finalizer of the plugin that reconciles lamps.
const SWITCH_OFF: &str = "teardown.example/switch-off";
/// The finalizer that the process puts on what it copies.
const DELETE_COPY: &str = "teardown.example/delete-copy";
/// The longest time in which a namespace may end, or a definition with its objects.
const ENDS: Duration = Duration::from_secs(60);
const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// A control plane whose controllers delete namespaces and collect garbage, and a host to which
/// each ServiceAccount is granted.
async fn running() -> (ControlPlane, Host) {
    running_with(String::new()).await
}

/// The same, with this configuration of the host.
async fn running_with(config: String) -> (ControlPlane, Host) {
    let control_plane =
        ControlPlane::start(&["controllers"]).unwrap_or_else(|error| panic!("{error}"));
    control_plane.apply(include_str!("guests/kube-rs/crd.yaml"));
    let options = HostOptions {
        narrow: true,
        config,
        ..HostOptions::default()
    };
    let host = Host::start(&control_plane, &options).await;
    (control_plane, host)
}

/// A namespace with a ServiceAccount `plugin`, which may do everything in it by a Role and a
/// RoleBinding there, and is granted to the host.
async fn with_rights<'a>(control_plane: &'a ControlPlane, host: &Host) -> TestNamespace<'a> {
    let namespace = control_plane.namespace("teardown").await;
    namespace.consenting("plugin").await;
    let rule = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
    let role = json!({"metadata": {"name": "all"}, "rules": [rule]});
    namespace.create_object(Kind(RBAC, "Role"), role).await;
    let account =
        json!({"kind": "ServiceAccount", "name": "plugin", "namespace": namespace.name()});
    let binding = json!({
        "metadata": {"name": "all"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "all"},
        "subjects": [account],
    });
    namespace
        .create_object(Kind(RBAC, "RoleBinding"), binding)
        .await;

    host.grant(namespace.name(), &["plugin"]);
    namespace
}

/// Such a namespace with the plugin, and with these ConfigMaps, which have its finalizer.
async fn team<'a>(
    control_plane: &'a ControlPlane,
    host: &Host,
    sources: &[&str],
) -> TestNamespace<'a> {
    let namespace = with_rights(control_plane, host).await;
    namespace
        .drop_in(&DropIn::compressed("kube-rs", &guest("fixture-kube-rs")))
        .await;
    for name in sources {
        let metadata = json!({"name": name, "labels": {"sync": "secret"}});
        let source = json!({"metadata": metadata, "data": {"user": "root"}});
        namespace.create_object(kinds::CONFIG_MAP, source).await;
        namespace.until(kinds::CONFIG_MAP, name, has(ITS)).await;
    }
    namespace.until(kinds::PLUGIN, "kube-rs", has(OURS)).await;
    namespace
}

fn has(finalizer: &str) -> impl Fn(&Value) -> Result<(), String> {
    move |found| {
        let finalizers = &found["metadata"]["finalizers"];
        let all = finalizers.as_array().into_iter().flatten();
        if all.into_iter().any(|one| one == finalizer) {
            Ok(())
        } else {
            Err(format!(
                "its finalizers are {finalizers}, without {finalizer}"
            ))
        }
    }
}

/// Waits until everything that the plugin acts with has the host's finalizer.
async fn until_kept(namespace: &TestNamespace<'_>) {
    namespace
        .until(kinds::SERVICE_ACCOUNT, "plugin", has(OURS))
        .await;
    let grant = format!("operetta-host:{}:plugin", namespace.name());
    for name in ["all", &grant] {
        namespace.until(Kind(RBAC, "Role"), name, has(OURS)).await;
        namespace
            .until(Kind(RBAC, "RoleBinding"), name, has(OURS))
            .await;
    }
    let teardown = format!("{grant}:teardown");
    namespace
        .until(Kind(RBAC, "RoleBinding"), &teardown, has(OURS))
        .await;
}

/// Returns the objects with the host's finalizer, in all namespaces.
fn held(control_plane: &ControlPlane) -> Vec<String> {
    let kinds = "serviceaccounts,roles,rolebindings";
    let text = control_plane.kubectl(&["get", kinds, "-A", "-o", "json"]);
    let list: Value = serde_json::from_str(&text).expect("JSON");
    let items = list["items"].as_array().expect("a list").iter();
    items
        .filter(|item| has(OURS)(item).is_ok())
        .map(|item| format!("{} {}", item["kind"], item["metadata"]["name"]))
        .collect()
}

async fn until_no_namespace(control_plane: &ControlPlane, name: &str) {
    eventually("the namespace is gone", async || {
        let get = ["get", "namespace", "--ignore-not-found", name, "-o", "yaml"];
        let found = control_plane.kubectl(&get);
        if found.is_empty() { Ok(()) } else { Err(found) }
    })
    .await;
}

/// `kubectl delete namespace`, `OPERETTA_NAMESPACES` times, 3 by default.
#[tokio::test]
async fn namespace_ends_after_its_plugin_has_cleaned_up() {
    let (control_plane, host) = running().await;
    let rounds = env::var("OPERETTA_NAMESPACES").ok();
    let rounds = rounds.map_or(3, |text| {
        text.parse().expect("OPERETTA_NAMESPACES: a number")
    });

    let mut took = Vec::new();
    for _ in 0..rounds {
        let namespace = team(&control_plane, &host, &["a", "b", "c"]).await;
        until_kept(&namespace).await;
        let name = namespace.name().to_owned();

        let begin = Instant::now();
        control_plane.kubectl(&["delete", "namespace", &name, "--wait=false"]);
        until_no_namespace(&control_plane, &name).await;
        took.push(begin.elapsed());

        let account = format!("system:serviceaccount:{name}:plugin");
        for source in ["a", "b", "c"] {
            let secret = format!("cmsyncer-{source}");
            let audit = control_plane.audit();
            let cleaned = audit.done_by(|event| {
                event.verb == "delete"
                    && event.object_ref.name == secret
                    && event.impersonated_user.username == account
            });
            assert_eq!(cleaned.count(), 1, "the clean-ups of {name}/{source}");
        }
    }

    // Of twenty, the longest is the p99.
    took.sort();
    let longest = took[took.len() - 1];
    println!(
        "{rounds} namespaces ended: p50 {:?}, p99 {longest:?}",
        took[took.len() / 2],
    );
    assert!(longest < ENDS, "a namespace took {longest:?}");
    assert_eq!(held(&control_plane), [""; 0]);
    host.assert_sound();
}

#[tokio::test]
async fn deleted_plugin_cleans_up_what_is_deleted_with_it() {
    let (control_plane, host) = running().await;
    let namespace = team(&control_plane, &host, &["a", "b"]).await;
    until_kept(&namespace).await;

    // As `kubectl delete -f` does: first the plugin, and the objects a little later.
    namespace.delete(kinds::CONFIG_MAP, "kube-rs").await;
    namespace
        .until(
            kinds::PLUGIN,
            "kube-rs",
            |plugin| match plugin["metadata"]["deletionTimestamp"].as_str() {
                Some(_) => Ok(()),
                None => Err("it is not deleted".to_owned()),
            },
        )
        .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    namespace.delete(kinds::CONFIG_MAP, "a").await;
    namespace.until_gone(kinds::CONFIG_MAP, "a").await;
    namespace.until_gone(kinds::PLUGIN, "kube-rs").await;

    let message = namespace
        .until_event(kinds::PLUGIN, "kube-rs", "FinalizersLeft")
        .await;
    let left = format!("1 object: ConfigMap {}/b keep", namespace.name());
    assert!(message.contains(&left), "{message}");
    eventually("nothing is kept", async || match held(&control_plane) {
        held if held.is_empty() => Ok(()),
        held => Err(format!("{held:?}")),
    })
    .await;
    host.assert_sound();
}

/// The patch that removes the finalizers of a lamp that is being deleted: its test fails before.
fn switch_off() -> (&'static str, Value) {
    let patch = json!([
        {"op": "test", "path": "/metadata/deletionGracePeriodSeconds", "value": 0},
        {"op": "remove", "path": "/metadata/finalizers"},
    ]);
    ("application/json-patch+json", patch)
}

/// A plugin whose controller of lamps declares these finalizers, and sends these patches of the lamp
/// `a` in each reconcile.
fn patches(namespace: &str, declared: &[&str], patches: &[(&str, Value)]) -> Vec<u8> {
    let source = json!({"apiVersion": LAMP.0, "kind": LAMP.1, "namespaces": "Own"});
    let controllers = json!([{"name": "c", "for": source, "finalizers": declared}]);

    let path = format!("/apis/{}/namespaces/{namespace}/lamps/a", LAMP.0);
    let mut text = String::new();
    let mut sends = String::new();
    for (media, body) in patches {
        let body = body.to_string();
        let [method, path, media, body] = ["PATCH", &path, *media, &body].map(|part| {
            let start = text.len();
            text += part;
            format!(
                "(i32.add (global.get $text) (i32.const {start})) (i32.const {})",
                part.len()
            )
        });

        // No query, the content type, no accept, the body, not cached; the answer is at 256.
        let none = "(i32.const 0) (i32.const 0)";
        sends += &format!(
            "(call $send {method} {path} {none} (i32.const 1) {media} (i32.const 0) {none} \
               (i32.const 1) {body} (i32.const 0) (i32.const 256))"
        );
    }
    Guest::default()
        .controllers(&controllers)
        .text(&text)
        .reconcile(&format!("{sends} i32.const 16"))
        .build()
}

async fn serve_lamps(control_plane: &ControlPlane) {
    let definition = crd(
        "teardown.example",
        LAMP.1,
        "lamps",
        "Namespaced",
        &any_schema(),
    );
    control_plane.apply(&definition.to_string());
    eventually("lamps are served", async || {
        // It reads discovery anew each time, as a grant does.
        let served = control_plane.kubectl(&[
            "api-resources",
            "--api-group=teardown.example",
            "-o",
            "name",
        ]);
        if served.contains("lamps") {
            Ok(())
        } else {
            Err(served)
        }
    })
    .await;
}

#[tokio::test]
async fn namespace_ends_after_a_plugin_has_removed_an_undeclared_finalizer() {
    let (control_plane, host) = running().await;
    serve_lamps(&control_plane).await;
    let namespace = with_rights(&control_plane, &host).await;
    let switch_on = json!({"metadata": {"finalizers": [SWITCH_OFF]}});
    let both = [("application/merge-patch+json", switch_on), switch_off()];
    let wasm = patches(namespace.name(), &[], &both);
    namespace.drop_in(&DropIn::new("lamps", wasm)).await;
    // With a field: an object whose creation sets none gets no managedFields later either.
    let lamp = json!({"metadata": {"name": "a"}, "spec": {"on": true}});
    namespace.create_object(LAMP, lamp).await;
    namespace.until(LAMP, "a", has(SWITCH_OFF)).await;
    namespace.until(kinds::PLUGIN, "lamps", has(OURS)).await;
    until_kept(&namespace).await;

    let logs = host.logs(namespace.name(), "lamps");
    let is_told = |message: &str| {
        message.contains(SWITCH_OFF)
            && message.ends_with("declare it in the manifest, with its controller")
    };
    assert!(logs.iter().any(|line| is_told(&line.message)), "{logs:?}");

    let name = namespace.name().to_owned();
    control_plane.kubectl(&["delete", "namespace", &name, "--wait=false"]);
    let begin = Instant::now();
    until_no_namespace(&control_plane, &name).await;
    let took = begin.elapsed();
    assert!(took < ENDS, "the namespace took {took:?}");
    host.assert_sound();
}

/// What lets the host remove its finalizers goes last, or the others stay for ever.
#[tokio::test]
async fn namespace_ends_although_a_finalizer_is_not_removed_at_once() {
    let (control_plane, host) = running().await;
    drop(host);
    let proxy = FaultProxy::start(&control_plane).await;
    let options = HostOptions {
        narrow: true,
        is_installed: true,
        kubeconfig: Some(proxy.kubeconfig_of(&control_plane, "operetta-system", "operetta")),
        ..HostOptions::default()
    };
    let host = Host::start(&control_plane, &options).await;
    let namespace = team(&control_plane, &host, &["a"]).await;
    until_kept(&namespace).await;

    let conflict = Fault::Status {
        code: 409,
        retry_after: None,
    };
    for _ in 0..3 {
        proxy.next(Ask::To("/serviceaccounts/plugin?"), conflict.clone());
    }
    let name = namespace.name().to_owned();
    control_plane.kubectl(&["delete", "namespace", &name, "--wait=false"]);
    until_no_namespace(&control_plane, &name).await;

    let asked = proxy.asked().into_iter();
    let refused = asked.filter(|asked| asked.fault == conflict).count();
    assert_eq!(refused, 3, "the conflicts:\n{}", proxy.schedule());
    assert_eq!(held(&control_plane), [""; 0]);
    host.assert_sound();
}

#[tokio::test]
async fn definition_ends_after_a_running_plugin_has_cleaned_up() {
    let (control_plane, host) = running().await;
    serve_lamps(&control_plane).await;

    let namespace = with_rights(&control_plane, &host).await;
    let wasm = patches(namespace.name(), &[SWITCH_OFF], &[switch_off()]);
    namespace.drop_in(&DropIn::new("lamps", wasm)).await;
    namespace.until(kinds::PLUGIN, "lamps", has(OURS)).await;
    let lamp = json!({"metadata": {"name": "a", "finalizers": [SWITCH_OFF]}});
    namespace.create_object(LAMP, lamp).await;

    let begin = Instant::now();
    control_plane.kubectl(&["delete", "crd", "lamps.teardown.example", "--wait=false"]);
    eventually("the definition is gone", async || {
        let found = control_plane.kubectl(&[
            "get",
            "crd",
            "--ignore-not-found",
            "lamps.teardown.example",
            "-o",
            "yaml",
        ]);
        if found.is_empty() { Ok(()) } else { Err(found) }
    })
    .await;
    let took = begin.elapsed();
    println!("the definition ended after {took:?}");
    assert!(took < ENDS, "the definition took {took:?}");

    let account = format!("system:serviceaccount:{}:plugin", namespace.name());
    let audit = control_plane.audit();
    let cleaned = audit.done_by(|event| {
        event.verb == "patch"
            && event.object_ref.resource == "lamps"
            && event.impersonated_user.username == account
            && event.response_status.code == 200
    });
    assert_eq!(cleaned.count(), 1, "the clean-ups");

    // The Plugin stays, and waits for its kind. Nothing keeps it from being deleted.
    namespace
        .until_condition("lamps", "Ready", "False", "KindNotFound")
        .await;
    let plugin = namespace.get(kinds::PLUGIN, "lamps").await.expect("kept");
    assert!(
        plugin["metadata"]["deletionTimestamp"].is_null(),
        "{plugin}"
    );
    namespace.delete(kinds::CONFIG_MAP, "lamps").await;
    namespace.until_gone(kinds::PLUGIN, "lamps").await;
    host.assert_sound();
}

/// A host that runs processes.
async fn running_processes() -> (ControlPlane, Host) {
    let program = process_path("process-operator");
    let folder = program.parent().expect("a folder");
    running_with(format!("pluginDirectory: {}\n", folder.display())).await
}

/// Creates the Plugin `operator`, a process that has this finalizer, and declares these.
async fn create_operator(namespace: &TestNamespace<'_>, declared: &Value) {
    let spec = json!({
        "source": {"path": "process-operator.wasm"},
        "serviceAccountName": "plugin",
        "process": {"args": ["-finalizer", DELETE_COPY], "finalizers": declared},
    });
    let plugin = json!({"metadata": {"name": "operator"}, "spec": spec});
    namespace.create_object(kinds::PLUGIN, plugin).await;
}

async fn until_finalizers_are_known(namespace: &TestNamespace<'_>, wanted: &Value) {
    namespace
        .until(kinds::PLUGIN, "operator", |plugin| {
            let known = &plugin["status"]["finalizers"];
            if known == wanted {
                Ok(())
            } else {
                Err(format!("status.finalizers is {known}"))
            }
        })
        .await;
}

/// A process declares nothing in a manifest. The host sees what it writes, and remembers it.
#[tokio::test]
async fn namespace_ends_after_a_process_has_removed_an_undeclared_finalizer() {
    let (control_plane, mut host) = running_processes().await;
    let namespace = with_rights(&control_plane, &host).await;
    create_operator(&namespace, &json!([])).await;
    let metadata = json!({"name": "a", "labels": {"copy": "wanted"}});
    let source = json!({"metadata": metadata, "data": {"of": "a"}});
    namespace.create_object(kinds::CONFIG_MAP, source).await;
    namespace
        .until(kinds::CONFIG_MAP, "a", has(DELETE_COPY))
        .await;

    let of_config_maps =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "finalizers": [DELETE_COPY]}]);
    until_finalizers_are_known(&namespace, &of_config_maps).await;
    namespace.until(kinds::PLUGIN, "operator", has(OURS)).await;
    until_kept(&namespace).await;

    // After this, the process finds its finalizer on the object, and writes nothing.
    host.kill();
    host.start_again();
    let metadata = json!({"name": "b", "labels": {"copy": "wanted"}});
    let source = json!({"metadata": metadata, "data": {"of": "b"}});
    namespace.create_object(kinds::CONFIG_MAP, source).await;
    namespace
        .until(kinds::CONFIG_MAP, "b", has(DELETE_COPY))
        .await;
    until_finalizers_are_known(&namespace, &of_config_maps).await;

    let name = namespace.name().to_owned();
    let begin = Instant::now();
    control_plane.kubectl(&["delete", "namespace", &name, "--wait=false"]);
    until_no_namespace(&control_plane, &name).await;
    let took = begin.elapsed();
    println!("the namespace ended after {took:?}");
    assert!(took < ENDS, "the namespace took {took:?}");

    // One write sets the finalizer, and one removes it.
    let account = format!("system:serviceaccount:{name}:plugin");
    let audit = control_plane.audit();
    for source in ["a", "b"] {
        let written = audit.done_by(|event| {
            event.verb == "patch"
                && event.object_ref.name == source
                && event.impersonated_user.username == account
                && event.response_status.code == 200
        });
        assert_eq!(written.count(), 2, "the finalizer of {source}");
    }
    host.assert_sound();
}

#[tokio::test]
async fn process_declares_its_finalizers_in_the_plugin() {
    let (control_plane, host) = running_processes().await;
    let namespace = with_rights(&control_plane, &host).await;
    let declared = json!([{"apiVersion": "v1", "kind": "ConfigMap", "finalizers": [DELETE_COPY]}]);
    create_operator(&namespace, &declared).await;

    // Nothing was written, so nothing was learned.
    namespace.until(kinds::PLUGIN, "operator", has(OURS)).await;
    let metadata = json!({"name": "a", "labels": {"copy": "wanted"}});
    let source = json!({"metadata": metadata, "data": {"of": "a"}});
    namespace.create_object(kinds::CONFIG_MAP, source).await;
    namespace
        .until(kinds::CONFIG_MAP, "a", has(DELETE_COPY))
        .await;
    until_finalizers_are_known(&namespace, &json!([])).await;

    let wrong = json!([{"apiVersion": "v1", "kind": "Config Map", "finalizers": [DELETE_COPY]}]);
    let patch = json!({"spec": {"process": {"finalizers": wrong}}});
    namespace.patch(kinds::PLUGIN, "operator", patch).await;
    let message = namespace
        .until_condition("operator", "Ready", "False", "InvalidPlugin")
        .await;
    assert!(
        message.starts_with("spec.process.finalizers[0].kind: "),
        "{message}"
    );

    let patch = json!({"spec": {"process": {"finalizers": declared}}});
    namespace.patch(kinds::PLUGIN, "operator", patch).await;
    namespace
        .until_condition("operator", "Ready", "True", "Running")
        .await;
    namespace.delete(kinds::CONFIG_MAP, "a").await;
    namespace.delete(kinds::PLUGIN, "operator").await;
    namespace.until_gone(kinds::CONFIG_MAP, "a").await;
    namespace.until_gone(kinds::PLUGIN, "operator").await;
    host.assert_sound();
}

#[tokio::test]
async fn plugin_waits_for_its_objects_and_says_so() {
    let (control_plane, host) = running().await;
    let namespace = team(&control_plane, &host, &["a"]).await;
    until_kept(&namespace).await;

    // A finalizer of somebody else lets it be seen; the plugin has removed its own by then.
    let blocked = json!({"metadata": {"finalizers": [ITS, "example.com/wait"]}});
    namespace.patch(kinds::CONFIG_MAP, "a", blocked).await;
    // Without the right to delete Secrets, it can't clean up.
    let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "patch", "update"]});
    namespace
        .patch(Kind(RBAC, "Role"), "all", json!({"rules": [rule]}))
        .await;
    namespace.delete(kinds::CONFIG_MAP, "a").await;
    namespace.delete(kinds::CONFIG_MAP, "kube-rs").await;

    let message = namespace
        .until_condition("kube-rs", "Terminating", "True", "FinalizersRemain")
        .await;
    let wanted = format!("from 1 object: ConfigMap {}/a", namespace.name());
    assert!(message.ends_with(&wanted), "{message}");

    // Somebody gives up the clean-up.
    let given_up = json!({"metadata": {"finalizers": ["example.com/wait"]}});
    namespace.patch(kinds::CONFIG_MAP, "a", given_up).await;
    namespace.until_gone(kinds::PLUGIN, "kube-rs").await;
    host.assert_sound();
}

#[tokio::test]
async fn revoked_right_goes_at_once() {
    let (control_plane, host) = running().await;
    let namespace = team(&control_plane, &host, &["a"]).await;
    until_kept(&namespace).await;

    namespace.delete(Kind(RBAC, "RoleBinding"), "all").await;
    let begin = Instant::now();
    namespace.until_gone(Kind(RBAC, "RoleBinding"), "all").await;
    assert!(
        begin.elapsed() < Duration::from_secs(10),
        "{:?}",
        begin.elapsed()
    );

    // A grant that is taken back takes the right to keep anything with it.
    host.grant(namespace.name(), &["plugin", "--revoke"]);
    eventually("nothing is kept", async || match held(&control_plane) {
        held if held.is_empty() => Ok(()),
        held => Err(format!("{held:?}")),
    })
    .await;
    let left = namespace.kubectl(&["get", "roles,rolebindings", "-o", "name"]);
    assert!(!left.contains("operetta-host"), "{left}");
}

/// Without the list of Plugins, everything would look as if no Plugin needed it.
#[tokio::test]
async fn restarted_host_releases_nothing_that_is_needed() {
    let (control_plane, mut host) = running().await;
    let namespace = team(&control_plane, &host, &["a"]).await;
    until_kept(&namespace).await;
    let versions = || {
        let kinds = "serviceaccounts,roles,rolebindings";
        let path =
            "jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.resourceVersion}\n{end}";
        namespace.kubectl(&["get", kinds, "-o", path])
    };
    let before = versions();

    for _ in 0..3 {
        host.kill();
        host.start_again();
        // The plugin works again, so the host has seen all that there is.
        namespace
            .patch(
                kinds::CONFIG_MAP,
                "a",
                json!({"metadata": {"finalizers": null}}),
            )
            .await;
        namespace.until(kinds::CONFIG_MAP, "a", has(ITS)).await;
    }
    assert_eq!(versions(), before);
}

#[tokio::test]
async fn uninstall_leaves_no_finalizer() {
    let (control_plane, host) = running().await;
    let namespace = team(&control_plane, &host, &["a"]).await;
    until_kept(&namespace).await;
    host.stop();

    let output = host.run(&["uninstall", "--delete-plugins", "--timeout", "2s"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}{messages}");
    assert!(messages.contains("1 Plugins still clean up"), "{messages}");
    assert!(text.contains("the host's finalizer removed from"), "{text}");

    assert_eq!(held(&control_plane), [""; 0]);
    eventually("the CRD is gone", async || {
        let crds = control_plane.kubectl(&["get", "crd", "-o", "name"]);
        if crds.contains("plugins.operetta.dev") {
            Err(crds)
        } else {
            Ok(())
        }
    })
    .await;
}
