//! Quotas of processors and of requests: who is over them waits, is counted, and loses nothing; the others do not notice.
//! And the audit of what they write meanwhile.

use operetta_testkit::{ControlPlane, DropIn, Host, HostOptions, TestNamespace, eventually, guest};
use serde_json::json;

async fn stage(control_plane: &'static ControlPlane, prefix: &str) -> TestNamespace<'static> {
    let namespace = control_plane.namespace(prefix).await;
    namespace.allow_all("plugin").await;
    namespace.create_touchable("target").await;
    namespace
}

#[tokio::test]
async fn who_is_over_a_quota_waits_and_is_counted_and_the_others_go_on() {
    let control_plane = ControlPlane::shared().await;
    let audit = control_plane.folder().join("audit-of-plugins.jsonl");
    let quotas = "{plugin: {cpu: 0.1, apiQps: 20, apiBurst: 5}, namespace: {cpu: 1}}";
    let config = format!("quotas: {quotas}\nauditFile: {}", audit.display());
    let options = HostOptions { config, ..HostOptions::default() };
    let host = Host::start(env!("CARGO_BIN_EXE_operetta"), control_plane, &options).await;
    let noisy = stage(control_plane, "noisy").await;
    let misbehaving =
        |name: &str, what: &str| DropIn::new(name, guest("fixture-misbehave")).config(json!({"do": what}));
    noisy.drop_in(&misbehaving("spins", "loop")).await;
    noisy.drop_in(&misbehaving("floods", "call-flood")).await;
    let of = |plugin: &str| format!("plugin=\"{plugin}\"");
    for (plugin, quota) in [("spins", "quota=\"cpu\""), ("floods", "quota=\"api\"")] {
        eventually(&format!("{plugin} is throttled"), async || {
            match host.metric("operetta_plugin_throttled_seconds_total", &[&of(plugin), quota]) {
                seconds if seconds > 0.5 => Ok(()),
                seconds => Err(format!("{seconds} s")),
            }
        })
        .await;
    }
    let calls = host.metric("operetta_plugin_calls_total", &[&of("floods"), "verb=\"get\""]);
    assert!(calls > 5.0, "{calls} calls");

    let quiet = stage(control_plane, "quiet").await;
    quiet.drop_in(&DropIn::new("touch", guest("fixture-touch-v1"))).await;
    for number in 0..20 {
        quiet.create_touchable(&format!("target-{number}")).await;
    }
    for number in 0..20 {
        quiet.until_touched(&format!("target-{number}"), "v1").await;
    }
    // Each write is in the audit: who, as whom, what, and which fields.
    let text = std::fs::read_to_string(&audit).expect("an audit");
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for number in 0..20 {
        let object = format!("{}/target-{number}", quiet.name());
        let line = lines.iter().find(|line| line["object"] == object.as_str() && line["result"] == "ok");
        let line = line.unwrap_or_else(|| panic!("no line about {object}"));
        assert_eq!(line["plugin"], format!("{}/touch", quiet.name()));
        assert_eq!(line["serviceAccount"], format!("system:serviceaccount:{}:plugin", quiet.name()));
        assert_eq!((&line["verb"], &line["changed"]), (&json!("update"), &json!([".data"])));
        assert_eq!(line["key"], object.as_str());
    }
    let seconds = host.metric("operetta_plugin_cpu_seconds_total", &[&of("touch")]);
    assert!(seconds > 0.0, "what it took is counted");
    host.assert_sound();
}
