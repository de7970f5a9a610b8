//! The installation: `deploy/base` with its overlays, and the Helm chart `deploy/chart/operetta`.
//! Both must render the same objects, as must `operetta install`; a real API server must take them,
//! and the image must run as their Deployment says.

mod cgroup;
mod cluster;
mod command;
mod image;
mod pod;
mod render;
mod template;
mod values;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::render::{Objects, comparable, helm_output, helm_template, kustomize};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the names of the objects that the first set has and the second lacks.
fn missing(one: &Objects, other: &Objects) -> BTreeSet<String> {
    one.keys()
        .filter(|name| !other.contains_key(*name))
        .cloned()
        .collect()
}

#[test]
fn chart_renders_objects_of_kustomize() {
    for (folder, values) in [
        ("base", None),
        ("overlays/single", Some("manager.replicas=1")),
        ("overlays/unrestricted", Some("unrestricted.enable=true")),
        ("overlays/monitoring", Some("prometheus.enable=true")),
    ] {
        let mut expected = kustomize(folder);
        // Helm creates the namespace, with --create-namespace.
        expected
            .remove("Namespace operetta-system")
            .expect("a namespace");
        let set: Vec<&str> = values
            .into_iter()
            .flat_map(|values| ["--set", values])
            .collect();

        let rendered = helm_template("operetta-system", &set);
        assert_eq!(
            missing(&expected, &rendered),
            BTreeSet::new(),
            "{folder}: only in kustomize"
        );
        assert_eq!(
            missing(&rendered, &expected),
            BTreeSet::new(),
            "{folder}: only in the chart"
        );

        for (name, object) in &expected {
            let of_chart = comparable(&rendered[name]);
            let of_kustomize = comparable(object);
            assert_eq!(
                of_chart, of_kustomize,
                "{folder}: {name} of the chart (left) and of kustomize (right)"
            );
        }
    }
}

#[test]
fn overlays_change_only_what_they_name() {
    let base = kustomize("base");
    let deployment = "Deployment operetta-system/operetta";
    let mut single = kustomize("overlays/single");
    assert_eq!(single[deployment]["spec"]["replicas"], 1);
    single.get_mut(deployment).expect("a Deployment")["spec"]["replicas"] = json!(2);
    assert_eq!(single, base);

    let unrestricted = [
        "ClusterRole operetta-unrestricted",
        "ClusterRoleBinding operetta-unrestricted",
        "ClusterRoleBinding operetta-teardown",
        "ValidatingAdmissionPolicy epochs.operetta.dev",
        "ValidatingAdmissionPolicyBinding epochs.operetta.dev",
    ];

    for (overlay, added) in [
        ("unrestricted", &unrestricted[..]),
        ("monitoring", &["ServiceMonitor operetta-system/operetta"]),
    ] {
        let mut objects = kustomize(&format!("overlays/{overlay}"));
        for name in added {
            assert!(objects.remove(*name).is_some(), "{overlay}: {name}");
        }
        assert_eq!(objects, base, "{overlay}");
    }
}

#[test]
fn versions_are_that_of_the_program() {
    let chart: Value = render::yaml("deploy/chart/operetta/Chart.yaml");
    assert_eq!(
        (&chart["version"], &chart["appVersion"]),
        (&json!(VERSION), &json!(VERSION))
    );

    let deployment = &kustomize("base")["Deployment operetta-system/operetta"];
    let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, &json!(format!("operetta:{VERSION}")));
}

#[test]
fn chart_refuses_invalid_values() {
    for (values, wanted) in [
        ("manager.replica=3", "replica"),
        ("manager.replicas=-1", "minimum"),
        ("manager.image.pullPolicy=Sometimes", "pullPolicy"),
        ("manager.config.cacheDir=/tmp", "cacheDir"),
        ("crd.enabled=true", "enabled"),
        (
            "prometheus.enable=true,metrics.enable=false",
            "prometheus.enable needs metrics.enable",
        ),
        ("class=Un_trusted", "class"),
        (
            "class=a,manager.config.class=a",
            "set the value class instead",
        ),
        ("class=a,prometheus.enable=true", "without a class"),
        ("class=a,rbacHelpers.enable=true", "without a class"),
    ] {
        let output = helm_output(
            None,
            &["template", "operetta", render::CHART, "--set", values],
        );

        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && message.contains(wanted),
            "{values}: {message}"
        );
    }

    let output = helm_output(None, &["lint", "--strict", render::CHART]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn crd_stays_unless_values_say_otherwise() {
    let name = "CustomResourceDefinition plugins.operetta.dev";
    let annotations = |set: &str| {
        helm_template("operetta-system", &["--set", set])[name]["metadata"]["annotations"].clone()
    };

    assert_eq!(
        annotations("crd.keep=true"),
        json!({"helm.sh/resource-policy": "keep"})
    );
    assert_eq!(annotations("crd.keep=false"), Value::Null);
}
