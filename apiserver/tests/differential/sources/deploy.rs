//! Applies the installation in `deploy/overlays/unrestricted`, which has all policies, and sends
//! requests that they refuse or allow.

use serde_json::{Value, json};

use super::tables::authz::as_user;
use crate::{
    exchange::Request,
    proxy::Proxy,
    runner::Runner,
    sources::{collection, create, namespace, path, tests},
};

const HOST: &str = "operetta-system";
/// The label of a namespace where plugins may run.
const ENABLED: &str = "operetta.dev/plugins";

pub async fn run(runner: &mut Runner) {
    let folder = tempfile::tempdir().expect("a folder");
    let overlay = tests("../../../deploy/overlays/unrestricted");
    let mut proxy = Proxy::start().await;

    for _ in 0..2 {
        // The second time changes nothing.
        let mut kubectl = proxy.kubectl(
            folder.path(),
            &["apply", "-k", overlay.to_str().expect("a path")],
            "true",
        );
        proxy.until_end(runner, &mut kubectl).await;

        runner
            .wait(
                "/openapi/v3/apis/operetta.dev/v1alpha1",
                200,
                "",
                &Value::Null,
            )
            .await;
    }

    let roles = [
        json!({"apiGroups": [""], "resources": ["namespaces", "namespaces/status", "namespaces/finalize"],
            "verbs": ["create", "update", "patch"]}),
        json!({"apiGroups": ["operetta.dev"], "resources": ["plugins"], "verbs": ["enable"]}),
    ];

    for (name, rule, user) in [
        ("namespaces", &roles[0], "team"),
        ("enabling", &roles[1], "enabler"),
    ] {
        grant(runner, name, rule, user).await;
    }

    grant(runner, "namespaces-too", &roles[0], "enabler").await;
    namespace(runner, "plain").await;
    create(runner, &labelled("opted", "enabled")).await;
    runner.settle(3000).await;

    namespaces(runner).await;
    bindings(runner).await;
    roles_of_the_host(runner).await;
    epochs(runner).await;
}

/// Gives a user a cluster-wide rule.
async fn grant(runner: &mut Runner, name: &str, rule: &Value, user: &str) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let version = format!("{GROUP}/v1");
    let metadata = json!({"name": name});
    create(runner, &json!({"apiVersion": version, "kind": "ClusterRole", "metadata": metadata, "rules": [rule]})).await;

    let subject = json!({"apiGroup": GROUP, "kind": "User", "name": user});
    create(
        runner,
        &json!({"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": metadata, "subjects": [subject],
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}}),
    )
    .await;
}

fn labelled(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {ENABLED: value}}})
}

/// Sends a request as a user with groups, without storing anything.
async fn ask(
    runner: &mut Runner,
    mut request: Request,
    user: &str,
    groups: &[&str],
    epoch: &[&str],
) {
    request.path += "?dryRun=All";

    let extra: Vec<Value> = epoch
        .iter()
        .map(|epoch| json!(["operetta.dev%2fepoch", epoch]))
        .collect();

    runner
        .send(as_user(
            request,
            &json!({"user": user, "groups": groups, "extra": extra}),
        ))
        .await;
}

/// Writes of namespaces, with and without the right to enable plugins.
async fn namespaces(runner: &mut Runner) {
    const PATH: &str = "/api/v1/namespaces";
    let label = |value: Value| json!({"metadata": {"labels": {ENABLED: value}}});
    for user in ["team", "enabler", "nobody"] {
        for value in ["enabled", "", "other"] {
            ask(
                runner,
                Request::post(PATH, &labelled("new", value)),
                user,
                &[],
                &[],
            )
            .await;
        }

        let bare = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}});
        ask(runner, Request::post(PATH, &bare), user, &[], &[]).await;

        for name in ["plain", "opted"] {
            for sub in ["", "/status"] {
                for value in [json!("enabled"), json!("x"), Value::Null] {
                    let path = format!("{PATH}/{name}{sub}");
                    ask(
                        runner,
                        Request::patch(path, "merge", &label(value)),
                        user,
                        &[],
                        &[],
                    )
                    .await;
                }
            }

            let mut body = labelled(name, "enabled");
            body["spec"] = json!({"finalizers": ["kubernetes"]});
            ask(
                runner,
                Request::put(format!("{PATH}/{name}/finalize"), &body),
                user,
                &[],
                &[],
            )
            .await;
        }
    }
}

