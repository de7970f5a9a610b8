//! What the page shows of the flight recorder, and to whom.

use operetta_testkit::eventually;
use serde_json::Value;

use crate::Stage;

#[tokio::test]
async fn page_has_reconciles_of_a_plugin_and_causes_of_a_change() {
    let stage = Stage::new("recorded").await;
    stage.plugin().await;
    stage.namespace.create_touchable("target").await;
    let administrator = stage.administrator("administrator");
    let namespace = stage.namespace.name();
    let key = format!("{namespace}/target");
    let reconciles = format!("/page/api/plugins/{namespace}/touch/reconciles");

    let recorded = eventually("a reconcile that wrote", async || {
        let history = administrator.get(&reconciles).await.json();
        let mut recorded = history["reconciles"].as_array().into_iter().flatten();
        let wrote = |reconcile: &&Value| reconcile["calls"].to_string().contains("\"paths\"");
        recorded
            .find(wrote)
            .cloned()
            .ok_or_else(|| history.to_string())
    })
    .await;
    assert_eq!(
        (recorded["key"].as_str(), recorded["result"].as_str()),
        (Some(&*key), Some("success")),
        "{recorded}"
    );

    let object = format!("ConfigMap {key}");
    assert_eq!(
        recorded["triggers"][0]["object"].as_str(),
        Some(&*object),
        "{recorded}"
    );

    let why = format!("/page/api/why/core/v1/configmaps/{namespace}/target");
    let by_plugin = async |why: Value| match why["changes"][0]["by"]["plugin"]["plugin"].as_str() {
        Some(plugin) if plugin == format!("{namespace}/touch") => Ok(()),
        _ => Err(why.to_string()),
    };
    eventually("the plugin's change", async || {
        by_plugin(administrator.get(&why).await.json()).await
    })
    .await;

    let reader = stage.user("reader", &["configmaps"]);
    let seen = reader.get(&why).await.json();
    assert!(
        seen.to_string().contains("hiddenPlugin") && !seen.to_string().contains("/touch\""),
        "{seen}"
    );

    let nobody = stage.user("nobody", &[]);
    for path in [&why, &reconciles] {
        let refused = nobody.get(path).await;
        assert_eq!(
            (refused.status, refused.json()["reason"].as_str()),
            (403, Some("EndpointForbidden")),
            "{path}"
        );
    }

    let unknown = administrator
        .get(&format!("/page/api/why/core/v1/bars/{namespace}/target"))
        .await;
    let message = unknown.json();
    assert!(
        unknown.status == 404
            && message
                .to_string()
                .contains("no resource \\\"bars\\\" in v1"),
        "{message}"
    );

    stage.host.assert_sound();
}

#[tokio::test]
async fn page_has_unused_permissions_for_those_who_may_list_roles() {
    let stage = Stage::new("unused").await;
    stage.plugin().await;
    let administrator = stage.administrator("administrator");
    let path = format!("/page/api/plugins/{}/touch/unused", stage.namespace.name());
    let seen = administrator.get(&path).await.json();

    let unused: Vec<&str> = seen["unused"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    // Its role allows everything.
    let wanted =
        |text: &&str| text.contains("which is more than it used") && text.contains("RoleBinding ");
    assert!(
        unused.iter().any(wanted) && seen["since"].is_string(),
        "{seen}"
    );

    let tenant = stage.user("tenant", &["plugins.operetta.dev"]);
    let refused = tenant.get(&path).await;
    let message = refused.json();
    assert_eq!(refused.status, 403, "{message}");
    assert!(
        message
            .to_string()
            .contains("cannot list resource \\\"roles\\\""),
        "{message}"
    );

    stage.host.assert_sound();
}
