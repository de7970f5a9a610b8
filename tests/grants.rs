//! `operetta grant`: what the host may do for a ServiceAccount after a grant, what somebody with
//! the host's token still may not do, and the namespaces in which nothing is ever granted.
//!
//! It is a file of its own because each test has a control plane and a host of its own.

use std::process::Command;

use operetta_testkit::{
    ControlPlane, DropIn, Host, HostOptions, Kind, TestNamespace, eventually, guest, kinds,
    run_what_it_says,
};
use serde_json::{Value, json};

const HOST: &str = "system:serviceaccount:operetta-system:operetta";
const TO_HOST: &str = "--serviceaccount=operetta-system:operetta";

/// A control plane with a host that has the rights of `deploy/rbac` alone.
async fn narrow() -> (ControlPlane, HostOptions) {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    (
        control_plane,
        HostOptions {
            narrow: true,
            ..HostOptions::default()
        },
    )
}

/// Runs kubectl with the host's own token. Returns its messages if it fails.
fn as_host(control_plane: &ControlPlane, args: &[&str]) -> Result<String, String> {
    let kubeconfig = control_plane.kubeconfig_of("operetta-system", "operetta");
    let mut kubectl = Command::new(control_plane.kubectl_path());

    let output = kubectl
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(args)
        .output()
        .expect("kubectl runs");

    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// A namespace whose ServiceAccount `plugin` may do everything in it, with a healthy plugin.
async fn team<'a>(control_plane: &'a ControlPlane, prefix: &str) -> TestNamespace<'a> {
    let namespace = control_plane.namespace(prefix).await;
    namespace.allow_all("plugin").await;
    namespace.create_touchable("target").await;
    namespace
        .drop_in(&DropIn::new("touch", guest("fixture-touch-v1")))
        .await;
    namespace
}

#[tokio::test]
async fn granted_plugin_runs_others_say_what_is_missing() {
    let (control_plane, options) = narrow().await;
    let host = Host::start(&control_plane, &options).await;
    let granted = team(&control_plane, "granted").await;
    let other = team(&control_plane, "other").await;

    let command = format!("operetta grant plugin -n {}", granted.name());
    let message = granted
        .until_degraded(
            "touch",
            "HostForbidden",
            &["may not impersonate ServiceAccount", &command],
        )
        .await;
    run_what_it_says(
        &control_plane,
        &[&operetta_testkit::program("operetta")],
        "operetta grant ",
        &message,
    );

    granted.until_touched("target", "v1").await;
    granted
        .until_condition("touch", "Ready", "True", "Running")
        .await;

    let command = format!("operetta grant plugin -n {}", other.name());
    other
        .until_degraded("touch", "HostForbidden", &[&command])
        .await;
    other
        .until_event(kinds::PLUGIN, "touch", "HostForbidden")
        .await;

    let audit = control_plane.audit();
    let acted = audit.done_by(|event| {
        event.user.username == HOST && !event.impersonated_user.username.is_empty()
    });
    let acted: Vec<_> = acted.collect();
    assert!(
        acted
            .iter()
            .any(|event| event.verb == "update" || event.verb == "patch")
    );

    for event in acted {
        assert!(
            event
                .impersonated_user
                .username
                .ends_with(&format!(":{}:plugin", granted.name())),
            "{event:?}"
        );
        assert_eq!(
            event.authentication_metadata.impersonation_constraint, "impersonate:serviceaccount",
            "{event:?}"
        );
    }

    // When the grant is taken back, the plugin stops and says so.
    host.grant(granted.name(), &["plugin", "--revoke"]);
    granted
        .until_degraded("touch", "HostForbidden", &["operetta grant plugin -n"])
        .await;

    let left = granted.kubectl(&["get", "roles,rolebindings", "-o", "name"]);
    assert!(!left.contains("operetta-host"), "{left}");

    host.assert_sound();
}

#[tokio::test]
async fn grant_prints_the_api_servers_warnings_once() {
    let (control_plane, options) = narrow().await;
    let host = Host::start(&control_plane, &options).await;
    let namespace = team(&control_plane, "warned").await;
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "remark"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["rbac.authorization.k8s.io"], "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"], "resources": ["rolebindings"],
            }]},
            "validations": [{"expression": "false", "message": "reviewed on Fridays"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "remark"},
        "spec": {"policyName": "remark", "validationActions": ["Warn"]},
    });
    control_plane.apply(&policy.to_string());
    control_plane.apply(&binding.to_string());

    // A policy takes a moment to take effect.
    eventually("operetta grant prints the warning", async || {
        let output = host.run(&["grant", "-n", namespace.name(), "plugin"]);
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{messages}");
        let warnings = messages.lines().filter(|line| {
            line.starts_with("Warning: ") && line.ends_with(": reviewed on Fridays")
        });
        // Two RoleBindings, the same words.
        match warnings.count() {
            1 => Ok(()),
            count => Err(format!("{count} times: {messages}")),
        }
    })
    .await;
}

