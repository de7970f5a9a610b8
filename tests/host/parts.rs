//! A component that is split over several ConfigMaps.

use operetta_testkit::{DropIn, guest, kinds};
use serde_json::json;

use crate::{MAX_WASM_BYTES, Stage};

fn split(version: &str) -> Vec<serde_json::Value> {
    let wasm = guest(&format!("fixture-touch-{version}"));
    let parts = DropIn::new("split", wasm.clone()).split(wasm.len() / 3 + 1);
    assert_eq!(parts.len(), 3);
    parts
}

#[tokio::test]
async fn parts_join_in_any_order() {
    let stage = Stage::new("parts").await;
    let parts = split("v1");

    // The first one alone, before its rest.
    stage
        .namespace
        .create_object(kinds::CONFIG_MAP, parts[2].clone())
        .await;
    stage
        .namespace
        .create_object(kinds::CONFIG_MAP, parts[1].clone())
        .await;

    let words = [
        "ConfigMap \"split\" has 3 parts",
        "split-part-2 is missing",
        "apply all of them",
    ];
    stage
        .namespace
        .until_degraded("split", "PartsMissing", &words)
        .await;

    stage
        .namespace
        .until_event(kinds::CONFIG_MAP, "split", "PartsMissing")
        .await;
    stage
        .namespace
        .create_object(kinds::CONFIG_MAP, parts[0].clone())
        .await;

    stage
        .namespace
        .until_condition("split", "Ready", "True", "Running")
        .await;

    stage.namespace.create_touchable("target").await;
    stage.namespace.until_touched("target", "v1").await;

    stage.others_keep_working().await;
}

#[tokio::test]
async fn parts_of_two_versions_never_join() {
    let stage = Stage::new("parts-swap").await;
    for part in split("v1") {
        stage.namespace.create_object(kinds::CONFIG_MAP, part).await;
    }
    stage
        .namespace
        .until_condition("split", "Ready", "True", "Running")
        .await;

    let new = split("v2");
    let replace = async |part: &serde_json::Value| {
        let name = part["metadata"]["name"]
            .as_str()
            .expect("a name")
            .to_owned();
        stage
            .namespace
            .patch(kinds::CONFIG_MAP, &name, part.clone())
            .await;
    };

    replace(&new[0]).await;
    stage
        .namespace
        .until_degraded(
            "split",
            "PartsMissing",
            &["split-part-2 is of another version"],
        )
        .await;

    stage.namespace.create_touchable("meanwhile").await;
    stage.namespace.until_touched("meanwhile", "v1").await;

    replace(&new[1]).await;
    replace(&new[2]).await;
    stage.namespace.create_touchable("after").await;
    stage.namespace.until_touched("after", "v2").await;

    stage
        .namespace
        .until_condition("split", "Degraded", "False", "AsExpected")
        .await;
}

#[tokio::test]
async fn damaged_parts_and_annotations_that_make_no_sense_are_refused() {
    let stage = Stage::new("parts-bad").await;
    let mut parts = split("v1");
    parts[0]["binaryData"] = json!({"split.wasm": k8s_openapi::ByteString(vec![0; 10])});

    for part in &parts {
        stage
            .namespace
            .create_object(kinds::CONFIG_MAP, part.clone())
            .await;
    }

    stage
        .namespace
        .until_degraded("split", "WrongDigest", &["bundle it again"])
        .await;

    let annotations = json!({"metadata": {"annotations": {"operetta.dev/parts": "many"}}});
    stage
        .namespace
        .patch(kinds::CONFIG_MAP, "split", annotations)
        .await;
    stage
        .namespace
        .until_degraded("split", "InvalidParts", &["\"many\"", "a number from 1 to"])
        .await;

    stage.others_keep_working().await;
}

#[tokio::test]
async fn parts_beyond_limit_are_refused_unread() {
    const PART: usize = 600_000;
    let stage = Stage::new("parts-large").await;
    for part in DropIn::new("split", vec![0_u8; 4 * PART]).split(PART) {
        stage.namespace.create_object(kinds::CONFIG_MAP, part).await;
    }

    let limit = format!("{MAX_WASM_BYTES} bytes");
    let message = stage
        .namespace
        .until_degraded("split", "TooLarge", &[&limit, "maxWasmBytes"])
        .await;

    // The first two parts are already too many bytes.
    let audit = stage.namespace.control_plane().audit();
    let reads = audit
        .done("get", "configmaps")
        .filter(|event| event.object_ref.namespace == stage.namespace.name());
    let read: Vec<&str> = reads.map(|event| event.object_ref.name.as_str()).collect();
    println!("four parts of {PART} bytes: {message}; read: {read:?}");
    assert!(
        !read.contains(&"split-part-3") && !read.contains(&"split-part-4"),
        "{read:?}"
    );

    stage.others_keep_working().await;
}
