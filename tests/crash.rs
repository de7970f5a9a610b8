//! A host that is killed while it loads a plugin comes back with all of its plugins. If it dies again
//! while it loads the same plugin, it comes back without that one. What a worker compiles meanwhile is
//! not to blame.
//!
//! It is a file of its own because its tests kill the host, and so have control planes of their
//! own.

use operetta_testkit::{
    ControlPlane, DropIn, Host, HostOptions, TestNamespace, eventually, guest, hostile::yaml_bomb,
    kinds, shell, throughout, wat_guest::Guest,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The longest time within which an honest plugin runs after a start.
const AT_ONCE: Duration = Duration::from_secs(60);

/// The memory that the host may take beyond its own while it refuses a configuration, in bytes.
const REFUSAL: u64 = 64 << 20;

/// The names of the plugins that the journal notes as being in this step.
fn in_flight(host: &Host, step: &str) -> Vec<String> {
    let entries = journal(host)
        .into_iter()
        .filter(|entry| entry["inFlight"] == true && entry["step"] == step);
    entries
        .filter_map(|entry| entry["name"].as_str().map(str::to_owned))
        .collect()
}

/// Returns the entries of the journal.
fn journal(host: &Host) -> Vec<Value> {
    let directory = host.folder().join("cache/operetta/compiled");
    let mut entries = Vec::new();

    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("crash-journal-") && name.ends_with(".json") {
            let text = std::fs::read(entry.path()).unwrap_or_default();
            let table: Value = serde_json::from_slice(&text).unwrap_or_default();
            entries.extend(table["entries"].as_array().cloned().unwrap_or_default());
        }
    }

    entries
}

async fn until_loading(host: &Host, plugin: &str) {
    eventually(&format!("{plugin} is being loaded"), async || {
        host.assert_sound();
        let names = in_flight(host, "load");
        if names == [plugin] {
            Ok(())
        } else {
            Err(format!("{names:?}"))
        }
    })
    .await;
}

/// A component that takes its time in `describe`, half of what it may have.
fn slow_to_describe() -> Vec<u8> {
    let wait = "(call $block (call $subscribe_duration (i64.const 5000000000))) i32.const 8";
    Guest::default().describe(wait).build_in("hostile-guest")
}

/// Waits until the honest plugin has done something new.
async fn honest_works(namespace: &TestNamespace<'_>, target: &str) {
    namespace.create_touchable(target).await;
    tokio::time::timeout(AT_ONCE, namespace.until_touched(target, "v1"))
        .await
        .expect("the honest plugin works");
}

