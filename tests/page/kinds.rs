//! The kinds, and the objects of one as they change.

use std::time::Instant;

use futures::{StreamExt, stream};
use operetta_testkit::{ControlPlane, DropIn, Kind, TestNamespace, any_schema, crd, guest, kinds};
use serde_json::{Value, json};

use crate::Stage;

/// Installs a kind of the group `page.test`. Returns its name in the API.
fn install(control_plane: &ControlPlane, kind: &str) -> String {
    let plural = format!("{}s", kind.to_lowercase());
    control_plane.apply(&crd("page.test", kind, &plural, "Namespaced", &any_schema()).to_string());
    plural
}

fn names(rows: &Value) -> Vec<&str> {
    rows["rows"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|row| row["name"].as_str())
        .collect()
}

#[tokio::test]
async fn kind_that_is_installed_and_removed_is_followed() {
    let stage = Stage::new("custom").await;
    let administrator = stage.administrator("administrator");
    let mut all = administrator.events("/page/api/kinds").await;

    let find = |kinds: &Value, kind: &str| {
        kinds["kinds"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|found| found["kind"] == kind)
            .cloned()
    };

    let first = all.until("kinds", |_| true).await;
    let pod = find(&first, "Pod").expect("a built-in kind");
    assert_eq!(
        (
            pod["group"].as_str(),
            pod["plural"].as_str(),
            pod["custom"].as_bool()
        ),
        (Some(""), Some("pods"), Some(false))
    );
    assert!(find(&first, "Gadget").is_none());

    let control_plane = stage.namespace.control_plane();
    let plural = install(control_plane, "Gadget");

    let with = all
        .until("kinds", |kinds| find(kinds, "Gadget").is_some())
        .await;

    let gadget = find(&with, "Gadget").expect("the kind");
    assert_eq!(
        (gadget["custom"].as_bool(), gadget["namespaced"].as_bool()),
        (Some(true), Some(true)),
        "{gadget}"
    );

    let path = format!(
        "/page/api/kinds/page.test/v1/{plural}?namespace={}",
        stage.namespace.name()
    );

    let mut rows = administrator.events(&path).await;
    let columns = rows.until("columns", |_| true).await;
    assert_eq!(
        (
            columns["kind"].as_str(),
            columns["columns"][0]["name"].as_str()
        ),
        (Some("Gadget"), Some("Name"))
    );
    assert_eq!(rows.until("synced", |_| true).await["count"], 0);

    let kind = Kind("page.test/v1", "Gadget");
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    stage
        .namespace
        .create_object(kind, json!({"metadata": {"name": "one"}, "status": ready}))
        .await;

    let created = Instant::now();
    let row = rows.until("rows", |rows| names(rows) == ["one"]).await;
    println!("a new object was shown after {:?}", created.elapsed());
    let row = &row["rows"][0];
    assert_eq!(
        (row["health"].as_str(), row["conditions"]["Ready"].as_str()),
        (Some("ok"), Some("True")),
        "{row}"
    );

    stage.namespace.delete(kind, "one").await;
    let uid = row["uid"].as_str().expect("a uid").to_owned();
    rows.until("deleted", |deleted| deleted["uids"] == json!([uid]))
        .await;

    control_plane.kubectl(&["delete", "crd", &format!("{plural}.page.test")]);
    let failed = rows.until("failed", |_| true).await;
    assert_eq!(failed["status"], 404, "{failed}");
    rows.end().await;
    all.until("kinds", |kinds| find(kinds, "Gadget").is_none())
        .await;
    stage.host.assert_sound();
}

#[tokio::test]
async fn user_without_the_right_sees_which_one_is_missing() {
    let stage = Stage::new("right").await;
    let nobody = stage.user("nobody", &[]);
    let path = format!(
        "/page/api/kinds/core/v1/secrets?namespace={}",
        stage.namespace.name()
    );
    let words = format!(
        "User \"system:serviceaccount:{}:nobody\" cannot list resource \"secrets\"",
        stage.namespace.name()
    );
    let refused = nobody.get(&path).await;
    let reason = refused.json();
    assert_eq!(
        (refused.status, reason["reason"].as_str()),
        (403, Some("Forbidden")),
        "{reason}"
    );
    assert!(
        reason["message"]
            .as_str()
            .is_some_and(|text| text.contains(&words)),
        "{reason}"
    );

    let mut events = nobody.events(&path).await;
    let failed = events.until("failed", |_| true).await;
    assert!(
        failed["status"] == 403
            && failed["message"]
                .as_str()
                .is_some_and(|text| text.contains(&words)),
        "{failed}"
    );
    events.end().await;

    let html = nobody.get(&path.replace("/api/", "/")).await;
    assert!(
        html.status == 403
            && html
                .body
                .contains("cannot list resource &quot;secrets&quot;"),
        "{}",
        html.body
    );

    for path in [
        "/page/api/informers",
        "/page/informers",
        &format!("/page/api/plugins/{}/touch", stage.namespace.name()),
    ] {
        let refused = nobody.get(path).await;
        assert!(
            refused.status == 403 && refused.body.contains("cannot get"),
            "{path}: {refused:?}"
        );
    }

    // A malformed namespace causes no request to the API server.
    for path in [
        "/page/api/kinds/core/v1/pods?namespace=..%2F..",
        "/page/api/kinds/core/v1/..%2Fsecrets",
    ] {
        assert_eq!(nobody.get(path).await.status, 400, "{path}");
    }
}

