//! RBAC, impersonation, tokens and admission policies in requests.

use serde_json::{Value, json};

use crate::client::Client;

const AS_PLUGIN: &str = "impersonate-user: system:serviceaccount:default:plugin";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";

async fn allow(client: &Client, rules: &Value) {
    let role = json!({"metadata": {"name": "plugin"}, "rules": rules});
    client.create(&format!("{RBAC}/roles"), &role).await;

    let binding = json!({
        "metadata": {"name": "plugin"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "plugin"},
        "subjects": [{"kind": "ServiceAccount", "name": "plugin", "namespace": "default"}],
    });
    client
        .create(&format!("{RBAC}/rolebindings"), &binding)
        .await;
}

#[tokio::test]
async fn impersonated_account_has_the_rights_of_its_roles_only() {
    let client = Client::new();
    let path = "/api/v1/namespaces/default/configmaps";
    let (code, refused) = client.send("GET", path, &[AS_PLUGIN], &Value::Null).await;
    assert_eq!(code, 403);
    let message = r#"configmaps is forbidden: User "system:serviceaccount:default:plugin" cannot list resource "configmaps" in API group "" in the namespace "default""#;
    assert_eq!(refused["message"], message);

    allow(
        &client,
        &json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]),
    )
    .await;
    assert_eq!(
        client.send("GET", path, &[AS_PLUGIN], &Value::Null).await.0,
        200
    );

    let review = json!({"spec": {"resourceAttributes": {"verb": "create", "resource": "configmaps", "namespace": "default"}}});
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let (code, answer) = client.send("POST", reviews, &[AS_PLUGIN], &review).await;
    assert_eq!((code, &answer["status"]["allowed"]), (201, &json!(false)));
}

#[tokio::test]
async fn update_and_apply_of_an_absent_object_need_create() {
    let client = Client::new();
    let groups = json!(["", "coordination.k8s.io"]);
    let verbs = json!(["update", "patch"]);
    allow(
        &client,
        &json!([{"apiGroups": groups, "resources": ["configmaps", "leases"], "verbs": verbs}]),
    )
    .await;

    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let lease =
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}});
    let maps = "/api/v1/namespaces/default/configmaps";
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let apply = "content-type: application/apply-patch+yaml";

    for (method, list, query, kind, object, name) in [
        (
            "PATCH",
            maps,
            "?fieldManager=x",
            apply,
            &map,
            "configmaps \"a\"",
        ),
        (
            "PUT",
            leases,
            "",
            "content-type: application/json",
            &lease,
            "leases.coordination.k8s.io \"a\"",
        ),
    ] {
        let path = format!("{list}/a{query}");

        let (code, refused) = client.send(method, &path, &[AS_PLUGIN, kind], object).await;
        let message = refused["message"].as_str().expect("a message");
        let begin = format!(
            "{name} is forbidden: User \"system:serviceaccount:default:plugin\" cannot create resource "
        );

        assert_eq!(code, 403, "{message}");
        assert!(message.starts_with(&begin), "{message}");

        let created = client.create(list, object).await;
        let body = if method == "PUT" { &created } else { object };
        assert_eq!(
            client.send(method, &path, &[AS_PLUGIN, kind], body).await.0,
            200
        );
    }
}

#[tokio::test]
async fn token_of_an_account_is_its_account() {
    let client = Client::new();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";

    client
        .create(accounts, &json!({"metadata": {"name": "plugin"}}))
        .await;

    let requested = client
        .create(&format!("{accounts}/plugin/token"), &json!({"spec": {}}))
        .await;
    let token = requested["status"]["token"].as_str().expect("a token");
    let header = format!("authorization: Bearer {token}");
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

    let (code, review) = client.send("POST", path, &[&header], &json!({})).await;
    assert_eq!(
        (code, &review["status"]["userInfo"]["username"]),
        (201, &json!("system:serviceaccount:default:plugin"))
    );

    let (code, _) = client
        .send(
            "GET",
            "/api/v1/namespaces",
            &["authorization: Bearer nonsense"],
            &Value::Null,
        )
        .await;
    assert_eq!(code, 401);
}

#[tokio::test]
async fn nobody_gives_rights_that_they_do_not_have() {
    let client = Client::new();
    allow(&client, &json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"]}]))
        .await;

    let role = json!({
        "metadata": {"name": "secrets"}, "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
    });
    let (code, refused) = client
        .send("POST", &format!("{RBAC}/roles"), &[AS_PLUGIN], &role)
        .await;

    let message = refused["message"].as_str().unwrap_or_default();
    assert!(
        code == 403
            && message.contains("is attempting to grant RBAC permissions not currently held"),
        "{refused}"
    );
}

#[tokio::test]
async fn bound_policy_refuses_objects_from_the_next_request_on() {
    let client = Client::new();
    let group = "/apis/admissionregistration.k8s.io/v1";

    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]});
    let policy = json!({
        "metadata": {"name": "named"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "object.metadata.name.startsWith('ok')", "message": "the name must begin with ok"}],
        },
    });

    client
        .create(&format!("{group}/validatingadmissionpolicies"), &policy)
        .await;

    let binding = json!({"metadata": {"name": "named"}, "spec": {"policyName": "named", "validationActions": ["Deny"]}});
    client
        .create(
            &format!("{group}/validatingadmissionpolicybindings"),
            &binding,
        )
        .await;

    let path = "/api/v1/namespaces/default/configmaps";
    let (code, refused) = client
        .send("POST", path, &[], &json!({"metadata": {"name": "bad"}}))
        .await;

    let message = refused["message"].as_str().unwrap_or_default();
    assert!(
        code == 422 && message.ends_with("the name must begin with ok"),
        "{refused}"
    );

    client
        .create(path, &json!({"metadata": {"name": "ok-1"}}))
        .await;
}