#[tokio::test]
async fn plugin_loaded_at_two_deaths_of_the_host_is_quarantined() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let options = HostOptions {
        compiles_anew: true,
        ..HostOptions::default()
    };
    let mut host = Host::start(&control_plane, &options).await;
    let namespace = control_plane.namespace("crash").await;
    namespace.allow_all("plugin").await;

    namespace
        .drop_in(&DropIn::new("honest", guest("fixture-touch-v1")))
        .await;
    honest_works(&namespace, "before").await;

    // Nothing is wrong with it except that it takes long to describe itself. The host is killed
    // meanwhile, as the OOM killer would do.
    let slow = slow_to_describe();
    let digest = operetta_testkit::digest(&slow);
    namespace.drop_in(&DropIn::compressed("slow", &slow)).await;
    until_loading(&host, "slow").await;
    host.kill();
    host.start_again();
    host.until_listening().await;
    honest_works(&namespace, "after-one").await;

    // It is loaded last: the honest one came before it.
    until_loading(&host, "slow").await;
    host.kill();

    host.start_again();
    host.until_listening().await;
    honest_works(&namespace, "after-two").await;
    let message = namespace
        .until_degraded("slow", "CrashQuarantined", &[&digest, "twice in a row"])
        .await;
    assert_eq!(
        namespace
            .until_event(kinds::PLUGIN, "slow", "CrashQuarantined")
            .await,
        message
    );

    assert_eq!(
        namespace
            .until_event(kinds::CONFIG_MAP, "slow", "CrashQuarantined")
            .await,
        message
    );
    assert!(
        host.log().contains("the host crashed while it loaded"),
        "{}",
        host.log()
    );

    println!("loaded at two deaths of the host: {message}");
    let labels = [
        "plugin=\"slow\"",
        &format!("namespace=\"{}\"", namespace.name()),
    ];
    assert!(
        host.metric("operetta_plugin_crashes", &labels) == 2.0,
        "{}",
        host.metrics()
    );

    throughout(
        Duration::from_secs(5),
        "it stays in quarantine",
        async || {
            let names = in_flight(&host, "load");
            if names.is_empty() {
                Ok(())
            } else {
                Err(format!("{names:?}"))
            }
        },
    )
    .await;

    // An administrator asks, as the message says.
    let command = message
        .find("kubectl ")
        .map(|at| &message[at..])
        .expect("a command");
    let output = shell(&[], control_plane.kubeconfig(), command)
        .output()
        .expect("bash runs");

    assert!(
        output.status.success(),
        "{command}: {}",
        String::from_utf8_lossy(&output.stderr)
    );

    namespace
        .until_condition("slow", "Loaded", "True", "Loaded")
        .await;
    assert!(
        host.metric("operetta_plugin_crashes", &labels) == 0.0,
        "{}",
        host.metrics()
    );

    host.assert_sound();
}

/// Returns how often in a row the host crashed during a step of a plugin, by its journal.
fn crashes(host: &Host, step: &str, plugin: &str) -> u64 {
    let entries = journal(host);
    let entry = entries
        .iter()
        .find(|entry| entry["step"] == step && entry["name"] == plugin);
    entry
        .and_then(|entry| entry["deaths"].as_u64())
        .unwrap_or_default()
}

/// Waits until a host has read the journal of the one before, which it does after it listens.
async fn until_journal_is_read(host: &Host) {
    eventually("the controllers are started", async || {
        host.assert_sound();
        if host.log().contains("started plugin controller") {
            Ok(())
        } else {
            Err(host.log())
        }
    })
    .await;
}

/// Kills the host during a step for a plugin until it was killed twice in a row. A step may end
/// before it is killed: `again` lets the host do it once more, with a new version of its source.
/// After a first death the host retries the old version by itself, and a new one would not be
/// quarantined.
async fn kill_twice_during(host: &mut Host, step: &str, plugin: &str, again: impl AsyncFn()) {
    for _ in 0..20 {
        let began = Instant::now();
        while in_flight(host, step) != [plugin] && began.elapsed() < AT_ONCE / 4 {
            host.assert_sound();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }

        host.kill();
        let was_in_flight = in_flight(host, step) == [plugin];
        host.start_again();
        host.until_listening().await;
        until_journal_is_read(host).await;

        match crashes(host, step, plugin) {
            2.. => return,
            0 if !was_in_flight => again().await,
            _ => {}
        }
    }

    panic!(
        "{step} of {plugin} was not in flight twice in a row: {}",
        host.log()
    );
}

/// A component with 256 MiB of zeros, which take a moment to decompress.
fn padded_component() -> Vec<u8> {
    const LENGTH: u32 = 256 << 20;
    let mut component = Guest::default().build();
    component.push(0);

    // The length of the section: a name of one byte, its length, and the zeros.
    let mut rest = LENGTH + 2;
    while rest >= 0x80 {
        component.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }

    component.push(rest as u8);
    component.extend([1, b'x']);
    component.resize(component.len() + LENGTH as usize, 0);
    component
}

