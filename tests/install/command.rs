//! `operetta install` and `operetta uninstall`.

use std::{
    collections::BTreeSet,
    path::Path,
    process::{Command, Output},
};

use operetta_testkit::eventually;
use serde_json::Value;

use crate::{
    cluster::{
        NAMESPACE, assert_documented, control_plane, drives_sample_controller, objects, ready_pod,
        working_plugin,
    },
    render::{self, comparable, helm_template, kustomize},
};

/// Runs the program.
fn operetta(kubeconfig: &Path, args: &[&str]) -> Output {
    let mut operetta = Command::new(operetta_testkit::program("operetta"));
    operetta
        .args(args)
        .env("KUBECONFIG", kubeconfig)
        .output()
        .expect("operetta runs")
}

/// Runs the program, and returns its standard output.
fn printed(kubeconfig: &Path, args: &[&str]) -> String {
    render::printed(
        &format!("operetta {}", args.join(" ")),
        &operetta(kubeconfig, args),
    )
}

#[test]
fn client_dry_run_renders_objects_of_kustomize() {
    for (folder, args) in [
        ("base", &[][..]),
        ("overlays/single", &["--replicas=1"]),
        ("overlays/unrestricted", &["--with=unrestricted"]),
        ("overlays/monitoring", &["--with=monitoring"]),
    ] {
        let command = [&["install", "--dry-run=client", "-o", "yaml"], args].concat();
        let rendered = render::objects(&printed(Path::new("/dev/null"), &command));
        let expected = kustomize(folder);
        assert_eq!(
            rendered.keys().collect::<Vec<_>>(),
            expected.keys().collect::<Vec<_>>(),
            "{folder}"
        );

        for (name, object) in &expected {
            let [of_command, of_kustomize] = [&rendered[name], object].map(whole_numbers);
            assert_eq!(
                of_command, of_kustomize,
                "{folder}: {name} of the command (left) and of kustomize (right)"
            );
        }
    }
}

#[test]
fn chart_renders_objects_of_a_class() {
    for (class, args, values) in [
        ("untrusted", &[][..], &[][..]),
        (
            "untrusted",
            &["--with=unrestricted"],
            &["--set", "unrestricted.enable=true"],
        ),
        // A name that YAML would read as a number.
        ("7", &[], &[]),
    ] {
        let install = [
            "install",
            "--class",
            class,
            "--dry-run=client",
            "-o",
            "yaml",
        ];
        let command = [&install[..], args].concat();
        let expected = render::objects(&printed(Path::new("/dev/null"), &command));
        let of_class = format!("class={class}");
        let set = [&["--set-string", &of_class][..], values].concat();
        let rendered = helm_template("operetta-system", &set);
        assert_eq!(
            rendered.keys().collect::<Vec<_>>(),
            expected.keys().collect::<Vec<_>>(),
            "{set:?}"
        );

        for (name, object) in &expected {
            let [of_chart, of_command] =
                [&rendered[name], object].map(|object| whole_numbers(&comparable(object)));
            assert_eq!(
                of_chart, of_command,
                "{set:?}: {name} of the chart (left) and of the command (right)"
            );
        }
    }
}

/// Returns a value in which 64.0 is written 64, as kustomize writes it.
fn whole_numbers(value: &Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 => (float as i64).into(),
            _ => value.clone(),
        },
        Value::Array(items) => items.iter().map(whole_numbers).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), whole_numbers(value)))
            .collect(),
        other => other.clone(),
    }
}

#[test]
fn image_and_output_are_chosen() {
    let args = [
        "install",
        "--dry-run=client",
        "-o",
        "json",
        "--image",
        "example.com/operetta@sha256:abc",
    ];

    let list: Value = serde_json::from_str(&printed(Path::new("/dev/null"), &args)).expect("JSON");
    let images: Vec<&Value> = list["items"]
        .as_array()
        .expect("items")
        .iter()
        .flat_map(pod_images)
        .collect();
    assert_eq!(images, ["example.com/operetta@sha256:abc"]);

    let output = operetta(Path::new("/dev/null"), &["install", "-o", "yaml"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && message.contains("--output needs --dry-run=client"),
        "{message}"
    );
}

/// Returns the images of an object's containers.
fn pod_images(object: &Value) -> impl Iterator<Item = &Value> {
    let containers = object
        .pointer("/spec/template/spec/containers")
        .and_then(Value::as_array);
    containers
        .into_iter()
        .flatten()
        .map(|container| &container["image"])
}

#[tokio::test]
async fn installed_host_runs_a_plugin_and_uninstalls() {
    let control_plane = control_plane();
    let kubeconfig = control_plane.kubeconfig();
    let before = objects(&control_plane);

    let checked = operetta(kubeconfig, &["install", "--dry-run=server"]);
    // As with kubectl, the API server refuses objects in a namespace that does not exist; it has
    // stored nothing.
    assert!(
        String::from_utf8_lossy(&checked.stderr).contains("operetta-system"),
        "{checked:?}"
    );
    assert_eq!(objects(&control_plane), before);

    let applied = printed(kubeconfig, &["install", "--wait", "--timeout=90s"]);
    assert!(
        applied.contains("deployment.apps/operetta serverside-applied"),
        "{applied}"
    );
    assert!(
        applied.ends_with("deployment.apps/operetta is available\n"),
        "{applied}"
    );

    let pod = ready_pod(&control_plane, "installed").await;
    let team = working_plugin(&control_plane, &pod).await;
    drives_sample_controller(&team, &pod).await;

    // An upgrade leaves alone what it does not change, and refuses to take over a field of somebody
    // else unless it is told to.
    control_plane.kubectl(&[
        "scale",
        "deployment/operetta",
        "-n",
        NAMESPACE,
        "--replicas=1",
    ]);

    let refused = operetta(kubeconfig, &["install"]);
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("conflict"),
        "{refused:?}"
    );
    printed(
        kubeconfig,
        &["install", "--force-conflicts", "--wait", "--timeout=90s"],
    );

    pod.host.stop();

    let said = printed(kubeconfig, &["uninstall"]);
    for wanted in [
        "deployment.apps/operetta deleted",
        "namespace/operetta-system deleted",
        "plugins.operetta.dev and its Plugins (1)",
        "roles and bindings of grants",
        "the label operetta.dev/plugins of namespaces (1)",
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }

    let expected =
        BTreeSet::from(["CustomResourceDefinition <none> plugins.operetta.dev".to_owned()]);
    eventually("only the CustomResourceDefinition is left", async || {
        let left: BTreeSet<_> = objects(&control_plane)
            .difference(&before)
            .cloned()
            .collect();
        if left == expected {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    })
    .await;

    assert_documented(&control_plane, &before).await;
    assert!(
        team.kubectl(&["get", "plugins", "-o", "name"])
            .contains("plugin.operetta.dev/touch")
    );

    let said = printed(kubeconfig, &["uninstall", "--delete-plugins"]);
    assert!(
        said.contains("customresourcedefinition.apiextensions.k8s.io/plugins.operetta.dev deleted"),
        "{said}"
    );
}
