//! Plugins, controllers and sources by the hundred: the host keeps only so many for one namespace.

use std::time::Instant;

use operetta_testkit::{DropIn, Kind, eventually, kinds, wat_guest::Guest};
use serde_json::{Value, json};

use crate::{Stage, install, manifest};

const RATIONED: Kind = Kind("test.operetta.dev/v1", "Rationed");
const SPARE: Kind = Kind("test.operetta.dev/v1", "Spare");

/// The default quota of Plugins.
const PLUGINS: usize = 100;

/// Returns a plugin with controllers of a kind, each with this number of sources.
fn wide(kind: Kind, controllers: usize, sources: usize) -> Vec<u8> {
    let source = json!({"apiVersion": kind.0, "kind": kind.1, "namespaces": "Own"});
    let watches = vec![json!({"source": source, "map": {"type": "SameName"}}); sources - 1];
    let controller =
        |at: usize| json!({"name": format!("c-{at}"), "for": source, "watches": watches});
    let controllers: Value = (0..controllers).map(controller).collect();
    Guest::default().controllers(&controllers).build()
}

impl Stage {
    /// Returns a gauge of the namespace's quotas.
    pub(super) fn quota(&self, metric: &str, quota: &str) -> f64 {
        self.host.metric(
            metric,
            &[&format!("namespace=\"{}\"", self.namespace.name()), quota],
        )
    }

    /// Checks that a Plugin has run no code and does not run now.
    async fn is_not_loaded(&self, plugin: &str) {
        let found = self
            .namespace
            .get(kinds::PLUGIN, plugin)
            .await
            .expect("a Plugin");
        assert!(found["status"]["digest"].is_null(), "{found}");

        let events = self.namespace.list(kinds::EVENT).await;
        let is_load = |event: &&Value| {
            event["involvedObject"]["name"] == plugin && event["reason"] == "Loaded"
        };
        assert_eq!(events.iter().find(is_load), None);
    }
}

#[tokio::test]
async fn plugins_over_quota_run_once_older_ones_are_deleted() {
    let stage = Stage::new("many-plugins").await;
    let namespace = &stage.namespace;
    install(namespace.control_plane(), RATIONED);
    let code = DropIn::new(
        "code",
        Guest::default().manifest(&manifest(RATIONED)).build(),
    )
    .code();

    namespace.create_object(kinds::CONFIG_MAP, code).await;
    for number in 0..PLUGINS + 3 {
        let spec =
            json!({"source": {"configMap": {"name": "code"}}, "serviceAccountName": "plugin"});
        let plugin = json!({"metadata": {"name": format!("p-{number:03}")}, "spec": spec});
        namespace.create_object(kinds::PLUGIN, plugin).await;
    }

    let raise = format!("raise quotas.namespaces.{}.plugins", namespace.name());
    for over in ["p-100", "p-101", "p-102"] {
        namespace
            .until_degraded(
                over,
                "QuotaExceeded",
                &["may have 100 Plugins", "delete one of them", &raise],
            )
            .await;
        namespace
            .until_condition(over, "Ready", "False", "QuotaExceeded")
            .await;
        namespace
            .until_event(kinds::PLUGIN, over, "QuotaExceeded")
            .await;
    }

    namespace
        .until_condition("p-099", "Ready", "True", "Running")
        .await;

    stage.is_not_loaded("p-102").await;
    println!(
        "of {} Plugins, {} are over the quota",
        PLUGINS + 3,
        stage.quota("operetta_plugins_over_quota", "")
    );

    assert_eq!(
        stage.quota("operetta_quota_used", "quota=\"plugins\""),
        100.0
    );
    assert_eq!(
        stage.quota("operetta_quota_limit", "quota=\"plugins\""),
        100.0
    );

    assert_eq!(stage.quota("operetta_plugins_over_quota", ""), 3.0);
    stage.others_keep_working().await;

    namespace.delete(kinds::PLUGIN, "p-050").await;
    namespace
        .until_condition("p-100", "Ready", "True", "Running")
        .await;
    namespace
        .until_condition("p-099", "Ready", "True", "Running")
        .await;

    stage.is_not_loaded("p-101").await;
    assert_eq!(stage.quota("operetta_plugins_over_quota", ""), 2.0);

    namespace.delete_all(kinds::PLUGIN).await;
    eventually(
        "the host counts none of them any more",
        async || match stage.quota("operetta_quota_used", "") {
            0.0 => Ok(()),
            used => Err(used.to_string()),
        },
    )
    .await;

    stage.others_keep_working().await;
}

