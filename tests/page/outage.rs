//! A page that is open while the API server restarts. It has a control plane of its own, which it
//! kills.

use operetta_testkit::{ControlPlane, Host, HostOptions, kinds};
use serde_json::json;

use crate::{browser::Browser, reader};

#[tokio::test]
async fn streams_survive_a_restart_of_the_api_server() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let host = Host::start(&control_plane, &HostOptions::default()).await;
    let namespace = control_plane.namespace("outage").await;
    let token = reader(&namespace, "user", &["configmaps"]);

    namespace
        .create_object(kinds::CONFIG_MAP, json!({"metadata": {"name": "before"}}))
        .await;
    let user = Browser::new(host.admin_address(), Some(&token));
    let mut rows = user
        .events(&format!(
            "/page/api/kinds/core/v1/configmaps?namespace={}",
            namespace.name()
        ))
        .await;
    rows.until("synced", |_| true).await;

    let mut object = user
        .events(&format!(
            "/page/api/objects/core/v1/configmaps/{}/before",
            namespace.name()
        ))
        .await;
    object.until("object", |_| true).await;

    let mut plugins = user.events("/page/api/plugins").await;
    plugins.until("plugins", |_| true).await;

    control_plane.kill_apiserver();
    let lost = rows.until("lost", |_| true).await;
    assert!(
        lost["message"]
            .as_str()
            .is_some_and(|text| !text.is_empty()),
        "{lost}"
    );
    object.until("lost", |_| true).await;

    control_plane.wait_ready().await;
    rows.until("back", |_| true).await;
    object.until("back", |_| true).await;

    namespace
        .create_object(kinds::CONFIG_MAP, json!({"metadata": {"name": "after"}}))
        .await;
    rows.until("rows", |rows| rows.to_string().contains("\"after\""))
        .await;

    namespace
        .patch(
            kinds::CONFIG_MAP,
            "before",
            json!({"data": {"new": "value"}}),
        )
        .await;

    object
        .until("object", |object| {
            object["yaml"]
                .as_str()
                .is_some_and(|yaml| yaml.contains("new: value"))
        })
        .await;

    assert_eq!(user.get("/page/api/plugins").await.status, 200);
    host.assert_sound();
}