#[tokio::test]
async fn owner_of_host_token_gets_only_what_was_granted() {
    let (control_plane, options) = narrow().await;
    let host = Host::start(&control_plane, &options).await;
    let granted = team(&control_plane, "granted").await;
    let other = team(&control_plane, "other").await;
    granted.consenting("second").await;

    control_plane.kubectl(&["create", "serviceaccount", "root", "-n", "kube-system"]);
    let to_root = "--serviceaccount=kube-system:root";
    control_plane.kubectl(&[
        "create",
        "clusterrolebinding",
        "root",
        "--clusterrole=cluster-admin",
        to_root,
    ]);

    host.grant(granted.name(), &["plugin"]);
    granted.until_touched("target", "v1").await;

    let home = granted.name();
    let elsewhere = other.name();
    let user =
        |namespace: &str, name: &str| format!("--as=system:serviceaccount:{namespace}:{name}");
    let plugin = user(home, "plugin");
    as_host(&control_plane, &["get", "secrets", "-n", home, &plugin])
        .expect("as the plugin, which may");

    let refused = [
        vec!["get", "secrets", "-A"],
        vec!["get", "secrets", "-n", home],
        vec!["get", "secrets", "-n", elsewhere],
        vec!["get", "pods", "-n", elsewhere],
        vec!["create", "token", "plugin", "-n", home],
        vec![
            "create",
            "rolebinding",
            "x",
            "-n",
            home,
            "--clusterrole=cluster-admin",
            TO_HOST,
        ],
    ];

    for args in refused {
        let message = as_host(&control_plane, &args).expect_err(&format!("{args:?} as the host"));
        assert!(message.contains("orbidden"), "{args:?}: {message}");
        println!("with the host's token: {args:?}: {}", message.trim_end());
    }

    let refused_as = [
        (user(home, "second"), vec!["get", "configmaps", "-n", home]),
        (
            user(elsewhere, "plugin"),
            vec!["get", "configmaps", "-n", elsewhere],
        ),
        (
            user("kube-system", "root"),
            vec!["get", "secrets", "-n", "kube-system"],
        ),
        (
            user("operetta-system", "operetta"),
            vec!["get", "configmaps", "-n", home],
        ),
        (
            "--as=admin".to_owned(),
            vec!["get", "configmaps", "-n", home],
        ),
        // What the plugin itself may do, but the host has not been granted.
        (
            plugin.clone(),
            vec!["create", "token", "plugin", "-n", home],
        ),
        (
            plugin.clone(),
            vec![
                "create",
                "role",
                "x",
                "-n",
                home,
                "--verb=*",
                "--resource=*",
            ],
        ),
        (
            plugin.clone(),
            vec![
                "create",
                "rolebinding",
                "x",
                "-n",
                home,
                "--clusterrole=cluster-admin",
                TO_HOST,
            ],
        ),
        (plugin.clone(), vec!["get", "--raw", "/metrics"]),
    ];

    for (user, mut args) in refused_as {
        args.push(&user);
        let message = as_host(&control_plane, &args).expect_err(&format!("{args:?}"));
        assert!(message.contains("orbidden"), "{args:?}: {message}");
        println!("with the host's token: {args:?}: {}", message.trim_end());
    }

    // Any group, extra or uid ends constrained impersonation of a ServiceAccount.
    let masters = [
        "get",
        "secrets",
        "-n",
        home,
        &plugin,
        "--as-group=system:masters",
    ];
    as_host(&control_plane, &masters).expect_err("with a group");

    let exec = format!("/api/v1/namespaces/{home}/pods/x/exec?command=sh&stdout=1");
    let message = as_host(&control_plane, &["get", "--raw", &exec, &plugin]).expect_err("exec");
    assert!(
        message.contains("impersonate-on:serviceaccount:"),
        "{message}"
    );
}

