//! Cached reads see the plugin's own writes at once, while others keep the watch busy.

use std::sync::atomic::{AtomicBool, Ordering};

use operetta_core::{
    gate::operation::{DeleteOptions, ListOptions, Read, Selection},
    status::ErrorKind,
};
use operetta_testkit::kinds;
use serde_json::json;

use crate::{Stage, config_map, names, value};

const ROUNDS: usize = 60;

/// Changes other objects of the namespace without a pause, until stopped.
async fn noise(stage: &Stage, done: &AtomicBool) {
    let metadata = json!({"metadata": {"name": "noise"}});
    stage
        .namespace
        .create_object(kinds::CONFIG_MAP, metadata)
        .await;
    let mut n = 0;
    while !done.load(Ordering::Relaxed) {
        n += 1;
        stage
            .namespace
            .patch(
                kinds::CONFIG_MAP,
                "noise",
                json!({"data": {"n": n.to_string()}}),
            )
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_write_is_seen_by_the_next_cached_read() {
    let stage = Stage::new("own-writes").await;
    // Started before, so that every read below is answered by a watch that may lag.
    stage.list(stage.all(Read::Cached)).await.expect("synced");
    let done = AtomicBool::new(false);
    let busy = async {
        for round in 0..ROUNDS {
            round_trip(&stage, &format!("own-{round}")).await;
        }
        done.store(true, Ordering::Relaxed);
    };
    tokio::join!(noise(&stage, &done), busy);
}

async fn round_trip(stage: &Stage, name: &str) {
    let mut made = config_map(name);
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": format!("uid-{name}"), "controller": true});
    made["metadata"]["ownerReferences"] = json!([owner]);
    let created = stage.create(made).await.expect("created");
    let found = stage
        .get(name, Read::Cached)
        .await
        .expect("a created object is found");
    assert_eq!(found.uid(), created.uid());
    let selection = Selection::ByOwner(format!("uid-{name}"));
    let owned = stage
        .list(ListOptions {
            selection,
            ..stage.all(Read::Cached)
        })
        .await
        .expect("a list");
    assert_eq!(
        names(&owned),
        [name],
        "and listed by its owner: or a second child would be made"
    );

    let mut changed = value(&found);
    changed["data"] = json!({"n": "1"});
    let updated = stage
        .update(name, &changed)
        .await
        .expect("the cached object is not stale");
    let found = stage.get(name, Read::Cached).await.expect("there");
    assert_eq!(found.resource_version(), updated.resource_version());

    stage
        .delete(name, DeleteOptions::default())
        .await
        .expect("deleted");
    let gone = stage
        .get(name, Read::Cached)
        .await
        .expect_err("a deleted object is gone");
    assert_eq!(gone.kind, ErrorKind::NotFound);
    let again = stage.create(config_map(name)).await.expect("created again");
    let found = stage
        .get(name, Read::Cached)
        .await
        .expect("its successor is found");
    assert_eq!(found.uid(), again.uid());
}
