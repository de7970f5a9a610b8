//! Installs, upgrades and uninstalls on a real API server. Its Pods are simulated; the host runs
//! beside it.

use std::{collections::BTreeSet, fs, path::Path};

use operetta_testkit::{ControlPlane, DropIn, Kind, TestNamespace, eventually, guest, kinds};

use crate::{
    pod::Pod,
    render::{CHART, REPOSITORY, helm},
};

/// The namespace of an installation.
pub const NAMESPACE: &str = "operetta-system";

/// Starts a control plane whose Pods are simulated.
pub fn control_plane() -> ControlPlane {
    let started = ControlPlane::start(&["controllers", "scheduler", "kwok"]);
    started.unwrap_or_else(|error| panic!("{error}"))
}

/// Runs kubectl on the files of the repository.
fn kubectl_in_repository(control_plane: &ControlPlane, line: &str) -> String {
    let line = format!("kubectl {line}");
    let mut shell = operetta_testkit::shell(&[], control_plane.kubeconfig(), &line);
    let output = shell.current_dir(REPOSITORY).output().expect("bash runs");

    assert!(
        output.status.success(),
        "{line}: {}",
        String::from_utf8_lossy(&output.stderr)
    );

    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Starts a Pod, and waits until its probes succeed.
pub async fn ready_pod(control_plane: &ControlPlane, name: &str) -> Pod {
    let pod = Pod::start(control_plane, NAMESPACE, name).await;
    eventually("the probes succeed", async || pod.probe().await).await;
    pod
}

/// Drops a plugin into a new namespace, grants its ServiceAccount, and waits until it works.
pub async fn working_plugin<'a>(control_plane: &'a ControlPlane, pod: &Pod) -> TestNamespace<'a> {
    let team = control_plane.namespace("team").await;
    team.allow_all("plugin").await;
    team.create_touchable("target").await;
    team.drop_in(&DropIn::new("touch", guest("fixture-touch-v1")))
        .await;
    team.until_degraded("touch", "HostForbidden", &["operetta grant plugin"])
        .await;

    pod.host.grant(team.name(), &["plugin"]);
    team.until_touched("target", "v1").await;
    team.until_condition("touch", "Ready", "True", "Running")
        .await;

    team
}

/// Runs the sample-controller of the examples in a namespace of [`working_plugin`], and removes it.
pub async fn drives_sample_controller(team: &TestNamespace<'_>, pod: &Pod) {
    const FOO: Kind = Kind("samplecontroller.k8s.io/v1alpha1", "Foo");
    let control_plane = team.control_plane();
    let crd = "examples/sample-controller/crd.yaml";
    kubectl_in_repository(control_plane, &format!("apply -f {crd}"));

    // A grant names the kinds that there are.
    pod.host.grant(team.name(), &["plugin"]);
    team.drop_in(&DropIn::compressed("sample", &guest("sample-controller")))
        .await;
    team.until_condition("sample", "Ready", "True", "Running")
        .await;

    let object = format!(
        "apply -n {} -f examples/sample-controller/object.yaml",
        team.name()
    );
    kubectl_in_repository(control_plane, &object);

    team.until(
        FOO,
        "example-foo",
        |found| match found["status"]["availableReplicas"].as_i64() {
            Some(2) => Ok(()),
            _ => Err(found["status"].to_string()),
        },
    )
    .await;

    let scale = [
        "scale",
        "deployment",
        "example-foo",
        "--replicas=5",
        "-n",
        team.name(),
    ];
    control_plane.kubectl(&scale);

    team.until(
        kinds::DEPLOYMENT,
        "example-foo",
        |deployment| match deployment["spec"]["replicas"].as_i64() {
            Some(2) => Ok(()),
            _ => Err(deployment["spec"].to_string()),
        },
    )
    .await;

    team.delete(FOO, "example-foo").await;
    team.until_gone(kinds::DEPLOYMENT, "example-foo").await;
    team.delete(kinds::CONFIG_MAP, "sample").await;
    team.until_gone(kinds::PLUGIN, "sample").await;
    kubectl_in_repository(control_plane, &format!("delete -f {crd}"));
}