#[tokio::test]
async fn new_permission_of_account_waits_for_new_grant() {
    let (control_plane, options) = narrow().await;
    let host = Host::start(&control_plane, &options).await;
    let namespace = control_plane.namespace("stale").await;
    namespace.kubectl(&[
        "create",
        "role",
        "plugin",
        "--verb=get,list,watch",
        "--resource=configmaps",
    ]);

    let to_plugin = format!("--serviceaccount={}:plugin", namespace.name());
    namespace.kubectl(&[
        "create",
        "rolebinding",
        "plugin",
        "--role=plugin",
        &to_plugin,
    ]);

    host.grant(namespace.name(), &[]);
    namespace.create_touchable("target").await;
    namespace
        .drop_in(&DropIn::new("touch", guest("fixture-touch-v1")))
        .await;

    // The account may not write, and the host may not write as it.
    let cure = format!("operetta grant plugin -n {}", namespace.name());
    let wanted = ["cannot ", "resource \"configmaps\"", &cure];
    let message = eventually("the refusal shows", async || {
        let found = namespace
            .get(kinds::PLUGIN, "touch")
            .await
            .unwrap_or_default();
        let text = found["status"].to_string().replace("\\\"", "\"");
        if wanted.iter().all(|part| text.contains(part)) {
            Ok(text)
        } else {
            Err(text)
        }
    })
    .await;
    assert!(!message.contains("impersonate-on"), "{message}");

    namespace.kubectl(&[
        "create",
        "role",
        "writes",
        "--verb=update,patch",
        "--resource=configmaps",
    ]);
    namespace.kubectl(&[
        "create",
        "rolebinding",
        "writes",
        "--role=writes",
        &to_plugin,
    ]);

    run_what_it_says(
        &control_plane,
        &[&operetta_testkit::program("operetta")],
        "operetta grant ",
        &cure,
    );
    namespace.until_touched("target", "v1").await;
}

#[tokio::test]
async fn legacy_grant_works_without_constrained_verbs() {
    let (control_plane, options) = narrow().await;
    let host = Host::start(&control_plane, &options).await;
    let namespace = team(&control_plane, "legacy").await;

    let yaml = host.grant(
        namespace.name(),
        &["-o", "yaml", "--impersonation", "legacy"],
    );
    assert!(
        yaml.contains("verbs: [impersonate]") && !yaml.contains("impersonate-on"),
        "{yaml}"
    );

    host.grant(namespace.name(), &["--impersonation", "legacy"]);
    namespace.until_touched("target", "v1").await;

    let root = as_host(
        &control_plane,
        &[
            "get",
            "secrets",
            "-A",
            "--as=system:serviceaccount:kube-system:default",
        ],
    );
    root.expect_err("no other account");
}

#[tokio::test]
async fn reserved_namespaces_are_refused_whatever_their_labels() {
    let (control_plane, options) = narrow().await;
    let host = Host::start(&control_plane, &options).await;

    for name in ["kube-system", "operetta-system"] {
        let namespace = control_plane.existing_namespace(name).await;
        control_plane.kubectl(&["label", "namespace", name, "operetta.dev/plugins=enabled"]);
        namespace.allow_all("plugin").await;
        namespace
            .drop_in(&DropIn::new("dropped", guest("fixture-touch-v1")))
            .await;
        namespace
            .until_event(kinds::CONFIG_MAP, "dropped", "NamespaceReserved")
            .await;
        let spec =
            json!({"source": {"configMap": {"name": "dropped"}}, "serviceAccountName": "plugin"});
        namespace
            .create_object(
                kinds::PLUGIN,
                json!({"metadata": {"name": "touch"}, "spec": spec}),
            )
            .await;
        namespace
            .until_degraded(
                "touch",
                "NamespaceReserved",
                &["allowReservedNamespaces", name],
            )
            .await;

        let grant = host.run(&["grant", "plugin", "-n", name]);
        assert!(!grant.status.success());
        assert!(
            String::from_utf8_lossy(&grant.stderr).contains("is reserved"),
            "{grant:?}"
        );

        // It cannot be granted by hand either.
        control_plane.kubectl(&[
            "create",
            "role",
            "acts",
            "-n",
            name,
            "--verb=impersonate",
            "--resource=serviceaccounts",
        ]);

        let user = format!("--user={HOST}");
        let attempts = [
            vec![
                "create",
                "rolebinding",
                "x",
                "-n",
                name,
                "--role=acts",
                TO_HOST,
            ],
            vec![
                "create",
                "rolebinding",
                "x",
                "-n",
                name,
                "--role=acts",
                &user,
            ],
            vec![
                "create",
                "rolebinding",
                "x",
                "-n",
                name,
                "--role=acts",
                "--group=system:serviceaccounts:operetta-system",
            ],
        ];

        for attempt in attempts.iter().map(|attempt| attempt.as_slice()) {
            eventually("the policy refuses", async || {
                let output =
                    control_plane.kubectl_output(&[attempt, &["--dry-run=server"]].concat());
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                if said.contains("may have no permission in namespace") {
                    Ok(())
                } else {
                    Err(said)
                }
            })
            .await;
        }
    }

    let cluster_wide = [
        "create",
        "clusterrolebinding",
        "x",
        "--clusterrole=cluster-admin",
        TO_HOST,
    ];
    let output = control_plane.kubectl_output(&cluster_wide);
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("only to a ClusterRole named operetta-*"),
        "{output:?}"
    );

    for verb in [
        "impersonate",
        "impersonate:serviceaccount",
        "impersonate:user-info",
        "impersonate:arbitrary-node",
        "impersonate:associated-node",
        "*",
    ] {
        let rules =
            json!([{"apiGroups": ["*"], "resources": ["serviceaccounts"], "verbs": [verb]}]);
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                          "metadata": {"name": "operetta-mine"}, "rules": rules});

        let path = control_plane.folder().join("role.json");
        std::fs::write(&path, role.to_string()).expect("written");
        let output =
            control_plane.kubectl_output(&["create", "-f", path.to_str().expect("a path")]);
        assert!(
            String::from_utf8_lossy(&output.stderr).contains("may not impersonate"),
            "{verb}: {output:?}"
        );
    }

    // A role without rules gives nobody anything. The API server stores `rules: null`.
    control_plane.kubectl(&[
        "create",
        "clusterrole",
        "operetta-empty",
        "--aggregation-rule=operetta.dev/none=true",
    ]);

    // The host's Role in its own namespace is for its Lease only.
    let rule =
        json!({"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]});
    let patch = json!([{"op": "add", "path": "/rules/-", "value": rule}]).to_string();
    let more = [
        "patch",
        "role",
        "operetta",
        "-n",
        "operetta-system",
        "--type=json",
        "-p",
        &patch,
    ];

    let output = control_plane.kubectl_output(&more);
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("may not impersonate"),
        "{output:?}"
    );

    host.assert_sound();
}