#[tokio::test]
async fn plugin_decompressed_or_parsed_at_two_deaths_is_quarantined() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let config = format!("maxWasmBytes: {}", 1 << 30);
    let options = HostOptions {
        compiles_anew: true,
        config,
        ..HostOptions::default()
    };

    let mut host = Host::start(&control_plane, &options).await;
    let namespace = control_plane.namespace("crash").await;
    namespace.allow_all("plugin").await;
    namespace
        .drop_in(&DropIn::new("honest", guest("fixture-touch-v1")))
        .await;
    honest_works(&namespace, "before").await;

    let touch = async |config_map: &str| {
        let stamp = format!("{:?}", Instant::now());
        namespace
            .patch(
                kinds::CONFIG_MAP,
                config_map,
                json!({"metadata": {"annotations": {"stamp": stamp}}}),
            )
            .await;
    };

    // An archive that takes a moment to decompress.
    namespace
        .drop_in(&DropIn::compressed("archive", &padded_component()))
        .await;

    kill_twice_during(&mut host, "decompress", "archive", async || {
        touch("archive").await;
    })
    .await;

    honest_works(&namespace, "after-archive").await;
    let words = [
        "decompressed sha256:",
        "twice in a row",
        "kubectl annotate plugin archive",
    ];
    let message = namespace
        .until_degraded("archive", "CrashQuarantined", &words)
        .await;
    assert_eq!(
        namespace
            .until_event(kinds::PLUGIN, "archive", "CrashQuarantined")
            .await,
        message
    );

    assert!(
        host.log()
            .contains("the host crashed while it decompressed"),
        "{}",
        host.log()
    );

    println!("decompressed at two deaths of the host: {message}");
    namespace.delete(kinds::CONFIG_MAP, "archive").await;

    // Configuration that takes a moment to parse.
    let list = (0..40_000)
        .map(|number| format!("- entry-number-{number}\n"))
        .collect::<String>();

    let names: Vec<String> = (0..8).map(|number| format!("config-{number}")).collect();
    for name in &names {
        let data = json!({"config.yaml": format!("{name}:\n{list}")});
        namespace
            .create_object(
                kinds::CONFIG_MAP,
                json!({"metadata": {"name": name}, "data": data}),
            )
            .await;
    }

    let from: Vec<Value> = names
        .iter()
        .map(|name| json!({"configMapRef": {"name": name}}))
        .collect();
    let code = DropIn::new("code", guest("fixture-touch-v1")).object()["binaryData"].clone();

    namespace
        .create_object(
            kinds::CONFIG_MAP,
            json!({"metadata": {"name": "code"}, "binaryData": code}),
        )
        .await;

    let spec = json!({"source": {"configMap": {"name": "code"}}, "serviceAccountName": "plugin", "configFrom": from});
    namespace
        .create_object(
            kinds::PLUGIN,
            json!({"metadata": {"name": "configured"}, "spec": spec}),
        )
        .await;

    kill_twice_during(&mut host, "parseConfig", "configured", async || {
        touch("config-7").await;
    })
    .await;

    honest_works(&namespace, "after-config").await;
    let words = [
        "parsed spec.configFrom",
        "twice in a row",
        "kubectl annotate plugin configured",
    ];
    let message = namespace
        .until_degraded("configured", "CrashQuarantined", &words)
        .await;
    assert_eq!(
        namespace
            .until_event(kinds::PLUGIN, "configured", "CrashQuarantined")
            .await,
        message
    );

    assert!(
        host.log()
            .contains("the host crashed while it parsed spec.configFrom"),
        "{}",
        host.log()
    );

    println!("parsed at two deaths of the host: {message}");
    let labels = ["plugin=\"configured\"", "step=\"parseConfig\""];
    throughout(
        Duration::from_secs(5),
        "it stays in quarantine",
        async || {
            let crashes = host.metric("operetta_plugin_crashes", &labels);
            if crashes == 2.0 {
                Ok(())
            } else {
                Err(format!("{crashes} crashes\n{}", host.metrics()))
            }
        },
    )
    .await;

    host.assert_sound();
}

