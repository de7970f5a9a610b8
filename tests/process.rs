//! Operators with a main of their own, which the host runs as processes: what they reach, as whom,
//! and what the Plugin says when they end.

use operetta_testkit::{
    ControlPlane, Host, HostOptions, Kind, TestNamespace, eventually, kinds, process_path,
};
use serde_json::{Value, json};

const RBAC: &str = "rbac.authorization.k8s.io/v1";

async fn host(control_plane: &ControlPlane) -> Host {
    let folder = process_path("process-operator");
    let folder = folder.parent().expect("a folder");
    let options = HostOptions {
        config: format!("pluginDirectory: {}\n", folder.display()),
        ..HostOptions::default()
    };
    Host::shared(control_plane, &options).await
}

/// A namespace whose ServiceAccount `operator` may do these things with ConfigMaps.
async fn team<'a>(control_plane: &'a ControlPlane, verbs: &[&str]) -> TestNamespace<'a> {
    let namespace = control_plane.namespace("process").await;
    namespace.consenting("operator").await;
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]);
    let role = json!({"metadata": {"name": "copies"}, "rules": rules});
    namespace.create_object(Kind(RBAC, "Role"), role).await;
    let subject =
        json!({"kind": "ServiceAccount", "name": "operator", "namespace": namespace.name()});
    let binding = json!({
        "metadata": {"name": "copies"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "copies"},
        "subjects": [subject],
    });
    namespace
        .create_object(Kind(RBAC, "RoleBinding"), binding)
        .await;
    namespace
}

const ALL: &[&str] = &["get", "list", "watch", "create", "update"];

/// Lets the ServiceAccount `operator` read ConfigMaps and Secrets that its process is given.
async fn allow_to_read(namespace: &TestNamespace<'_>, resources: &[&str]) {
    let rules = json!([{"apiGroups": [""], "resources": resources, "verbs": ["get"]}]);
    let role = json!({"metadata": {"name": "inputs"}, "rules": rules});
    namespace.create_object(Kind(RBAC, "Role"), role).await;
    let subject =
        json!({"kind": "ServiceAccount", "name": "operator", "namespace": namespace.name()});
    let binding = json!({
        "metadata": {"name": "inputs"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "inputs"},
        "subjects": [subject],
    });
    namespace
        .create_object(Kind(RBAC, "RoleBinding"), binding)
        .await;
}

async fn until_logged(host: &Host, namespace: &TestNamespace<'_>, message: &str) {
    eventually(&format!("{message:?} is logged"), async || {
        let logs = host.logs(namespace.name(), "operator");
        match logs.iter().any(|line| line.message.contains(message)) {
            true => Ok(()),
            false => Err(format!("{logs:?}")),
        }
    })
    .await;
}

/// Creates the Plugin `operator` with this `spec.process`.
async fn create(namespace: &TestNamespace<'_>, process: Value) {
    create_from(namespace, "process-operator.wasm", process).await;
}

/// The same, of another program.
async fn create_from(namespace: &TestNamespace<'_>, file: &str, process: Value) {
    let spec = json!({
        "source": {"path": file},
        "serviceAccountName": "operator",
        "process": process,
    });
    let plugin = json!({"metadata": {"name": "operator"}, "spec": spec});
    namespace.create_object(kinds::PLUGIN, plugin).await;
}

async fn ask_for_copy(namespace: &TestNamespace<'_>, name: &str) {
    let object = json!({
        "metadata": {"name": name, "labels": {"copy": "wanted"}},
        "data": {"of": name},
    });
    namespace.create_object(kinds::CONFIG_MAP, object).await;
}

async fn until_copied(namespace: &TestNamespace<'_>, name: &str) {
    let copy = format!("{name}-copy");
    namespace
        .until(kinds::CONFIG_MAP, &copy, |found| {
            let data = &found["data"]["of"];
            (data == name)
                .then_some(())
                .ok_or_else(|| format!("its data is {data}"))
        })
        .await;
}

/// Waits until the process's part of the Plugin's status is like this.
async fn until_process(
    host: &Host,
    namespace: &TestNamespace<'_>,
    what: &str,
    is_so: impl Fn(&Value) -> bool,
) -> Value {
    namespace
        .until(kinds::PLUGIN, "operator", |plugin| {
            let process = &plugin["status"]["process"];
            is_so(process).then(|| plugin.clone()).ok_or_else(|| {
                let log = host.logs(namespace.name(), "operator");
                format!("{what}: {process}; its log: {log:?}")
            })
        })
        .await
}

