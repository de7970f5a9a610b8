//! Reads, from the cache and live: the same objects, the same errors.

use operetta_core::{
    gate::operation::{Get, ListOptions, Read, Selection},
    manifest::Index,
    object::kind::GroupVersionKind,
    ports::ObjectApi,
    status::ErrorKind,
};
use operetta_kube::{client::object_api::Watched, informer::Scope};
use operetta_testkit::{dead_api_service, eventually};
use serde_json::{Value, json};

use crate::{Stage, config_map, names, value};

/// Five ConfigMaps `a` to `e`: the first three with the label app=x and an owner, each with
/// `.data.colour`.
async fn five(prefix: &str) -> Stage {
    let stage = Stage::new(prefix).await;
    for (name, colour) in [
        ("a", "red"),
        ("b", "blue"),
        ("c", "red"),
        ("d", "blue"),
        ("e", "red"),
    ] {
        let mut made = config_map(name);
        made["data"] = json!({"colour": colour});
        if name < "d" {
            made["metadata"]["labels"] = json!({"app": "x"});
            let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "uid-o", "controller": true});
            made["metadata"]["ownerReferences"] = json!([owner]);
        }
        stage.create(made).await.expect("created");
    }
    stage
}

#[tokio::test]
async fn a_get_finds_the_same_object_cached_and_live() {
    let stage = five("get").await;
    let live = stage.get("a", Read::Live).await.expect("live");
    let cached = stage.get("a", Read::Cached).await.expect("cached");
    let mut live = value(&live);
    let cached = value(&cached);
    assert!(live["metadata"]["managedFields"].is_array());
    live["metadata"]
        .as_object_mut()
        .expect("an object")
        .remove("managedFields");
    assert_eq!(live, cached);
    let errors = [
        stage.get("nobody", Read::Live).await,
        stage.get("nobody", Read::Cached).await,
    ];
    for error in errors.map(|read| read.expect_err("not there")) {
        assert_eq!(
            (error.kind, error.status.message.as_str()),
            (ErrorKind::NotFound, "configmaps \"nobody\" not found")
        );
    }
}

#[tokio::test]
async fn lists_select_by_labels_and_names_alike_cached_and_live() {
    let stage = five("select").await;
    for read in [Read::Cached, Read::Live] {
        let with = |labels: Option<&str>, fields: Option<&str>| ListOptions {
            labels: labels.map(Into::into),
            fields: fields.map(Into::into),
            ..stage.all(read)
        };
        assert_eq!(
            names(&stage.list(with(None, None)).await.expect("all")),
            ["a", "b", "c", "d", "e"]
        );
        assert_eq!(
            names(
                &stage
                    .list(with(Some("app in (x,y)"), None))
                    .await
                    .expect("labels")
            ),
            ["a", "b", "c"]
        );
        assert_eq!(
            names(&stage.list(with(Some("!app"), None)).await.expect("labels")),
            ["d", "e"]
        );
        assert_eq!(
            names(
                &stage
                    .list(with(None, Some("metadata.name=d")))
                    .await
                    .expect("fields")
            ),
            ["d"]
        );
        let error = stage
            .list(with(Some("app in x"), None))
            .await
            .expect_err("no selector");
        assert_eq!(error.kind, ErrorKind::BadRequest, "{read:?}");
    }
}

#[tokio::test]
async fn pages_join_to_the_whole_list_cached_and_live() {
    let stage = five("pages").await;
    for read in [Read::Cached, Read::Live] {
        let mut token = None;
        let mut pages = Vec::new();
        loop {
            let options = ListOptions {
                limit: Some(2),
                continue_token: token.take(),
                ..stage.all(read)
            };
            let page = stage.list(options).await.expect("a page");
            assert!(page.resource_version.parse::<u64>().is_ok(), "{page:?}");
            pages.push(names(&page).join(""));
            token = page.continue_token;
            if token.is_none() {
                break;
            }
        }
        assert_eq!(pages, ["ab", "cd", "e"], "{read:?}");
        let options = ListOptions {
            continue_token: Some("../../made up".to_owned()),
            ..stage.all(read)
        };
        assert_eq!(
            stage.list(options).await.expect_err("no token").kind,
            ErrorKind::BadRequest,
            "{read:?}"
        );
    }
}