#[tokio::test]
async fn kustomize_base_runs_plugins_on_two_pods() {
    let control_plane = control_plane();
    let applied = kubectl_in_repository(
        &control_plane,
        "apply --server-side --validate=strict -k deploy/base",
    );
    assert!(
        applied.contains("deployment.apps/operetta serverside-applied"),
        "{applied}"
    );

    // The namespace enforces the restricted Pod Security Standard, so Pods exist only if they meet
    // it.
    let status = [
        "rollout",
        "status",
        "deployment/operetta",
        "-n",
        NAMESPACE,
        "--timeout=90s",
    ];
    control_plane.kubectl(&status);

    kubectl_in_repository(
        &control_plane,
        "apply --server-side --dry-run=server -k deploy/overlays/unrestricted",
    );
    kubectl_in_repository(
        &control_plane,
        "apply --server-side --dry-run=server -k deploy/overlays/single",
    );

    let first = ready_pod(&control_plane, "first").await;
    let team = working_plugin(&control_plane, &first).await;
    drives_sample_controller(&team, &first).await;
    let second = ready_pod(&control_plane, "second").await;
    eventually("the second Pod is a member, too", async || {
        second.host.get("/readyz")
    })
    .await;

    first.host.stop();
    team.create_touchable("other").await;
    team.until_touched("other", "v1").await;
    second.host.stop();

    kubectl_in_repository(&control_plane, "delete -k deploy/base --timeout=120s");
    let left =
        control_plane.kubectl(&["get", "namespaces,customresourcedefinitions", "-o", "name"]);
    assert!(!left.contains("operetta"), "{left}");
}

/// Returns all objects that are not part of Kubernetes or of the namespace of a test, as `KIND
/// NAMESPACE NAME`.
pub fn objects(control_plane: &ControlPlane) -> BTreeSet<String> {
    let resources = control_plane.kubectl(&["api-resources", "--verbs=list,delete", "-o", "name"]);

    // Events expire. An APIService belongs to its CustomResourceDefinition.
    let ignored = [
        "events",
        "events.events.k8s.io",
        "apiservices.apiregistration.k8s.io",
    ];
    let resources: Vec<&str> = resources
        .lines()
        .filter(|name| !ignored.contains(name))
        .collect();

    let columns = "-o=custom-columns=KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name";
    let list = control_plane.kubectl(&["get", &resources.join(","), "-A", "--no-headers", columns]);
    let words = |line: &str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };

    let lines = list
        .lines()
        .map(words)
        .filter(|line| match line.as_slice() {
            [kind, _, name] if kind == "Namespace" => !name.starts_with("team-"),
            [_, namespace, _] => !namespace.starts_with("kube-") && !namespace.starts_with("team-"),
            _ => false,
        });
    lines.map(|line| line.join(" ")).collect()
}

/// Returns the section of docs/install.md with a heading.
fn section(heading: &str) -> String {
    let page =
        fs::read_to_string(Path::new(REPOSITORY).join("docs/install.md")).expect("docs/install.md");
    let (_, rest) = page
        .split_once(&format!("\n## {heading}\n"))
        .unwrap_or_else(|| panic!("no section {heading}"));
    rest.split("\n## ").next().unwrap_or_default().to_owned()
}

/// Waits until only objects are left that the docs list for an uninstallation, and returns them.
pub async fn assert_documented(
    control_plane: &ControlPlane,
    before: &BTreeSet<String>,
) -> BTreeSet<String> {
    let section = section("Uninstall");
    eventually("only documented objects are left", async || {
        let left: BTreeSet<_> = objects(control_plane).difference(before).cloned().collect();
        let is_documented = |line: &&String| {
            let words: Vec<&str> = line.split(' ').collect();
            section.contains(&format!("`{} {}`", words[0], words[words.len() - 1]))
        };
        let other: Vec<_> = left.iter().filter(|line| !is_documented(line)).collect();
        if other.is_empty() {
            Ok(left)
        } else {
            Err(format!("{other:?}"))
        }
    })
    .await
}