#[tokio::test]
async fn grant_belongs_to_the_namespace_of_its_account() {
    let (control_plane, options) = narrow().await;
    let host = Host::start(&control_plane, &options).await;
    let namespace = control_plane.namespace("owner").await;
    let other = control_plane.namespace("owned").await;
    namespace.consenting("plugin").await;
    let to_plugin = format!("--serviceaccount={}:plugin", namespace.name());
    // `view` has no rules without the controller that aggregates them.
    control_plane.kubectl(&[
        "create",
        "clusterrole",
        "reader",
        "--verb=get,list,watch",
        "--resource=configmaps",
    ]);
    other.kubectl(&[
        "create",
        "rolebinding",
        "a",
        "--clusterrole=reader",
        &to_plugin,
    ]);
    let wide = format!("{}-wide", namespace.name());
    control_plane.kubectl(&[
        "create",
        "clusterrolebinding",
        &wide,
        "--clusterrole=reader",
        &to_plugin,
    ]);

    host.grant(namespace.name(), &[]);
    let uid = control_plane.kubectl(&[
        "get",
        "namespace",
        namespace.name(),
        "-o=jsonpath={.metadata.uid}",
    ]);
    let name = format!("operetta-host:{}:plugin", namespace.name());
    for (kind, at) in [
        ("role", Some(namespace.name())),
        ("rolebinding", Some(namespace.name())),
        ("role", Some(other.name())),
        ("rolebinding", Some(other.name())),
        ("clusterrole", None),
        ("clusterrolebinding", None),
    ] {
        let mut args = vec![
            "get",
            kind,
            &name,
            "-o=jsonpath={.metadata.ownerReferences}",
        ];
        args.extend(at.iter().flat_map(|at| ["-n", *at]));
        let owners: Value = serde_json::from_str(&control_plane.kubectl(&args)).expect("JSON");
        let expected = json!([{
            "apiVersion": "v1",
            "kind": "Namespace",
            "name": namespace.name(),
            "uid": uid.trim(),
        }]);
        assert_eq!(owners, expected, "{kind} in {at:?}");
    }

    // In another cluster, an owner of this one would delete them.
    let printed = host.run(&["grant", "-n", namespace.name(), "-o", "yaml"]);
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    assert!(
        printed.contains(&name) && !printed.contains("ownerReferences"),
        "{printed}"
    );
}

#[tokio::test]
async fn grant_refuses_accounts_that_do_not_consent() {
    let (control_plane, options) = narrow().await;
    let host = Host::start(&control_plane, &options).await;
    let namespace = control_plane.namespace("consent").await;
    namespace
        .create_object(
            Kind("v1", "ServiceAccount"),
            json!({"metadata": {"name": "shy"}}),
        )
        .await;

    for (args, wanted) in [
        (
            &["shy"][..],
            "consents to no plugin: kubectl annotate serviceaccount shy",
        ),
        (&["nobody"], "ServiceAccount \"nobody\" not found"),
        (&["--host-service-account", "x"], "is not NAMESPACE/NAME"),
        (&["--revoke"], "name the ServiceAccounts"),
    ] {
        let output = host.run(&[&["grant", "-n", namespace.name()], args].concat());
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && message.contains(wanted),
            "{args:?}: {message}"
        );
    }

    let lines = host.grant(namespace.name(), &[]);
    assert!(
        lines.contains(":plugin") && !lines.contains("shy"),
        "{lines}"
    );
}