#[tokio::test]
async fn process_reconciles_as_its_service_account() {
    let control_plane = ControlPlane::shared().await;
    let host = host(control_plane).await;
    // By the kubeconfig without TLS, and by TLS as in a Pod.
    for args in [json!([]), json!(["-in-cluster"])] {
        let namespace = team(control_plane, ALL).await;
        ask_for_copy(&namespace, "before").await;
        let env = json!([
            {"name": "WHO", "value": "you"},
            {"name": "GREETING", "value": "hello $(WHO)"},
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        ]);
        create(&namespace, json!({"args": args, "env": env})).await;
        until_copied(&namespace, "before").await;
        ask_for_copy(&namespace, "after").await;
        until_copied(&namespace, "after").await;

        namespace
            .until_condition("operator", "Ready", "True", "Running")
            .await;
        let greeting = format!("greeting: hello you namespace: {}", namespace.name());
        eventually("the greeting is logged", async || {
            let logs = host.logs(namespace.name(), "operator");
            match logs.iter().any(|line| line.message == greeting) {
                true => Ok(()),
                false => Err(format!("{logs:?}")),
            }
        })
        .await;

        namespace.delete(kinds::PLUGIN, "operator").await;
        namespace.until_gone(kinds::PLUGIN, "operator").await;
    }
    host.assert_sound();
}

/// An operator of kube-rs, built for WASI 0.2, has the life of one in Go.
#[tokio::test]
async fn operator_in_rust_reconciles_and_ends_as_one_in_go() {
    let control_plane = ControlPlane::shared().await;
    let host = host(control_plane).await;
    let namespace = team(control_plane, ALL).await;
    ask_for_copy(&namespace, "before").await;
    let process = json!({
        "args": ["0.0.0.0:8080"],
        "readinessProbe": {"httpGet": {"port": 8080}, "periodSeconds": 1},
    });
    create_from(&namespace, "process-kube.wasm", process).await;
    until_copied(&namespace, "before").await;
    ask_for_copy(&namespace, "after").await;
    until_copied(&namespace, "after").await;
    namespace
        .until_condition("operator", "Ready", "True", "Running")
        .await;

    for (name, code, message) in [
        ("leave", 1, "leaving"),
        ("crash", 134, "a bug in the operator"),
    ] {
        ask_for_copy(&namespace, name).await;
        let plugin = until_process(&host, &namespace, name, |process| {
            process["lastTermination"]["exitCode"] == code
        })
        .await;
        let said = &plugin["status"]["process"]["lastTermination"]["message"];
        let said = said.as_str().unwrap_or_default();
        assert!(said.contains(message), "{name}: {said}");
        namespace.delete(kinds::CONFIG_MAP, name).await;
    }

    // It restarts, and ends by SIGTERM when it is told to.
    until_process(&host, &namespace, "it runs again", |process| {
        process["startedAt"].is_string() && process["ready"] == true
    })
    .await;
    let suspend = json!({"spec": {"suspend": true}});
    namespace.patch(kinds::PLUGIN, "operator", suspend).await;
    namespace
        .until(kinds::CONFIG_MAP, "goodbye", |_| Ok(()))
        .await;
    namespace
        .until_condition("operator", "Ready", "False", "Suspended")
        .await;
    host.assert_sound();
}

#[tokio::test]
async fn process_without_rights_is_refused_in_the_servers_words() {
    let control_plane = ControlPlane::shared().await;
    let host = host(control_plane).await;
    let namespace = team(control_plane, &["get", "list", "watch"]).await;
    ask_for_copy(&namespace, "one").await;
    create(&namespace, json!({})).await;

    let account = format!("system:serviceaccount:{}:operator", namespace.name());
    eventually("the refusal is logged", async || {
        let logs = host.logs(namespace.name(), "operator");
        let is_refusal = |message: &str| {
            message.contains("failed to copy one: 403") && message.contains(&account)
        };
        match logs.iter().any(|line| is_refusal(&line.message)) {
            true => Ok(()),
            false => Err(format!("{logs:?}")),
        }
    })
    .await;
    assert!(namespace.get(kinds::CONFIG_MAP, "one-copy").await.is_none());
    host.assert_sound();
}