#[tokio::test]
async fn uninstalled_chart_leaves_only_what_the_docs_list() {
    let control_plane = control_plane();
    let kubeconfig = control_plane.kubeconfig();
    let before = objects(&control_plane);

    let wait = ["-n", NAMESPACE, "--wait", "--timeout=120s"];
    let notes = helm(
        Some(kubeconfig),
        &[
            &["install", "operetta", CHART, "--create-namespace"],
            &wait[..],
        ]
        .concat(),
    );

    assert!(
        notes.contains("kubectl label namespace operetta-system pod-security"),
        "{notes}"
    );

    control_plane.kubectl(&[
        "label",
        "namespace",
        NAMESPACE,
        "pod-security.kubernetes.io/enforce=restricted",
    ]);

    let pod = ready_pod(&control_plane, "first").await;
    let team = working_plugin(&control_plane, &pod).await;
    drives_sample_controller(&team, &pod).await;
    let set = [
        "--set",
        "manager.replicas=3,manager.config.shutdownSeconds=10",
    ];

    helm(
        Some(kubeconfig),
        &[&["upgrade", "operetta", CHART], &set[..], &wait[..]].concat(),
    );

    pod.host.stop();
    let pod = ready_pod(&control_plane, "upgraded").await;
    team.create_touchable("other").await;
    team.until_touched("other", "v1").await;
    pod.host.stop();

    helm(
        Some(kubeconfig),
        &[&["uninstall", "operetta"], &wait[..]].concat(),
    );
    let left = assert_documented(&control_plane, &before).await;
    assert!(
        left.contains("CustomResourceDefinition <none> plugins.operetta.dev"),
        "{left:?}"
    );
    assert!(left.contains("Lease operetta-system operetta"), "{left:?}");

    let kept = team.kubectl(&["get", "plugins,roles", "-o", "name"]);
    assert!(
        kept.contains("plugin.operetta.dev/touch") && kept.contains("operetta-host:"),
        "{kept}"
    );
}

#[tokio::test]
async fn release_of_a_class_stands_beside_the_one_without() {
    let control_plane =
        ControlPlane::start(&["controllers"]).unwrap_or_else(|error| panic!("{error}"));
    let release = |verb: &[&str], name: &str, set: &str| {
        let options = [name, CHART, "-n", NAMESPACE, "--set", set];
        helm(Some(control_plane.kubeconfig()), &[verb, &options].concat())
    };
    let uninstall = |name: &str| {
        let args = ["uninstall", name, "-n", NAMESPACE, "--wait"];
        helm(Some(control_plane.kubeconfig()), &args)
    };
    let role_is_of = || {
        control_plane.kubectl(&[
            "get",
            "clusterrole",
            "operetta-unrestricted",
            "-o",
            r"jsonpath={.metadata.annotations.meta\.helm\.sh/release-name}",
        ])
    };
    let deployments =
        || control_plane.kubectl(&["get", "deployments", "-n", NAMESPACE, "-o", "name"]);

    let [install, upgrade] = [&["install", "--create-namespace"][..], &["upgrade"]];
    let without = "unrestricted.enable=true";
    let strangers = "class=strangers,unrestricted.enable=true";
    release(install, "operetta", without);
    let notes = release(install, "strangers", strangers);
    assert!(
        notes.contains("deployment/operetta-strangers") && notes.contains("--host-class strangers"),
        "{notes}"
    );
    release(upgrade, "strangers", strangers);
    assert_eq!(role_is_of(), "operetta");
    assert_eq!(
        deployments(),
        "deployment.apps/operetta\ndeployment.apps/operetta-strangers\n"
    );

    uninstall("strangers");
    assert_eq!(role_is_of(), "operetta");
    assert_eq!(deployments(), "deployment.apps/operetta\n");
    uninstall("operetta");
    control_plane.kubectl(&["delete", "clusterrole", "operetta-unrestricted"]);

    // The class may come first, and gives the ClusterRole up without deleting it.
    release(install, "strangers", strangers);
    release(upgrade, "strangers", strangers);
    assert_eq!(role_is_of(), "strangers");
    release(&["install", "--take-ownership"], "operetta", without);
    release(upgrade, "strangers", strangers);
    assert_eq!(role_is_of(), "operetta");
    uninstall("strangers");
    assert_eq!(role_is_of(), "operetta");
}
