//! Cluster-wide controllers: aggregated roles and quotas.

use operetta_apiserver::ControllerName;
use serde_json::{Value, json};

use crate::client::Client;

#[tokio::test(start_paused = true)]
async fn aggregated_role_follows_the_roles_that_it_selects() {
    let client = Client::with_controllers([ControllerName::RoleAggregation]);
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let rule = json!({"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]});
    let labels = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});

    client
        .create(
            roles,
            &json!({"metadata": {"name": "widgets", "labels": labels}, "rules": [rule]}),
        )
        .await;
    client.settle().await;

    for name in ["view", "edit", "admin"] {
        let (_, role) = client.get(&format!("{roles}/{name}")).await;
        assert!(
            role["rules"].as_array().expect("rules").contains(&rule),
            "{name}: edit selects view, admin edit"
        );

        let managers = role["metadata"]["managedFields"]
            .as_array()
            .expect("managers");
        assert!(
            managers
                .iter()
                .any(|manager| manager["manager"] == "clusterrole-aggregation-controller")
        );
    }

    client.delete(&format!("{roles}/widgets"), "").await;
    client.settle().await;

    let (_, role) = client.get(&format!("{roles}/admin")).await;
    assert!(!role["rules"].as_array().expect("rules").contains(&rule));
}

#[tokio::test(start_paused = true)]
async fn quota_shows_what_is_used() {
    let client = Client::with_controllers([ControllerName::ResourceQuotas]);
    let path = "/api/v1/namespaces/default";
    let quota =
        json!({"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "2", "pods": "5"}}});

    client
        .create(&format!("{path}/resourcequotas"), &quota)
        .await;
    client
        .create(
            &format!("{path}/configmaps"),
            &json!({"metadata": {"name": "a"}}),
        )
        .await;

    client.settle().await;
    let status = async || -> Value {
        client.get(&format!("{path}/resourcequotas/q")).await.1["status"].clone()
    };

    let expected =
        json!({"hard": {"configmaps": "2", "pods": "5"}, "used": {"configmaps": "1", "pods": "0"}});
    assert_eq!(status().await, expected);

    client.delete(&format!("{path}/configmaps/a"), "").await;
    client.settle().await;
    assert_eq!(status().await["used"]["configmaps"], "0");
}