#[tokio::test]
async fn ended_process_starts_again_and_the_status_says_why() {
    let control_plane = ControlPlane::shared().await;
    let host = host(control_plane).await;
    let namespace = team(control_plane, ALL).await;
    create(&namespace, json!({})).await;
    until_process(&host, &namespace, "it runs", |process| {
        process["startedAt"].is_string()
    })
    .await;

    for (name, code, message) in [
        ("leave", 3, "leaving"),
        ("crash", 2, "panic: a bug in the operator"),
    ] {
        ask_for_copy(&namespace, name).await;
        let plugin = until_process(&host, &namespace, name, |process| {
            process["lastTermination"]["exitCode"] == code && process["startedAt"].is_null()
        })
        .await;
        let termination = &plugin["status"]["process"]["lastTermination"];
        assert_eq!(termination["reason"], "Error", "{termination}");
        let text = termination["message"].as_str().unwrap_or_default();
        assert!(text.contains(message), "{termination}");

        // The second start waits for ten seconds.
        let ready = namespace
            .until_condition("operator", "Ready", "False", "ProcessEnded")
            .await;
        assert!(
            ready.contains(message) && ready.contains("starts again after"),
            "{ready}"
        );
        namespace.delete(kinds::CONFIG_MAP, name).await;
        until_process(&host, &namespace, "it runs again", |process| {
            process["startedAt"].is_string()
        })
        .await;
    }
    ask_for_copy(&namespace, "one").await;
    until_copied(&namespace, "one").await;
    host.assert_sound();
}

#[tokio::test]
async fn process_has_time_to_end() {
    let control_plane = ControlPlane::shared().await;
    let host = host(control_plane).await;
    for change in [
        json!({"spec": {"suspend": true}}),
        json!({"spec": {"process": {"args": ["-in-cluster"]}}}),
    ] {
        let namespace = team(control_plane, ALL).await;
        ask_for_copy(&namespace, "one").await;
        create(&namespace, json!({})).await;
        until_copied(&namespace, "one").await;

        namespace
            .patch(kinds::PLUGIN, "operator", change.clone())
            .await;
        // Created after SIGTERM, with its rights.
        namespace
            .until(kinds::CONFIG_MAP, "goodbye", |_| Ok(()))
            .await;
        if change["spec"]["suspend"] == true {
            namespace
                .until_condition("operator", "Ready", "False", "Suspended")
                .await;
        } else {
            until_process(&host, &namespace, "the new one runs", |process| {
                process["lastTermination"]["reason"] == "Completed"
                    && process["startedAt"].is_string()
            })
            .await;
        }
    }
    host.assert_sound();
}

#[tokio::test]
async fn spec_that_does_not_fit_a_process_is_refused() {
    let control_plane = ControlPlane::shared().await;
    let host = host(control_plane).await;
    let namespace = team(control_plane, ALL).await;
    create(&namespace, json!({})).await;
    until_process(&host, &namespace, "it runs", |process| {
        process["startedAt"].is_string()
    })
    .await;
    let shards = json!({"spec": {"shards": 2}});
    namespace.patch(kinds::PLUGIN, "operator", shards).await;
    namespace
        .until_degraded(
            "operator",
            "SpecMismatch",
            &["spec.shards is 2", "a process"],
        )
        .await;
    host.assert_sound();
}

#[tokio::test]
async fn process_gets_configuration_and_its_files_follow() {
    let control_plane = ControlPlane::shared().await;
    let host = host(control_plane).await;
    let namespace = team(control_plane, ALL).await;
    allow_to_read(&namespace, &["secrets"]).await;
    let settings =
        json!({"metadata": {"name": "settings"}, "data": {"WHO": "config", "text": "one"}});
    namespace.create_object(kinds::CONFIG_MAP, settings).await;
    let secret = json!({"metadata": {"name": "login"}, "stringData": {"user": "admin"}});
    namespace.create_object(kinds::SECRET, secret).await;

    let env = json!([
        {"name": "USER_NAME", "valueFrom": {"secretKeyRef": {"name": "login", "key": "user"}}},
        {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "none", "key": "x", "optional": true}}},
        {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
        {"name": "GREETING", "value": "hello $(P_WHO) $(USER_NAME) $(MEMORY)"},
        {"name": "POD_NAMESPACE", "value": "x"},
    ]);
    let sources = json!([
        {"configMap": {"name": "settings", "items": [{"key": "text", "path": "text"}]}},
        {"secret": {"name": "login"}},
        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ]);
    let process = json!({
        "args": ["-print", "/etc/inputs"],
        "env": env,
        "envFrom": [{"prefix": "P_", "configMapRef": {"name": "settings"}}],
        "volumes": [
            {"name": "inputs", "projected": {"sources": sources}},
            {"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}},
        ],
        "volumeMounts": [
            {"name": "inputs", "mountPath": "/etc/inputs", "readOnly": true},
            {"name": "scratch", "mountPath": "/var/scratch"},
        ],
    });
    create(&namespace, process).await;
    until_logged(&host, &namespace, "greeting: hello config admin 256").await;
    until_logged(
        &host,
        &namespace,
        "files: name=operator text=one user=admin",
    )
    .await;

    let changed = json!({"data": {"text": "two"}});
    namespace
        .patch(kinds::CONFIG_MAP, "settings", changed)
        .await;
    until_logged(
        &host,
        &namespace,
        "files: name=operator text=two user=admin",
    )
    .await;
    let changed = json!({"stringData": {"user": "root", "more": "x"}});
    namespace.patch(kinds::SECRET, "login", changed).await;
    until_logged(
        &host,
        &namespace,
        "files: more=x name=operator text=two user=root",
    )
    .await;

    // What is gone stays for those who have it, as in a Pod.
    namespace.delete(kinds::SECRET, "login").await;
    let words = [
        "Secret \"login\"",
        "spec.process.env[0].valueFrom.secretKeyRef",
    ];
    namespace
        .until_degraded("operator", "ConfigNotFound", &words)
        .await;
    let plugin = until_process(&host, &namespace, "it runs", |process| {
        process["startedAt"].is_string() && process["ready"] == true
    })
    .await;
    assert_eq!(plugin["status"]["process"]["restartCount"], 0, "{plugin}");
    host.assert_sound();
}

