//! The host's own rights, `deploy/base/rbac.yaml`: they suffice, as every other test shows, and none of them is too many.

use std::{path::Path, time::Duration};

use operetta_testkit::{ControlPlane, DropIn, Host, HostOptions, guest, kinds};

const OPERETTA: &str = env!("CARGO_BIN_EXE_operetta");
/// What works takes a few seconds; on a busy machine a few more.
const WORKS: Duration = Duration::from_secs(60);
const DOES_NOT: Duration = Duration::from_secs(8);

/// The life of one plugin, from the ConfigMap to its end, with all that the host does for it.
async fn a_plugin_lives(control_plane: &ControlPlane, name: &str) {
    let namespace = control_plane.namespace(name).await;
    namespace.allow_all("plugin").await;
    namespace.create_touchable("target").await;
    namespace.drop_in(&DropIn::new("touch", guest("fixture-touch-v1"))).await;
    namespace.until_touched("target", "v1").await;
    namespace.until_condition("touch", "Ready", "True", "Running").await;
    namespace.until_event(kinds::PLUGIN, "touch", "Loaded").await;
    namespace.kubectl(&["label", "configmap", "touch", "operetta.dev/plugin-"]);
    namespace.until_gone(kinds::PLUGIN, "touch").await;
}

#[tokio::test]
async fn host_needs_each_of_its_rules() {
    let control_plane = ControlPlane::shared().await;
    let spawn = |without_rules: Vec<usize>| {
        let options = HostOptions { without_rules, ..HostOptions::default() };
        Host::spawn(Path::new(OPERETTA), control_plane, &options)
    };
    let host = spawn(vec![]);
    tokio::time::timeout(WORKS, a_plugin_lives(control_plane, "all-rules")).await.expect("it works with all of them");
    drop(host);
    let role = control_plane.kubectl(&["get", "clusterrole", "operetta", "-o", "json"]);
    let role: serde_json::Value = serde_json::from_str(&role).expect("a ClusterRole");
    let rules = role["rules"].as_array().expect("rules");
    for (at, rule) in rules.iter().enumerate() {
        let host = spawn(vec![at]);
        let lives = tokio::time::timeout(DOES_NOT, a_plugin_lives(control_plane, &format!("without-{at}"))).await;
        assert!(lives.is_err(), "it works without {rule}: take the rule away");
        drop(host);
    }
    let _host = spawn(vec![]);
    tokio::time::timeout(WORKS, a_plugin_lives(control_plane, "again")).await.expect("it works with all of them again");
}