#[tokio::test]
async fn owner_and_index_lists_come_from_the_cache() {
    let stage = five("index").await;
    let informer = stage.registry.informer(
        &stage.resource("v1", "ConfigMap").await,
        Scope::everything(),
    );
    let index = Index {
        name: "colour".to_owned(),
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        path: Some(".data.colour".to_owned()),
        label: None,
        controller: None,
    };
    stage.api.watch(Watched::new(vec![informer], vec![index]));
    let by = |selection: Selection| ListOptions {
        selection,
        ..stage.all(Read::Cached)
    };
    let by_index = |name: &str, value: &str| {
        by(Selection::ByIndex {
            name: name.to_owned(),
            value: value.to_owned(),
        })
    };
    let owned = by(Selection::ByOwner("uid-o".to_owned()));
    assert_eq!(
        names(&stage.list(owned.clone()).await.expect("by owner")),
        ["a", "b", "c"]
    );
    assert_eq!(
        names(
            &stage
                .list(by_index("colour", "red"))
                .await
                .expect("by index")
        ),
        ["a", "c", "e"]
    );
    let both = ListOptions {
        labels: Some("app=x".to_owned()),
        ..by_index("colour", "red")
    };
    assert_eq!(names(&stage.list(both).await.expect("both")), ["a", "c"]);

    let error = stage
        .list(by_index("size", "red"))
        .await
        .expect_err("not declared");
    assert!(
        error.kind == ErrorKind::BadRequest && error.status.message.contains("\"size\""),
        "{error:?}"
    );
    let error = stage
        .list(ListOptions {
            read: Read::Live,
            ..owned
        })
        .await
        .expect_err("not live");
    assert_eq!(error.kind, ErrorKind::BadRequest);
}

#[tokio::test]
async fn a_projection_keeps_the_named_fields_and_who_it_is() {
    let stage = five("projection").await;
    for read in [Read::Cached, Read::Live] {
        let projection = vec![".metadata.labels".to_owned()];
        let options = ListOptions {
            projection,
            limit: Some(1),
            ..stage.all(read)
        };
        let page = stage.list(options).await.expect("a page");
        let item: Value = serde_json::from_str(page.items[0].json()).expect("JSON");
        assert_eq!(
            (&item["kind"], &item["metadata"]["name"]),
            (&json!("ConfigMap"), &json!("a")),
            "{read:?}"
        );
        assert_eq!(item["metadata"]["labels"], json!({"app": "x"}));
        assert!(
            item["metadata"]["uid"].is_string() && item["metadata"]["resourceVersion"].is_string()
        );
        assert_eq!(
            (&item["data"], &item["metadata"]["ownerReferences"]),
            (&Value::Null, &Value::Null)
        );
    }
}

#[tokio::test]
async fn informer_selector_hides_no_object() {
    let stage = five("selected").await;
    let informer = stage.config_maps("app=x").await;
    informer.synced().await;
    stage.api.watch(Watched::new(vec![informer], vec![]));
    stage.get("a", Read::Cached).await.expect("in view");
    stage
        .get("e", Read::Cached)
        .await
        .expect("out of view, but there");
    let all = stage.list(stage.all(Read::Cached)).await.expect("a list");
    assert_eq!(names(&all), ["a", "b", "c", "d", "e"]);
    let same = ListOptions {
        labels: Some("app=x".to_owned()),
        ..stage.all(Read::Cached)
    };
    assert_eq!(
        names(&stage.list(same).await.expect("a list")),
        ["a", "b", "c"]
    );
}

#[tokio::test]
async fn what_may_not_be_read_is_forbidden() {
    let stage = five("forbidden").await;
    let api = stage.api_as("nobody");
    let get = Get {
        kind: crate::config_maps(),
        key: stage.key("a"),
        read: Read::Live,
    };
    let error = api.get(get).await.expect_err("no right");
    assert_eq!((error.kind, error.status.code), (ErrorKind::Forbidden, 403));
    let user = format!("system:serviceaccount:{}:nobody", stage.namespace.name());
    assert!(
        error.status.message.contains(&user),
        "{}",
        error.status.message
    );
}

#[tokio::test]
async fn a_kind_that_is_not_served_is_not_found() {
    let stage = Stage::new("no-kind").await;
    let kind = GroupVersionKind::new("nobody.example/v1", "Nothing");
    let get = Get {
        kind,
        key: stage.key("a"),
        read: Read::Cached,
    };
    let error = stage.api.get(get).await.expect_err("no kind");
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(
        error.status.message.contains("Nothing"),
        "{}",
        error.status.message
    );
}