#[tokio::test]
async fn process_waits_for_what_it_needs_and_may_not_read_more() {
    let control_plane = ControlPlane::shared().await;
    let host = host(control_plane).await;
    let namespace = team(control_plane, ALL).await;
    let secret = json!({"metadata": {"name": "login"}, "stringData": {"user": "admin"}});
    namespace.create_object(kinds::SECRET, secret).await;
    let volume = json!({"name": "login", "secret": {"secretName": "login"}});
    let late = json!({"name": "late", "configMap": {"name": "late"}});
    create(
        &namespace,
        json!({
            "args": ["-print", "/late"],
            "volumes": [volume, late],
            "volumeMounts": [{"name": "late", "mountPath": "/late"}],
        }),
    )
    .await;

    // Whoever may create Plugins does not read Secrets by that.
    let words = [
        "may not get Secret \"login\", which spec.process.volumes[0].secret names",
        "kubectl create role",
        "--resource-name=login",
    ];
    namespace
        .until_degraded("operator", "ConfigForbidden", &words)
        .await;

    allow_to_read(&namespace, &["secrets"]).await;
    let ready = namespace
        .until_condition("operator", "Ready", "False", "ConfigNotFound")
        .await;
    assert!(
        ready.contains("ConfigMap \"late\" of spec.process.volumes[1].configMap"),
        "{ready}"
    );

    let created = json!({"metadata": {"name": "late"}, "data": {"a": "b"}});
    namespace.create_object(kinds::CONFIG_MAP, created).await;
    until_logged(&host, &namespace, "files: a=b").await;
    namespace
        .until_condition("operator", "Ready", "True", "Running")
        .await;

    // A right that is taken away counts at once.
    namespace.delete(Kind(RBAC, "RoleBinding"), "inputs").await;
    namespace
        .until_degraded("operator", "ConfigForbidden", &["login"])
        .await;
    until_process(&host, &namespace, "it ended", |process| {
        process["startedAt"].is_null()
    })
    .await;
    host.assert_sound();
}

/// Makes the checks of the process `operator` succeed or fail.
async fn set_health(namespace: &TestNamespace<'_>, live: &str, ready: &str) {
    let object = json!({
        "metadata": {"name": "health", "labels": {"copy": "wanted"}},
        "data": {"live": live, "ready": ready},
    });
    match namespace.get(kinds::CONFIG_MAP, "health").await {
        None => namespace.create_object(kinds::CONFIG_MAP, object).await,
        Some(_) => namespace.patch(kinds::CONFIG_MAP, "health", object).await,
    };
}

