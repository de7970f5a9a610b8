//! A host that is killed while it loads a plugin comes back: with all others, and without that plugin if it kills it again.
//!
//! In a file of its own, for it has a control plane of its own: it kills the host.

use operetta_testkit::{
    ControlPlane, DropIn, Host, HostOptions, TestNamespace, eventually, guest, hostile::yaml_bomb, kinds, shell,
    throughout, wat_guest::Guest,
};
use serde_json::{Value, json};
use std::time::Duration;

/// The longest time within which an honest plugin runs after a start.
const AT_ONCE: Duration = Duration::from_secs(60);

/// The memory that the host may take beyond its own while it refuses a configuration, in bytes.
const REFUSAL: u64 = 64 << 20;

/// The names of the plugins that the journal notes as being loaded.
fn in_flight(host: &Host) -> Vec<String> {
    let directory = host.folder().join("cache/operetta/compiled");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("crash-journal-") && name.ends_with(".json") {
            let text = std::fs::read(entry.path()).unwrap_or_default();
            let table: Value = serde_json::from_slice(&text).unwrap_or_default();
            let entries = table["entries"].as_array().cloned().unwrap_or_default();
            let loads = entries.iter().filter(|entry| entry["inFlight"] == true && entry["step"] == "load");
            names.extend(loads.filter_map(|entry| entry["name"].as_str().map(str::to_owned)));
        }
    }
    names
}

async fn until_loading(host: &Host, plugin: &str) {
    eventually(&format!("{plugin} is being loaded"), async || {
        host.assert_sound();
        let names = in_flight(host);
        if names == [plugin] { Ok(()) } else { Err(format!("{names:?}")) }
    })
    .await;
}

/// Waits until the honest plugin has done something new.
async fn honest_works(namespace: &TestNamespace<'_>, target: &str) {
    namespace.create_touchable(target).await;
    tokio::time::timeout(AT_ONCE, namespace.until_touched(target, "v1")).await.expect("the honest plugin works");
}

#[tokio::test]
async fn plugin_loaded_at_two_deaths_of_the_host_is_quarantined() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let options = HostOptions { compiles_anew: true, ..HostOptions::default() };
    let mut host = Host::start(env!("CARGO_BIN_EXE_operetta"), &control_plane, &options).await;
    let namespace = control_plane.namespace("crash").await;
    namespace.allow_all("plugin").await;
    namespace.drop_in(&DropIn::new("honest", guest("fixture-touch-v1"))).await;
    honest_works(&namespace, "before").await;

    // Nothing is wrong with it but that it compiles for long: the host is killed meanwhile, as by the OOM killer.
    let slow = Guest::default().with_functions(20_000).build();
    let digest = operetta_testkit::digest(&slow);
    namespace.drop_in(&DropIn::compressed("slow", &slow)).await;
    until_loading(&host, "slow").await;
    host.kill();
    host.start_again();
    host.until_listening().await;
    honest_works(&namespace, "after-one").await;
    // It was last: the honest one was there before it.
    until_loading(&host, "slow").await;
    host.kill();

    host.start_again();
    host.until_listening().await;
    honest_works(&namespace, "after-two").await;
    let message = namespace.until_degraded("slow", "CrashQuarantined", &[&digest, "twice in a row"]).await;
    assert_eq!(namespace.until_event(kinds::PLUGIN, "slow", "CrashQuarantined").await, message);
    assert_eq!(namespace.until_event(kinds::CONFIG_MAP, "slow", "CrashQuarantined").await, message);
    assert!(host.log().contains("the host crashed while it loaded this plugin"), "{}", host.log());
    let labels = ["plugin=\"slow\"", &format!("namespace=\"{}\"", namespace.name())];
    assert!(host.metric("operetta_plugin_crashes", &labels) == 2.0, "{}", host.metrics());
    throughout(Duration::from_secs(5), "it stays in quarantine", async || {
        let names = in_flight(&host);
        if names.is_empty() { Ok(()) } else { Err(format!("{names:?}")) }
    })
    .await;

    // An administrator asks, as the message says.
    let command = message.find("kubectl ").map(|at| &message[at..]).expect("a command");
    let output = shell(&[], control_plane.kubeconfig(), command).output().expect("bash runs");
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    namespace.until_condition("slow", "Loaded", "True", "Loaded").await;
    assert!(host.metric("operetta_plugin_crashes", &labels) == 0.0, "{}", host.metrics());
    host.assert_sound();
}

#[tokio::test]
async fn orderly_stop_during_a_load_blames_nobody() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let config = "shutdownSeconds: 1".to_owned();
    let options = HostOptions { compiles_anew: true, config, ..HostOptions::default() };
    let mut host = Host::start(env!("CARGO_BIN_EXE_operetta"), &control_plane, &options).await;
    let namespace = control_plane.namespace("stop").await;
    namespace.allow_all("plugin").await;
    let slow = Guest::default().with_functions(20_000).build();
    namespace.drop_in(&DropIn::compressed("slow", &slow)).await;
    until_loading(&host, "slow").await;
    host.stop();
    host.start_again();
    host.until_listening().await;
    until_loading(&host, "slow").await;
    assert!(!host.log().contains("the host crashed while"), "{}", host.log());
    let plugin = namespace.get(kinds::PLUGIN, "slow").await.expect("a Plugin");
    assert_eq!(plugin["status"]["reason"], json!("NotLoaded"));
}

#[tokio::test]
async fn yaml_bombs_take_no_memory_before_or_after_restart() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let mut host = Host::start(env!("CARGO_BIN_EXE_operetta"), &control_plane, &HostOptions::default()).await;
    let namespace = control_plane.namespace("bombs").await;
    namespace.allow_all("plugin").await;
    namespace.drop_in(&DropIn::new("honest", guest("fixture-touch-v1"))).await;
    honest_works(&namespace, "before").await;
    let before = host.memory_bytes();

    let bombs: Vec<String> = (0..10).map(|number| format!("bomb-{number}")).collect();
    for bomb in &bombs {
        let mut object = DropIn::new(bomb, Guest::default().build()).object();
        object["data"] = json!({"config.yaml": yaml_bomb()});
        namespace.create_object(kinds::CONFIG_MAP, object).await;
    }
    for bomb in &bombs {
        namespace.until_event(kinds::CONFIG_MAP, bomb, "InvalidPluginConfig").await;
    }
    honest_works(&namespace, "beside").await;
    let during = host.peak_memory_bytes();
    let after = host.memory_bytes();

    host.kill();
    host.start_again();
    host.until_listening().await;
    honest_works(&namespace, "after-restart").await;
    let refused = |bomb: &&String| host.log().contains(&format!("{}/{bomb}", namespace.name()));
    eventually("the host has looked at each bomb again", async || {
        let missing: Vec<&String> = bombs.iter().filter(|bomb| !refused(bomb)).collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("{missing:?} are not in its log")) }
    })
    .await;
    let again = host.peak_memory_bytes();
    println!(
        "the host's memory in MiB: {} before ten YAML bombs, {} at most while it refuses them, {} after, {} at most after a \
         restart",
        before >> 20,
        during >> 20,
        after >> 20,
        again >> 20
    );
    assert!(during.max(again) < before + REFUSAL, "{before} bytes before, {during} during, {again} after a restart");
    host.assert_sound();
}
