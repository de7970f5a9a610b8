//! Components from the host's own files: what a Plugin may name, what it may not, and that a
//! changed file is run.

use operetta_testkit::{guest, kinds};
use serde_json::json;

use crate::{Stage, plugin_directory};

/// Puts a file in place whole and at once, as a careful administrator does.
fn put(path: &std::path::Path, bytes: &[u8]) {
    let new = path.with_extension("new");
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(&new, bytes).expect("written");
    std::fs::rename(&new, path).expect("moved");
}

#[tokio::test]
async fn path_source_runs_and_follows_its_file() {
    let stage = Stage::new("path").await;
    let namespace = &stage.namespace;
    let file = plugin_directory(namespace.control_plane())
        .join(namespace.name())
        .join("touch.wasm");

    put(&file, &guest("fixture-touch-v1"));
    namespace.create_touchable("target").await;

    let path = format!("{}/touch.wasm", namespace.name());
    let spec = json!({"source": {"path": path}, "serviceAccountName": "plugin"});
    namespace
        .create_object(
            kinds::PLUGIN,
            json!({"metadata": {"name": "touch"}, "spec": spec}),
        )
        .await;

    namespace.until_touched("target", "v1").await;
    namespace.kubectl(&[
        "wait",
        "--for=condition=Ready",
        "plugin/touch",
        "--timeout=30s",
    ]);

    put(&file, &guest("fixture-touch-v2"));
    namespace.until_touched("target", "v2").await;
    put(&file, b"no wasm");
    namespace
        .until_degraded("touch", "NotWasm", &["still running"])
        .await;

    std::fs::remove_file(&file).expect("removed");
    namespace
        .until_degraded(
            "touch",
            "SourceNotFound",
            &["does not exist in the host's pluginDirectory"],
        )
        .await;

    put(&file, &guest("fixture-touch-v1"));
    namespace.until_touched("target", "v1").await;
    namespace
        .until_condition("touch", "Degraded", "False", "AsExpected")
        .await;
    stage.others_keep_working().await;
}

#[tokio::test]
async fn path_source_stays_in_the_plugin_directory() {
    let stage = Stage::new("escape").await;
    let namespace = &stage.namespace;
    let directory = plugin_directory(namespace.control_plane());
    let outside = namespace.control_plane().folder().join("outside.wasm");
    put(&outside, &guest("fixture-touch-v1"));
    let link = directory.join(format!("{}.wasm", namespace.name()));
    std::os::unix::fs::symlink(&outside, &link).expect("linked");
    let linked = format!("{}.wasm", namespace.name());

    let absolute = outside.display().to_string();
    namespace.create_touchable("target").await;

    for (at, path) in [
        "../outside.wasm",
        "x/../../outside.wasm",
        &absolute,
        &linked,
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("escapes-{at}");
        let spec = json!({"source": {"path": path}, "serviceAccountName": "plugin"});
        namespace
            .create_object(
                kinds::PLUGIN,
                json!({"metadata": {"name": name}, "spec": spec}),
            )
            .await;

        // A path with a part that does not exist may be reported as such. Neither answer tells what
        // is outside.
        let reason = if at == 1 {
            "SourceNotFound"
        } else {
            "PathOutside"
        };

        namespace
            .until_degraded(&name, reason, &["pluginDirectory"])
            .await;
    }

    let target = namespace
        .get(kinds::CONFIG_MAP, "target")
        .await
        .expect("it exists");
    assert!(target["data"]["touched"].is_null(), "{target}");
    stage.others_keep_working().await;
}