/// Binds the host's account to roles of several names, in several namespaces.
async fn bindings(runner: &mut Runner) {
    let subjects = [
        json!({"kind": "ServiceAccount", "name": "operetta", "namespace": HOST}),
        json!({"kind": "ServiceAccount", "name": "operetta", "namespace": "plain"}),
        json!({"kind": "User", "name": "system:serviceaccount:operetta-system:operetta"}),
        json!({"kind": "Group", "name": "system:serviceaccounts:operetta-system"}),
        json!({"kind": "User", "name": "team"}),
    ];

    let roles = [
        ("Role", "operetta"),
        ("ClusterRole", "operetta-reader"),
        ("ClusterRole", "cluster-admin"),
    ];

    for subject in &subjects {
        for home in ["kube-system", HOST, "plain", ""] {
            for (kind, name) in roles
                .iter()
                .filter(|(kind, _)| !home.is_empty() || *kind == "ClusterRole")
            {
                let mut binding = json!({
                    "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                    "metadata": {"name": "asked"}, "subjects": [{"kind": "User", "name": "ann"}, subject],
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
                });

                if !home.is_empty() {
                    binding["kind"] = "RoleBinding".into();
                    binding["metadata"]["namespace"] = home.into();
                }

                let request = Request::post(collection(&binding), &binding);
                ask(runner, request, "admin", &["system:masters"], &[]).await;
            }
        }
    }
}

/// Roles with the names of the host's roles.
async fn roles_of_the_host(runner: &mut Runner) {
    for name in ["operetta", "operetta-x", "operetta-unrestricted", "other"] {
        for home in ["kube-system", HOST, "plain", ""] {
            for verbs in [
                json!(["get"]),
                json!(["get", "impersonate"]),
                json!(["*"]),
                Value::Null,
            ] {
                let mut role = json!({
                    "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
                    "rules": [{"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": verbs}],
                });

                if verbs.is_null() {
                    role["rules"] = Value::Null;
                }

                if !home.is_empty() {
                    role["kind"] = "Role".into();
                    role["metadata"]["namespace"] = home.into();
                }

                ask(
                    runner,
                    Request::post(collection(&role), &role),
                    "admin",
                    &["system:masters"],
                    &[],
                )
                .await;
            }
        }
    }
}

/// Writes in an epoch: without a Lease, and with Leases that list some.
async fn epochs(runner: &mut Runner) {
    let mut lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "operetta", "namespace": HOST},
        "spec": {"holderIdentity": "a"},
    });

    writes_in_epochs(runner).await;
    create(runner, &lease).await;

    for (members, last) in [
        (None, None),
        (Some("3=a,4=b"), Some(4)),
        (Some(""), Some(2)),
        (Some("10=c"), None),
    ] {
        lease["metadata"]["annotations"] = members.map_or(
            Value::Null,
            |members| json!({"operetta.dev/members": members}),
        );

        lease["spec"]["leaseTransitions"] = json!(last);

        runner.send(Request::put(path(&lease), &lease)).await;
        runner.settle(1500).await;
        writes_in_epochs(runner).await;
    }
}

async fn writes_in_epochs(runner: &mut Runner) {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "plain"}});
    for epoch in [
        &[][..],
        &["1"],
        &["3"],
        &["4"],
        &["5"],
        &["10"],
        &["x"],
        &["99999999999"],
        &["3", "4"],
        &[""],
    ] {
        let request = Request::post(collection(&object), &object);
        ask(runner, request, "admin", &["system:masters"], epoch).await;
    }

    for epoch in ["1", "4"] {
        let account = "/api/v1/namespaces/plain/serviceaccounts/default";
        let patch = json!({"metadata": {"labels": {"a": epoch}}});

        ask(
            runner,
            Request::patch("/api/v1/namespaces/plain", "merge", &patch),
            "admin",
            &["system:masters"],
            &[epoch],
        )
        .await;

        ask(
            runner,
            Request::delete(account),
            "admin",
            &["system:masters"],
            &[epoch],
        )
        .await;

        let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        ask(
            runner,
            Request::post(path, &review),
            "admin",
            &["system:masters"],
            &[epoch],
        )
        .await;
    }
}