#[tokio::test]
async fn probes_decide_over_restart_and_readiness() {
    let control_plane = ControlPlane::shared().await;
    let host = host(control_plane).await;
    let namespace = team(control_plane, ALL).await;
    create(
        &namespace,
        json!({
            "args": ["-listen", ":8081"],
            "ports": [{"name": "probes", "containerPort": 8081, "protocol": "TCP"}],
            "startupProbe": {"tcpSocket": {"port": "probes"}, "periodSeconds": 1},
            "livenessProbe": {"grpc": {"port": 8081}, "periodSeconds": 1, "failureThreshold": 2},
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": "probes"}, "periodSeconds": 1},
        }),
    )
    .await;
    namespace
        .until_condition("operator", "Ready", "True", "Running")
        .await;

    set_health(&namespace, "yes", "no").await;
    let ready = namespace
        .until_condition("operator", "Ready", "False", "ProcessNotReady")
        .await;
    assert!(
        ready.contains("the readinessProbe failed 3 times in a row: status 500: told to fail"),
        "{ready}"
    );
    set_health(&namespace, "yes", "yes").await;
    until_process(&host, &namespace, "it is ready again", |process| {
        process["ready"] == true && process["restartCount"] == 0
    })
    .await;

    set_health(&namespace, "no", "yes").await;
    let plugin = until_process(&host, &namespace, "it was restarted", |process| {
        process["lastTermination"]["reason"] == "ProbeFailed"
            && process["restartCount"].as_i64() >= Some(1)
    })
    .await;
    let message = &plugin["status"]["process"]["lastTermination"]["message"];
    let message = message.as_str().unwrap_or_default();
    assert!(
        message.contains("the livenessProbe failed 2 times in a row")
            && message.contains("NOT_SERVING"),
        "{message}"
    );
    // It had its grace period.
    namespace
        .until(kinds::CONFIG_MAP, "goodbye", |_| Ok(()))
        .await;
    host.assert_sound();
}