#[tokio::test]
async fn plugins_without_source_start_no_watch_beyond_quota() {
    let stage = Stage::new("no-sources").await;
    let namespace = &stage.namespace;
    let control_plane = namespace.control_plane();

    for number in 0..PLUGINS + 3 {
        let source = json!({"configMap": {"name": format!("absent-{number:03}")}});
        let spec = json!({"source": source, "serviceAccountName": "plugin"});
        let plugin = json!({"metadata": {"name": format!("p-{number:03}")}, "spec": spec});
        namespace.create_object(kinds::PLUGIN, plugin).await;
    }

    namespace
        .until_degraded("p-099", "SourceNotFound", &["absent-099"])
        .await;
    for over in ["p-100", "p-101", "p-102"] {
        namespace
            .until_degraded(over, "QuotaExceeded", &["may have 100 Plugins"])
            .await;
    }

    // The URIs of the open watches of single ConfigMaps.
    let watched = || {
        let audit = control_plane.audit();
        let open = audit
            .open_watches("configmaps")
            .into_iter()
            .map(|event| event.request_uri.clone());
        let of_namespace = format!("/namespaces/{}/", namespace.name());
        open.filter(|uri| uri.contains(&of_namespace) && uri.contains("absent-"))
            .collect::<Vec<_>>()
    };

    let began = Instant::now();
    stage.others_keep_working().await;
    let open = watched();
    println!(
        "{} Plugins without a source: {} watches; a neighbour's object is touched after {:?}",
        PLUGINS + 3,
        open.len(),
        began.elapsed()
    );

    assert!(open.len() <= PLUGINS, "{} watches", open.len());
    let over = open.iter().find(|uri| uri.contains("absent-1"));
    assert_eq!(over, None, "a Plugin over the quota has a watch");

    namespace.delete_all(kinds::PLUGIN).await;
    eventually(
        "the watches end with their Plugins",
        async || match watched() {
            open if open.is_empty() => Ok(()),
            open => Err(format!("{open:?}")),
        },
    )
    .await;
}

#[tokio::test]
async fn controllers_and_sources_over_quota_are_not_watched() {
    let stage = Stage::new("many-controllers").await;
    let namespace = &stage.namespace;
    let control_plane = namespace.control_plane();
    install(control_plane, RATIONED);
    install(control_plane, SPARE);
    let before = stage.host.memory_bytes();

    // The names are in the order of creation: of two created in the same second, the first by name
    // counts as older.
    for (name, wasm) in [
        ("many", wide(RATIONED, 100, 5)),
        ("more", wide(RATIONED, 98, 1)),
    ] {
        stage.plugin(name, wasm, json!({})).await;
        namespace
            .until_condition(name, "Ready", "True", "Running")
            .await;
    }

    let grown = stage.host.memory_bytes().saturating_sub(before);
    println!("198 controllers with 598 sources take {} KiB", grown >> 10);

    stage
        .plugin("q-controllers", wide(SPARE, 3, 1), json!({}))
        .await;
    let words = [
        "it has 3 controllers",
        "have 198 of the 200 controllers",
        "delete or suspend one of them",
        "raise quotas",
    ];

    namespace
        .until_degraded("q-controllers", "QuotaExceeded", &words)
        .await;
    namespace
        .until_event(kinds::PLUGIN, "q-controllers", "QuotaExceeded")
        .await;

    stage
        .plugin("r-sources", wide(SPARE, 1, 403), json!({}))
        .await;
    namespace
        .until_degraded(
            "r-sources",
            "QuotaExceeded",
            &["it has 403 sources", "have 598 of the 1000 sources"],
        )
        .await;

    // A small one still fits beside them.
    stage
        .plugin("s-small", wide(RATIONED, 2, 1), json!({}))
        .await;
    namespace
        .until_condition("s-small", "Ready", "True", "Running")
        .await;

    // The namespace is full: code is not even loaded.
    stage.plugin("tardy", wide(SPARE, 1, 1), json!({})).await;
    namespace
        .until_degraded(
            "tardy",
            "QuotaExceeded",
            &["have 200 of the 200 controllers"],
        )
        .await;
    stage.is_not_loaded("tardy").await;

    let audit = control_plane.audit();
    assert_eq!(
        audit.done("list", "spares").count() + audit.open_watches("spares").len(),
        0,
        "the host watches spares"
    );
    assert_eq!(
        stage.quota("operetta_quota_used", "quota=\"controllers\""),
        200.0
    );
    assert_eq!(
        stage.quota("operetta_quota_used", "quota=\"sources\""),
        600.0
    );

    stage.others_keep_working().await;

    // The older one gets code with fewer controllers, and the others run by themselves.
    let fewer = DropIn::new("many-code", wide(RATIONED, 1, 1)).code();
    namespace
        .patch(
            kinds::CONFIG_MAP,
            "many-code",
            json!({"binaryData": fewer["binaryData"]}),
        )
        .await;

    for name in ["many", "q-controllers", "r-sources", "tardy"] {
        namespace
            .until_condition(name, "Ready", "True", "Running")
            .await;
    }

    // An informer has synced when its list is there; the watch comes after it.
    eventually("the spares are watched", async || {
        if control_plane.audit().open_watches("spares").is_empty() {
            Err("no watch".to_owned())
        } else {
            Ok(())
        }
    })
    .await;

    // It grows again: the younger ones make room for it.
    let again = DropIn::new("many-code", wide(RATIONED, 100, 5)).code();
    namespace
        .patch(
            kinds::CONFIG_MAP,
            "many-code",
            json!({"binaryData": again["binaryData"]}),
        )
        .await;
    namespace
        .until_condition("many", "Ready", "True", "Running")
        .await;

    for name in ["q-controllers", "r-sources"] {
        namespace
            .until_condition(name, "Ready", "False", "QuotaExceeded")
            .await;
    }

    // A suspended Plugin needs none.
    namespace
        .patch(kinds::PLUGIN, "many", json!({"spec": {"suspend": true}}))
        .await;
    for name in ["q-controllers", "r-sources"] {
        namespace
            .until_condition(name, "Ready", "True", "Running")
            .await;
    }

    stage.others_keep_working().await;
}