#[tokio::test]
async fn many_objects_come_in_pages() {
    let stage = Stage::new("pages").await;
    let create = async |at: u32| {
        let labels = json!({"even": at.is_multiple_of(2).to_string()});
        let map = json!({"metadata": {"name": format!("map-{at}"), "labels": labels}});
        stage.namespace.create_object(kinds::CONFIG_MAP, map).await;
    };
    stream::iter(0..1_001).for_each_concurrent(8, create).await;

    let user = stage.user("user", &["configmaps"]);
    let path = format!(
        "/page/api/kinds/core/v1/configmaps?namespace={}",
        stage.namespace.name()
    );
    let mut events = user
        .events(&format!("{path}&labelSelector=even%3Dtrue"))
        .await;

    let mut count = 0;
    loop {
        match events.next().await {
            (name, data) if name == "rows" => {
                assert!(names(&data).len() <= 500);
                count += names(&data).len();
            }
            (name, data) if name == "synced" => {
                break assert_eq!((count, data["count"].as_u64()), (501, Some(501)));
            }
            (name, data) => assert!(["columns", "failing"].contains(&&*name), "{name} {data}"),
        }
    }

    let page = user.get(&path).await.json();
    assert_eq!(names(&page).len(), 500);
    let html = user.get(&path.replace("/api/", "/")).await.body;
    assert!(
        html.contains(">Next page</a>") && html.contains("map-0"),
        "{html:.500}"
    );
}

#[tokio::test]
async fn stream_ends_with_the_token() {
    let stage = Stage::new("token").await;
    let user = stage.user("user", &["configmaps"]);
    let path = format!(
        "/page/api/kinds/core/v1/configmaps?namespace={}",
        stage.namespace.name()
    );

    let mut streams = [
        user.events(&path).await,
        user.events("/page/api/plugins").await,
    ];
    streams[0].until("synced", |_| true).await;
    streams[1].until("plugins", |_| true).await;

    stage
        .namespace
        .kubectl(&["delete", "serviceaccount", "user"]);

    for stream in &mut streams {
        let failed = stream.until("failed", |_| true).await;
        assert_eq!(failed["status"], 401, "{failed}");
        stream.end().await;
    }
}

/// Drops in a plugin that traps with the ConfigMap `target`.
async fn failing_plugin(namespace: &TestNamespace<'_>) {
    let trap = DropIn::new("fails", guest("fixture-misbehave")).config(json!({"do": "trap"}));
    namespace.allow_all("plugin").await;
    namespace.create_touchable("target").await;
    namespace.drop_in(&trap).await;
}

#[tokio::test]
async fn object_whose_reconcile_fails_is_unhealthy_in_its_table() {
    let stage = Stage::new("unhealthy").await;
    let name = stage.namespace.name();
    failing_plugin(&stage.namespace).await;

    let administrator = stage.administrator("administrator");
    let path = format!("/page/api/kinds/core/v1/configmaps?namespace={name}");
    let target = format!("{name}/target");
    let has_target = |failing: &Value| {
        let objects = failing["objects"].as_array().expect("objects");
        objects.iter().any(|object| *object == *target)
    };
    let mut events = administrator.events(&path).await;
    events.until("failing", has_target).await;

    let health = |table: &Value, name: &str| {
        let mut rows = table["rows"].as_array().expect("rows").iter();
        let row = rows.find(|row| row["name"] == name).expect("a row");
        row["health"].clone()
    };
    let table = administrator.get(&path).await.json();
    assert_eq!(health(&table, "target"), "bad", "{table}");
    assert_eq!(health(&table, "fails"), "unknown", "{table}");
    let object = format!("/page/api/objects/core/v1/configmaps/{name}/target");
    let object = administrator.get(&object).await.json();
    assert_eq!(object["summary"]["health"], "bad", "{object}");

    // Who may not list Plugins learns nothing of them.
    let user = stage.user("user", &["configmaps"]);
    let table = user.get(&path).await.json();
    assert_eq!(health(&table, "target"), "unknown", "{table}");

    stage.namespace.delete(kinds::CONFIG_MAP, "fails").await;
    events
        .until("failing", |failing| !has_target(failing))
        .await;
    stage.host.assert_sound();
}