/// A worker compiles in a process of its own, and a compilation takes longer than anything else that
/// the host does for a plugin: it must not be blamed for whatever kills the host meanwhile.
#[tokio::test]
async fn component_compiled_by_a_worker_at_a_death_is_not_blamed() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let options = HostOptions {
        compiles_anew: true,
        ..HostOptions::default()
    };
    let mut host = Host::start(&control_plane, &options).await;
    let namespace = control_plane.namespace("compile").await;
    namespace.allow_all("plugin").await;

    let slow = Guest::default().with_functions(20_000).build();
    namespace.drop_in(&DropIn::compressed("slow", &slow)).await;
    namespace
        .until_condition("slow", "Loaded", "False", "Loading")
        .await;
    until_nothing_is_noted(&host).await;
    let plugin = namespace.get(kinds::PLUGIN, "slow").await;
    let plugin = plugin.expect("a Plugin");
    assert_eq!(
        plugin["status"]["reason"],
        json!("NotLoaded"),
        "it is still being compiled: {plugin}"
    );

    host.kill();
    host.start_again();
    host.until_listening().await;
    until_journal_is_read(&host).await;
    assert_eq!(crashes(&host, "load", "slow"), 0);
    namespace
        .until_condition("slow", "Loaded", "True", "Loaded")
        .await;
    assert!(
        !host.log().contains("the host crashed while"),
        "{}",
        host.log()
    );
    host.assert_sound();
}

/// Waits until the journal has been empty for half a second: what the host does itself is done.
async fn until_nothing_is_noted(host: &Host) {
    let mut since = Instant::now();
    eventually("nothing is noted in the journal", async || {
        host.assert_sound();
        match journal(host) {
            entries if entries.is_empty() => {}
            entries => {
                since = Instant::now();
                return Err(format!("{entries:?}"));
            }
        }
        match since.elapsed() > Duration::from_millis(500) {
            true => Ok(()),
            false => Err("not for long".to_owned()),
        }
    })
    .await;
}

#[tokio::test]
async fn orderly_stop_during_a_load_blames_nobody() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let config = "shutdownSeconds: 1".to_owned();
    let options = HostOptions {
        compiles_anew: true,
        config,
        ..HostOptions::default()
    };

    let mut host = Host::start(&control_plane, &options).await;
    let namespace = control_plane.namespace("stop").await;
    namespace.allow_all("plugin").await;

    let slow = slow_to_describe();
    namespace.drop_in(&DropIn::compressed("slow", &slow)).await;
    until_loading(&host, "slow").await;

    host.stop();
    host.start_again();
    host.until_listening().await;
    until_loading(&host, "slow").await;

    assert!(
        !host.log().contains("the host crashed while"),
        "{}",
        host.log()
    );

    let plugin = namespace
        .get(kinds::PLUGIN, "slow")
        .await
        .expect("a Plugin");
    assert_eq!(plugin["status"]["reason"], json!("NotLoaded"));
}

#[tokio::test]
async fn yaml_bombs_take_no_memory_before_or_after_restart() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let mut host = Host::start(&control_plane, &HostOptions::default()).await;
    let namespace = control_plane.namespace("bombs").await;
    namespace.allow_all("plugin").await;

    namespace
        .drop_in(&DropIn::new("honest", guest("fixture-touch-v1")))
        .await;
    honest_works(&namespace, "before").await;
    let before = host.memory_bytes();

    let bombs: Vec<String> = (0..10).map(|number| format!("bomb-{number}")).collect();
    for bomb in &bombs {
        let mut object = DropIn::new(bomb, Guest::default().build()).object();
        object["data"] = json!({"config.yaml": yaml_bomb()});
        namespace.create_object(kinds::CONFIG_MAP, object).await;
    }

    for bomb in &bombs {
        namespace
            .until_event(kinds::CONFIG_MAP, bomb, "InvalidPluginConfig")
            .await;
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
        if missing.is_empty() {
            Ok(())
        } else {
            Err(format!("{missing:?} are not in its log"))
        }
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

    assert!(
        during.max(again) < before + REFUSAL,
        "{before} bytes before, {during} during, {again} after a restart"
    );

    host.assert_sound();
}