#[tokio::test]
async fn fields_that_a_process_cannot_have_are_refused() {
    let control_plane = ControlPlane::shared().await;
    let namespace = team(control_plane, ALL).await;
    let _host = host(control_plane).await;
    let http = json!({"port": 1});
    for (process, expected) in [
        (
            json!({"livenessProbe": {"exec": {"command": ["true"]}}}),
            "a process has no other program that exec could run",
        ),
        (
            json!({"livenessProbe": {"httpGet": http, "grpc": {"port": 2}}}),
            "set exactly one of httpGet, tcpSocket and grpc",
        ),
        (
            json!({"livenessProbe": {"httpGet": http, "successThreshold": 2}}),
            "successThreshold of a livenessProbe must be 1",
        ),
        (
            json!({"readinessProbe": {"httpGet": {"port": 70000}}}),
            "readinessProbe.httpGet.port",
        ),
        (
            json!({"env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]}),
            "fieldRef.fieldPath",
        ),
        (
            json!({"volumeMounts": [{"name": "x", "mountPath": "/x"}]}),
            "each of volumeMounts names one of volumes",
        ),
        (
            json!({"volumes": [{"name": "x", "emptyDir": {}, "secret": {"secretName": "x"}}]}),
            "set exactly one of configMap, secret, projected, downwardAPI and emptyDir",
        ),
        (
            json!({"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "x", "key": "k"}, "fieldRef": {"fieldPath": "metadata.name"}}}]}),
            "set exactly one of fieldRef, resourceFieldRef, configMapKeyRef and secretKeyRef",
        ),
    ] {
        let spec = json!({"source": {"path": "process-operator.wasm"}, "process": process});
        let plugin = json!({"metadata": {"name": "refused"}, "spec": spec});
        let message = namespace.create_refused(kinds::PLUGIN, plugin).await;
        assert!(message.contains(expected), "{process}: {message}");
    }
}

/// A process of client-go would wait for the Lease of the one before it until that expires.
#[tokio::test]
async fn lease_of_the_last_process_is_released_and_no_other() {
    const LEASE: Kind = Kind("coordination.k8s.io/v1", "Lease");
    const UNIQUE: &str = "0b2e5f6a-6f3d-4f0c-9d0e-6a4f1c2b3d4e";
    let control_plane = ControlPlane::shared().await;
    let host = host(control_plane).await;
    let namespace = team(control_plane, ALL).await;

    let now = "2026-01-01T00:00:00.000000Z";
    for (name, host) in [("own", "operator"), ("pods", "operator-5d9c7b6f4-x2x8z")] {
        let spec = json!({
            "holderIdentity": format!("{host}_{UNIQUE}"),
            "leaseDurationSeconds": 3600,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 2,
        });
        let lease = json!({"metadata": {"name": name}, "spec": spec});
        namespace.create_object(LEASE, lease).await;
    }

    // Without the right to list Leases nothing is asked, and nothing is reported.
    create(&namespace, json!({})).await;
    until_process(&host, &namespace, "it runs", |process| {
        process["startedAt"].is_string()
    })
    .await;
    let own = namespace.get(LEASE, "own").await.expect("there");
    assert_eq!(own["spec"]["holderIdentity"], format!("operator_{UNIQUE}"));

    let rules = json!([{
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "list", "create", "update"],
    }]);
    let role = json!({"metadata": {"name": "election"}, "rules": rules});
    namespace.create_object(Kind(RBAC, "Role"), role).await;
    let subject =
        json!({"kind": "ServiceAccount", "name": "operator", "namespace": namespace.name()});
    let binding = json!({
        "metadata": {"name": "election"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "election"},
        "subjects": [subject],
    });
    namespace
        .create_object(Kind(RBAC, "RoleBinding"), binding)
        .await;
    // A process may start before the host knows of the right.
    let mut starts = 0;
    eventually("the Lease is released", async || {
        starts += 1;
        let greeting = format!("start {starts}");
        let env = json!([{"name": "GREETING", "value": greeting}]);
        let change = json!({"spec": {"process": {"env": env}}});
        namespace.patch(kinds::PLUGIN, "operator", change).await;
        until_logged(&host, &namespace, &format!("greeting: {greeting}")).await;

        let logs = host.logs(namespace.name(), "operator");
        let is_released = |message: &str| message.contains("released the Lease \"own\"");
        match logs.iter().any(|line| is_released(&line.message)) {
            true => Ok(()),
            false => Err(format!("{logs:?}")),
        }
    })
    .await;
    let own = namespace.get(LEASE, "own").await.expect("there");
    assert_eq!(own["spec"]["holderIdentity"], "");
    assert_eq!(own["spec"]["leaseTransitions"], 2);
    let pods = namespace.get(LEASE, "pods").await.expect("there");
    assert_eq!(
        pods["spec"]["holderIdentity"],
        format!("operator-5d9c7b6f4-x2x8z_{UNIQUE}")
    );
}

#[tokio::test]
async fn informer_of_a_process_is_marked_and_names_its_plugin() {
    let control_plane = ControlPlane::shared().await;
    let host = host(control_plane).await;
    let namespace = team(control_plane, ALL).await;
    create(&namespace, json!({})).await;
    ask_for_copy(&namespace, "one").await;
    until_copied(&namespace, "one").await;

    let operator = format!("{}/operator", namespace.name());
    let is_users = |informer: &Value| {
        let mut users = informer["users"].as_array().into_iter().flatten();
        users.any(|user| *user == *operator)
    };
    // Its first watch may have come before the informer.
    let informer = eventually("an informer is the process's", async || {
        let arguments = ["informers", "--host", host.admin_address(), "-o", "json"];
        let output = host.run(&arguments);
        let view: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("{error}: {output:?}"))?;
        let mut all = view["informers"].as_array().into_iter().flatten();
        all.find(|informer| is_users(informer))
            .cloned()
            .ok_or_else(|| view.to_string())
    })
    .await;
    assert_eq!(informer["kind"], "ConfigMap.v1", "{informer}");
    assert_eq!(informer["forProcesses"], true, "{informer}");
    let users = informer["users"].as_array().expect("users");
    assert!(!users.contains(&json!("host")), "{informer}");
}

#[tokio::test]
async fn metrics_of_a_process_are_part_of_its_hosts() {
    let control_plane = ControlPlane::shared().await;
    let host = host(control_plane).await;
    let namespace = team(control_plane, ALL).await;
    ask_for_copy(&namespace, "one").await;
    create(
        &namespace,
        json!({"args": ["-listen", ":8080"], "metrics": {"port": 8080}}),
    )
    .await;
    until_copied(&namespace, "one").await;

    let labels = format!("namespace=\"{}\",plugin=\"operator\"", namespace.name());
    let sample = format!("copies_total{{exported_namespace=\"kube-system\",{labels}}} 1.0");
    eventually("the host has its metrics", async || {
        let metrics = host.metrics();
        let has = |line: &str| metrics.lines().any(|found| found == line);
        match has(&sample) && has("# TYPE copies counter") {
            true => Ok(()),
            false => Err(metrics),
        }
    })
    .await;

    let metrics = host.metrics();
    assert!(!metrics.contains("4242"), "the host's own: {metrics}");
    let up = format!(
        "operetta_process_metrics_up{{plugin=\"operator\",namespace=\"{}\"}} 1",
        namespace.name()
    );
    assert!(metrics.contains(&up), "{metrics}");
    host.assert_sound();
}
