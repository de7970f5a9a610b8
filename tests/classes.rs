//! Hosts of trust classes: each namespace's plugins run on the hosts of its class alone, also while
//! it moves from one to another.
//!
//! It is a file of its own because it has a control plane of its own: other hosts would share the
//! Leases.

use operetta_testkit::{ControlPlane, DropIn, Host, HostOptions, TestNamespace, guest, kinds};
use serde_json::{Value, json};

const CONFIG: &str = "replicas: {leaseSeconds: 4}";
const WITHOUT_CLASS: &str = "operetta-system/operetta";
const CLASS_A: &str = "operetta-system/operetta.a";

/// Starts a host of a class, or of none, beside those that run.
async fn host(control_plane: &ControlPlane, class: Option<&str>) -> Host {
    let class_line = class.map_or_else(String::new, |class| format!("\nclass: {class}"));
    let options = HostOptions {
        config: format!("{CONFIG}{class_line}"),
        beside_another: class.is_some(),
        is_installed: class.is_some(),
        ..HostOptions::default()
    };
    Host::start(control_plane, &options).await
}

/// Changes the label of a namespace; None removes it.
fn set_class(namespace: &TestNamespace<'_>, class: Option<&str>) {
    let label = match class {
        Some(class) => format!("operetta.dev/class={class}"),
        None => "operetta.dev/class-".to_owned(),
    };
    namespace.control_plane().kubectl(&[
        "label",
        "namespace",
        namespace.name(),
        &label,
        "--overwrite",
    ]);
}

fn text<'a>(plugin: &'a Value, field: &str) -> &'a str {
    plugin["status"][field].as_str().unwrap_or_default()
}

/// Waits until the hosts with this Lease run a Plugin.
async fn until_run_by(namespace: &TestNamespace<'_>, plugin: &str, group: &str) {
    namespace
        .until(kinds::PLUGIN, plugin, |found| {
            match (text(found, "group"), text(found, "reason")) {
                (now, "Running") if now == group => Ok(()),
                _ => Err(found["status"].to_string()),
            }
        })
        .await;
}

/// A namespace with the plugin `touch`, which acts as an account that may do everything there.
async fn team<'a>(
    control_plane: &'a ControlPlane,
    prefix: &str,
    class: Option<&str>,
) -> TestNamespace<'a> {
    let namespace = control_plane.namespace(prefix).await;
    if class.is_some() {
        set_class(&namespace, class);
    }
    namespace.allow_all("plugin").await;
    namespace
        .drop_in(&DropIn::new("touch", guest("fixture-touch-v1")))
        .await;
    namespace
}

#[tokio::test]
async fn namespace_moves_between_classes_without_two_hosts_at_once() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let other = host(&control_plane, None).await;
    let of_a = host(&control_plane, Some("a")).await;

    // Each class runs its own namespaces.
    let plain = team(&control_plane, "plain", None).await;
    let moving = team(&control_plane, "moving", Some("a")).await;
    until_run_by(&plain, "touch", WITHOUT_CLASS).await;
    until_run_by(&moving, "touch", CLASS_A).await;

    let leases = control_plane.kubectl(&["get", "leases", "-n", "operetta-system", "-o", "name"]);
    let of_class = |line: &&str| line.starts_with("lease.coordination.k8s.io/operetta.a");
    assert_eq!(leases.lines().filter(of_class).count(), 2, "{leases}");

    // There and back again, with work for whoever runs the plugin.
    let touch = async |round: usize| {
        for number in 0..5 {
            let name = format!("target-{round}-{number}");
            moving.create_touchable(&name).await;
            moving.until_touched(&name, "v1").await;
        }
    };
    touch(0).await;
    for (round, class) in [(1, None), (2, Some("a"))] {
        set_class(&moving, class);
        // These wait for nobody: they come while the namespace moves.
        touch(round).await;
        let group = class.map_or(WITHOUT_CLASS, |_| CLASS_A);
        until_run_by(&moving, "touch", group).await;
        touch(round + 10).await;
    }

    // Each write carries the epoch of its host. Had two hosts acted at once, the epochs would
    // alternate.
    let audit = control_plane.audit();
    let mut epochs: Vec<String> = audit
        .writes_in(moving.name())
        .filter_map(|event| {
            let extra = &event.impersonated_user.extra;
            extra.get("operetta.dev/epoch")?.first().cloned()
        })
        .collect();
    epochs.dedup();
    let is_of_a: Vec<bool> = epochs.iter().map(|epoch| epoch.starts_with("a/")).collect();
    assert_eq!(is_of_a, [true, false, true], "{epochs:?}");

    // Nobody reported a host that was only waiting for the other one to stop.
    let events = moving.list(kinds::EVENT).await;
    let is_reported = |event: &Value| event["reason"] == "OtherInstallation";
    assert!(!events.iter().any(is_reported), "{events:?}");
    other.assert_sound();
    of_a.assert_sound();
}

#[tokio::test]
async fn namespace_of_a_class_without_hosts_says_so() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let other = host(&control_plane, None).await;
    let namespace = control_plane.namespace("unserved").await;
    set_class(&namespace, Some("a"));
    namespace.allow_all("plugin").await;
    namespace.create_touchable("target").await;

    let code = DropIn::new("touch", guest("fixture-touch-v1")).code();
    namespace.create_object(kinds::CONFIG_MAP, code).await;
    let spec = json!({"source": {"configMap": {"name": "touch"}}, "serviceAccountName": "plugin"});
    namespace
        .create_object(
            kinds::PLUGIN,
            json!({"metadata": {"name": "touch"}, "spec": spec}),
        )
        .await;
    namespace
        .until_degraded(
            "touch",
            "ClassNotServed",
            &["operetta.dev/class=a", "operetta install --class a"],
        )
        .await;

    // A host of the class takes the Plugin over.
    let of_a = host(&control_plane, Some("a")).await;
    until_run_by(&namespace, "touch", CLASS_A).await;
    namespace.until_touched("target", "v1").await;

    // Once it is uninstalled, nobody runs the Plugin, and the other host says why.
    of_a.stop();
    namespace
        .until_degraded("touch", "ClassNotServed", &["operetta install --class a"])
        .await;
    namespace.create_touchable("later").await;
    let is_untouched = namespace
        .get(kinds::CONFIG_MAP, "later")
        .await
        .expect("an object");
    assert_eq!(is_untouched["data"]["touched"], Value::Null);

    // Without the label, it is the other host's.
    set_class(&namespace, None);
    until_run_by(&namespace, "touch", WITHOUT_CLASS).await;
    namespace.until_touched("later", "v1").await;
    other.assert_sound();
}
