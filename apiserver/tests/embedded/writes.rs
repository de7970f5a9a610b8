//! Writes of built-in kinds: defaults, field managers, patches, and refusals.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::client::Client;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn deployment(replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            },
        },
    })
}

#[tokio::test]
async fn body_of_a_deletion_replaces_its_query() {
    let client = Client::new();
    let maps = "/api/v1/namespaces/default/configmaps";

    for (body, code, goes) in [
        (json!({"dryRun": ["All"]}), 200, false),
        (json!({"dryRun": "All"}), 400, false),
        (json!({"dryRun": [1]}), 400, false),
        (json!([["All"]]), 400, false),
        (json!({}), 200, true),
        (json!({"dryRun": null}), 200, true),
    ] {
        client
            .send("POST", maps, &[], &json!({"metadata": {"name": "a"}}))
            .await;

        let (found, answer) = client
            .send("DELETE", &format!("{maps}/a?dryRun=All"), &[], &body)
            .await;

        assert_eq!(found, code, "{body}: {answer}");
        assert_eq!(
            client.get(&format!("{maps}/a")).await.0 == 404,
            goes,
            "{body}"
        );
    }
}

#[tokio::test]
async fn applies_of_two_managers_conflict_and_one_may_force() {
    let client = Client::new();
    let apply = |manager: &str, rest: &str, replicas: u32| {
        let path = format!("{DEPLOYMENTS}/web?fieldManager={manager}{rest}");
        let client = &client;
        async move {
            let headers = ["content-type: application/apply-patch+yaml"];
            client
                .send("PATCH", &path, &headers, &deployment(replicas))
                .await
        }
    };
    assert_eq!(apply("a", "", 1).await.0, 201);

    let (code, refused) = apply("b", "", 2).await;
    let message = r#"Apply failed with 1 conflict: conflict with "a": .spec.replicas"#;
    assert_eq!((code, &refused["message"]), (409, &json!(message)));

    let (code, forced) = apply("b", "&force=true", 2).await;
    assert_eq!((code, &forced["spec"]["replicas"]), (200, &json!(2)));

    let (_, same) = apply("b", "", 2).await;
    assert_eq!(
        same["metadata"]["resourceVersion"], forced["metadata"]["resourceVersion"],
        "nothing changed"
    );
}

/// One of them creates the object and the others change it. None is refused because the object has
/// come into existence meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn applies_at_the_same_time_all_succeed() {
    let client = Arc::new(Client::new());
    for round in 0..100 {
        let name = format!("c{round}");
        let path = format!("/api/v1/namespaces/default/configmaps/{name}?fieldManager=m");

        let together = Arc::new(Barrier::new(4));
        let applies: Vec<_> = (0..4)
            .map(|_| {
                let (client, path, together) = (Arc::clone(&client), path.clone(), Arc::clone(&together));
                let object = json!({
                    "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"},
                });
                tokio::spawn(async move {
                    together.wait().await;
                    client.send("PATCH", &path, &["content-type: application/apply-patch+yaml"], &object).await
                })
            })
            .collect();

        let mut codes = Vec::new();
        for apply in applies {
            codes.push(apply.await.expect("an answer").0);
        }

        codes.sort_unstable();
        assert_eq!(codes, [200, 200, 200, 201]);
    }
}

#[tokio::test]
async fn strategic_patch_merges_lists_by_their_key() {
    let client = Client::new();
    let created = client.create(DEPLOYMENTS, &deployment(1)).await;
    assert_eq!(created["spec"]["strategy"]["type"], "RollingUpdate");
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}}});

    let headers = ["content-type: application/strategic-merge-patch+json"];
    let (code, patched) = client
        .send("PATCH", &format!("{DEPLOYMENTS}/web"), &headers, &patch)
        .await;

    let container = &patched["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        (code, &container["image"], &container["imagePullPolicy"]),
        (200, &json!("nginx:2"), &json!("Always"))
    );
    assert_eq!(patched["metadata"]["generation"], 2);

    let scale = format!("{DEPLOYMENTS}/web/scale");
    let (_, scale) = client.get(&scale).await;
    assert_eq!(
        (&scale["spec"]["replicas"], &scale["status"]["selector"]),
        (&json!(1), &json!("app=web"))
    );
}

#[tokio::test]
async fn json_patch_test_takes_missing_member_for_null() {
    let client = Client::new();
    client.create(DEPLOYMENTS, &deployment(1)).await;

    let test = |path: &str| {
        let path = json!({"op": "test", "path": path, "value": null});
        let client = &client;
        async move {
            let headers = ["content-type: application/json-patch+json"];
            client
                .send(
                    "PATCH",
                    &format!("{DEPLOYMENTS}/web"),
                    &headers,
                    &json!([path]),
                )
                .await
                .0
        }
    };

    assert_eq!(test("/metadata/finalizers").await, 200);
    assert_eq!(
        test("/metadata/none/finalizers").await,
        422,
        "its parent is missing"
    );

    assert_eq!(test("/spec/replicas").await, 422, "it is not null");
}

#[tokio::test]
async fn event_is_one_object_in_both_of_its_groups() {
    let client = Client::new();
    let event = json!({
        "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}, "reason": "R",
    });

    client
        .create("/api/v1/namespaces/default/events", &event)
        .await;

    let path = "/apis/events.k8s.io/v1/namespaces/default/events";
    let (_, found) = client.get(&format!("{path}/e")).await;
    assert_eq!(
        (&found["regarding"]["name"], &found["apiVersion"]),
        (&json!("p"), &json!("events.k8s.io/v1"))
    );

    let (_, list) = client
        .get(&format!("{path}?fieldSelector=regarding.name%3Dp"))
        .await;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "{list}");

    let (code, _) = client
        .send("DELETE", &format!("{path}/e"), &[], &Value::Null)
        .await;
    assert_eq!(code, 200);

    assert_eq!(
        client.get("/api/v1/namespaces/default/events/e").await.0,
        404
    );
}