#[tokio::test]
async fn pruned_watch_reads_whole_objects_live() {
    let stage = five("pruned").await;
    let resource = stage.resource("v1", "ConfigMap").await;
    let pruned = Scope {
        pruned: vec![".data".to_owned()],
        ..Scope::everything()
    };
    let informer = stage.registry.informer(&resource, pruned);
    informer.synced().await;
    assert_eq!(
        informer
            .cache
            .get(&stage.key("a"))
            .expect("cached")
            .at(".data"),
        None
    );
    stage.api.watch(Watched::new(vec![informer], vec![]));

    assert_eq!(
        stage
            .get("a", Read::Cached)
            .await
            .expect("whole")
            .at(".data.colour"),
        Some("\"red\"")
    );
    let list = async |projection: &[&str]| {
        let projection = projection.iter().map(|&path| path.to_owned()).collect();
        let page = stage
            .list(ListOptions {
                projection,
                ..stage.all(Read::Cached)
            })
            .await
            .expect("a page");
        assert_eq!(names(&page), ["a", "b", "c", "d", "e"]);
        serde_json::from_str::<Value>(page.items[0].json()).expect("JSON")
    };
    assert_eq!(list(&[]).await["data"]["colour"], "red");
    assert_eq!(list(&[".data.colour"]).await["data"]["colour"], "red");
    assert_eq!(
        list(&[".metadata.labels"]).await["metadata"]["labels"]["app"],
        "x",
        "of what is there, from the cache"
    );

    let whole = stage.registry.informer(&resource, Scope::everything());
    whole.synced().await;
    assert!(
        whole
            .cache
            .get(&stage.key("a"))
            .expect("cached")
            .at(".data")
            .is_some(),
        "not shared"
    );
}

#[tokio::test]
async fn label_index_finds_own_and_watched_writes() {
    let stage = five("label").await;
    let informer = stage.registry.informer(
        &stage.resource("v1", "ConfigMap").await,
        Scope::everything(),
    );
    let index = Index {
        name: "app".to_owned(),
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        path: None,
        label: Some("app".to_owned()),
        controller: None,
    };
    stage.api.watch(Watched::new(vec![informer], vec![index]));
    let selected = |labels: &str| ListOptions {
        labels: Some(labels.to_owned()),
        ..stage.all(Read::Cached)
    };
    assert_eq!(
        names(&stage.list(selected("app=x")).await.expect("a list")),
        ["a", "b", "c"]
    );
    let mut made = config_map("aa");
    made["metadata"]["labels"] = json!({"app": "x", "tier": "y"});
    stage.create(made).await.expect("created");
    assert_eq!(
        names(&stage.list(selected("app=x")).await.expect("a list")),
        ["a", "aa", "b", "c"]
    );
    assert_eq!(
        names(&stage.list(selected("app=x,tier=y")).await.expect("a list")),
        ["aa"]
    );
    let selection = Selection::ByIndex {
        name: "app".to_owned(),
        value: "x".to_owned(),
    };
    let by_index = ListOptions {
        selection,
        ..stage.all(Read::Cached)
    };
    assert_eq!(
        names(&stage.list(by_index).await.expect("by index")),
        ["a", "aa", "b", "c"]
    );
}

#[tokio::test]
async fn a_dead_aggregated_api_is_named_by_its_api_service() {
    let stage = Stage::new("dead-api").await;
    let control_plane = stage.namespace.control_plane();
    control_plane.apply(&dead_api_service("dead.test").to_string());

    let kind = GroupVersionKind::new("dead.test/v1", "Ghost");
    eventually("the API server knows that it is dead", async || {
        let resolved = stage.discovery.resolve(&kind).await;
        let why = stage.discovery.unavailable_api(&kind.api_version).await;
        match (resolved.map_err(|error| error.kind), why) {
            (Err(ErrorKind::Unavailable), Some(why))
                if why.starts_with(
                    "APIService v1.dead.test is not available (ServiceNotFound): ",
                ) && why.contains("nobody") =>
            {
                Ok(())
            }
            other => Err(format!("{other:?}")),
        }
    })
    .await;

    // Others of the control plane would wait for it whenever they discover all kinds.
    control_plane.kubectl(&["delete", "apiservice", "v1.dead.test"]);
    assert_eq!(stage.discovery.unavailable_api("apps/v1").await, None);
    assert_eq!(stage.discovery.unavailable_api("v1").await, None);
}