#[tokio::test]
async fn what_would_have_no_effect_is_refused() {
    let client = Client::new();
    let webhook = json!({"metadata": {"name": "w"}, "webhooks": []});
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let (code, refused) = client.send("POST", path, &[], &webhook).await;
    let message = "the embedded API server does not implement writes of validatingwebhookconfigurations, which would have no effect";
    assert_eq!((code, &refused["message"]), (501, &json!(message)));

    let pods = "/api/v1/namespaces/default/pods";
    client
        .create(pods, &json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}))
        .await;

    let (code, refused) = client.get(&format!("{pods}/p/log")).await;
    assert_eq!(
        (code, &refused["message"]),
        (
            501,
            &json!("the embedded API server does not implement pods/log")
        )
    );
}

#[tokio::test]
async fn services_get_addresses_that_nobody_has() {
    let client = Client::new();
    let path = "/api/v1/namespaces/default/services";
    let service = |name: &str, kind: &str| json!({"metadata": {"name": name}, "spec": {"type": kind, "ports": [{"port": 80}], "selector": {"a": "b"}}});

    let first = client.create(path, &service("a", "ClusterIP")).await;
    let second = client.create(path, &service("b", "NodePort")).await;
    assert_ne!(first["spec"]["clusterIP"], second["spec"]["clusterIP"]);
    assert_eq!(second["spec"]["ports"][0]["nodePort"], 30_000);

    // An update without the addresses keeps them.
    let (code, updated) = client
        .send("PUT", &format!("{path}/b"), &[], &service("b", "NodePort"))
        .await;

    assert_eq!(
        (code, &updated["spec"]["clusterIP"]),
        (200, &second["spec"]["clusterIP"])
    );
    assert_eq!(updated["spec"]["ports"][0]["nodePort"], 30_000);
}

const DUPLICATE_OWNERS: &str = "API server dedups owner references in 1.20+, and may reject such requests as early as \
     1.24; please fix your requests; duplicate UID(s) observed: ";

#[tokio::test]
async fn owners_that_an_object_has_twice_are_removed() {
    let client = Client::new();
    let owner = |name: &str, uid: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid});
    let owners = json!([
        owner("a", "1"),
        owner("b", "2"),
        owner("a", "1"),
        owner("c", "2"),
        owner("a", "1")
    ]);
    let kept = json!([owner("a", "1"), owner("b", "2"), owner("c", "2")]);
    let object = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners}});
    let warning = |after: &str| {
        [format!(
            r#"299 - ".metadata.ownerReferences contains duplicate entries{after}; {DUPLICATE_OWNERS}1, 1""#
        )]
    };
    let path = "/api/v1/namespaces/default/configmaps";
    let one = format!("{path}/x");

    let created = client
        .send_bytes("POST", path, &[], object("x").to_string())
        .await;
    assert_eq!(created.code, 201, "{}", created.text());
    assert_eq!(created.warnings, warning(""));
    assert_eq!(created.json()["metadata"]["ownerReferences"], kept);

    let updated = client
        .send_bytes("PUT", &one, &[], object("x").to_string())
        .await;
    assert_eq!(updated.code, 200, "{}", updated.text());
    assert_eq!(updated.warnings, warning(""));
    assert_eq!(updated.json()["metadata"]["ownerReferences"], kept);

    // A patch is only looked at once it is an object.
    let patch = json!({"metadata": {"ownerReferences": owners}}).to_string();
    let media = "content-type: application/merge-patch+json";
    let patched = client.send_bytes("PATCH", &one, &[media], patch).await;
    assert_eq!(patched.code, 200, "{}", patched.text());
    let after = " after mutating admission happens";
    assert_eq!(patched.warnings, warning(after));
    assert_eq!(patched.json()["metadata"]["ownerReferences"], kept);

    let none = client
        .send_bytes("PUT", &one, &[], patched.json().to_string())
        .await;
    assert_eq!((none.code, none.warnings), (200, Vec::new()));
}

#[tokio::test]
async fn pods_are_warned_of_when_they_are_created() {
    let client = Client::new();
    let port = json!({"containerPort": 80});
    let containers = json!([{"name": "c", "image": "i", "ports": [port]}, {"name": "d", "image": "i", "ports": [port]}]);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}});

    let path = "/api/v1/namespaces/default/pods";
    let created = client.send_bytes("POST", path, &[], pod.to_string()).await;
    assert_eq!(created.code, 201, "{}", created.text());
    assert_eq!(
        created.warnings,
        [
            r#"299 - "spec.containers[1].ports[0]: duplicate port definition with spec.containers[0].ports[0]""#
        ]
    );

    // A template keeps a value that Pods replace.
    let mut template = deployment(1);
    template["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(-1);
    let created_template = client
        .send_bytes("POST", DEPLOYMENTS, &[], template.to_string())
        .await;
    assert_eq!(created_template.code, 201, "{}", created_template.text());
    assert_eq!(
        created_template.json()["spec"]["template"]["spec"]["terminationGracePeriodSeconds"],
        -1
    );
    assert_eq!(
        created_template.warnings,
        [
            r#"299 - "spec.template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1""#
        ]
    );

    let mut labelled = created.json();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    let path = format!("{path}/p");
    let updated = client
        .send_bytes("PUT", &path, &[], labelled.to_string())
        .await;
    assert_eq!((updated.code, updated.warnings), (200, Vec::new()));
}
