//! `operetta adopt` on an operator in the shape of a kubebuilder project: its kustomization, its
//! chart and plain YAML.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use operetta_testkit::{ControlPlane, Kind, shell};
use serde_json::{Value, json};

use crate::{caches, repository, succeeded};

fn operator() -> PathBuf {
    repository().join("tests/guests/adopted-operator")
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(operetta_testkit::program("operetta"));
    command
        .arg("adopt")
        .args(args)
        .current_dir(operator())
        .envs(caches())
        .env("GOTOOLCHAIN", "local");
    command
}

fn run(args: &[&str]) -> Output {
    command(args).output().expect("starts")
}

/// Runs it, and returns stdout and stderr.
fn adopted(args: &[&str]) -> (String, String) {
    let output = run(args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (succeeded("operetta adopt", &output), said)
}

fn error(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn objects(text: &str) -> Vec<Value> {
    text.split("\n---\n")
        .map(|document| serde_yaml_ng::from_str(document).expect("YAML"))
        .collect()
}

fn one<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    let mut found = objects.iter().filter(|object| object["kind"] == kind);
    let one = found.next().unwrap_or_else(|| panic!("no {kind}"));
    assert!(found.next().is_none(), "several of {kind}");
    one
}

/// Asserts that a line of the report begins with the first of these parts and contains all others.
#[track_caller]
fn assert_reported(report: &str, parts: &[&str]) {
    let found = report.lines().any(|line| {
        line.trim_start().starts_with(parts[0]) && parts.iter().all(|part| line.contains(part))
    });
    assert!(found, "no line has {parts:?}:\n{report}");
}

#[test]
fn kustomization_is_printed_with_a_plugin_in_the_place_of_the_deployment() {
    let (text, said) = adopted(&["--no-build"]);
    assert_eq!(adopted(&["--no-build"]).0, text, "the output differs");

    let all = objects(&text);
    let kinds: Vec<_> = all
        .iter()
        .filter_map(|object| object["kind"].as_str())
        .collect();
    assert_eq!(
        kinds,
        [
            "Namespace",
            "CustomResourceDefinition",
            "ServiceAccount",
            "ClusterRole",
            "ClusterRoleBinding",
            "ConfigMap",
            "Service",
            "Plugin",
        ]
    );
    // As kustomize has written it, and with quotes where YAML 1.1 needs them.
    assert!(text.contains("value: \"on\"\n"), "{text}");
    assert!(
        text.contains("- \"on\"\n") && text.contains("- \"1e3\"\n"),
        "{text}"
    );

    let plugin = one(&all, "Plugin");
    assert_eq!(plugin["metadata"]["name"], "adopted-controller-manager");
    assert_eq!(plugin["metadata"]["namespace"], "adopted-system");
    let mut spec = plugin["spec"].clone();
    // kustomize has found the name of the ConfigMap in the volume.
    assert_eq!(
        spec["process"]["volumes"],
        json!([{"name": "settings", "configMap": {"name": "adopted-settings"}}])
    );
    spec["process"]["volumes"] = Value::Null;
    assert_eq!(
        spec,
        json!({
            "source": {"path": "adopted-controller-manager.wasm"},
            "serviceAccountName": "adopted-controller-manager",
            "limits": {"memory": "128Mi"},
            "process": {
                "args": ["--leader-elect", "--namespace=$(POD_NAMESPACE)"],
                "env": [
                    {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                    {"name": "MODE", "value": "on"},
                ],
                "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8081}},
                "terminationGracePeriodSeconds": 10,
                "volumes": null,
                "volumeMounts": [{"name": "settings", "mountPath": "/etc/adopted", "readOnly": true}],
            },
        })
    );

    let annotations = &one(&all, "ServiceAccount")["metadata"]["annotations"];
    assert_eq!(
        annotations["operetta.dev/allow-plugins"],
        "adopted-controller-manager"
    );
    let labels = &one(&all, "Namespace")["metadata"]["labels"];
    assert_eq!(labels["operetta.dev/plugins"], "enabled");

    assert_reported(
        &said,
        &[
            "not yet",
            "network",
            "internal/probe/probe.go:11",
            "http.Get",
        ],
    );
    assert_reported(
        &said,
        &["no ", "subprocesses", "internal/probe/probe.go:13"],
    );
    assert_reported(
        &said,
        &[
            "works",
            "files",
            "cmd/main.go:15",
            "/etc/adopted/settings.yaml",
        ],
    );
    assert_reported(
        &said,
        &["no ", "files", "cmd/main.go:18", "/var/lib/adopted/state"],
    );
    assert_reported(&said, &["works", "containers[kube-rbac-proxy]"]);
    assert_reported(&said, &["not yet", "Service/adopted-webhook-service"]);
    assert_reported(
        &said,
        &["operetta grant adopted-controller-manager -n adopted-system"],
    );
}

/// Nobody serves the webhooks of a process: applied, those of the operator would block the writes that
/// they guard.
#[test]
fn webhooks_that_would_block_writes_are_left_out_unless_asked_for() {
    const NAME: &str = "ValidatingWebhookConfiguration/adopted-validating";

    let (text, said) = adopted(&["--no-build"]);
    assert!(!text.contains("kind: ValidatingWebhook"), "{text}");
    assert_reported(
        &said,
        &["not yet", NAME, "is left out", "--with-webhooks prints it"],
    );
    let delete =
        "kubectl delete --ignore-not-found validatingwebhookconfiguration/adopted-validating";
    let at = |part: &str| {
        said.find(part)
            .unwrap_or_else(|| panic!("{part} not in\n{said}"))
    };
    assert!(at(delete) < at("kubectl delete --ignore-not-found deployment/"));

    let (text, said) = adopted(&["--no-build", "--with-webhooks"]);
    let all = objects(&text);
    let webhooks = one(&all, "ValidatingWebhookConfiguration");
    assert_eq!(webhooks["webhooks"][0]["failurePolicy"], "Fail");
    assert_reported(
        &said,
        &[
            "not yet",
            NAME,
            "Fail (1) refuse every write of their kinds",
        ],
    );
    assert!(!said.contains(delete), "{said}");

    let (report, _) = adopted(&["--check"]);
    assert_reported(&report, &["not yet", NAME, "is left out"]);
}

#[test]
fn what_was_replaced_comes_back_from_the_printed_manifests() {
    let (text, _) = adopted(&["--no-build"]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("manifests.yaml");
    fs::write(&file, &text).expect("written");

    let (back, said) = adopted(&["--unadopt", &file.to_string_lossy()]);
    let back = objects(&back);
    let kinds: Vec<_> = back.iter().map(|object| &object["kind"]).collect();
    assert_eq!(kinds, ["Deployment", "ValidatingWebhookConfiguration"]);
    assert!(said.contains("ValidatingWebhookConfiguration/adopted-validating"));

    let (with_webhooks, _) = adopted(&["--no-build", "--with-webhooks"]);
    let printed = objects(&with_webhooks);
    assert_eq!(&back[1], one(&printed, "ValidatingWebhookConfiguration"));
    fs::write(&file, &with_webhooks).expect("written");
    let (alone, _) = adopted(&["--unadopt", &file.to_string_lossy()]);
    let alone: Value = serde_json::from_str(&alone).expect("the Deployment alone");
    assert_eq!(alone, back[0]);

    let deployment = &back[0];
    let containers = &deployment["spec"]["template"]["spec"]["containers"];
    assert_eq!(containers[0]["name"], "kube-rbac-proxy");
    assert_eq!(containers[1]["env"][1]["value"], "on");

    let said = error(&[
        "--unadopt",
        &operator()
            .join("config/manager/manager.yaml")
            .to_string_lossy(),
    ]);
    assert!(
        said.contains("manager.yaml has no Plugin with the annotation"),
        "{said}"
    );
}

/// Nobody converts between versions: as it stands, each read of another version than the stored one
/// would fail.
#[test]
fn conversion_by_webhook_is_left_out_and_comes_back() {
    const NAME: &str = "CustomResourceDefinition/farms.adopted.example.com";
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "farms.adopted.example.com"},
        "spec": {
            "group": "adopted.example.com",
            "names": {"kind": "Farm", "plural": "farms"},
            "scope": "Namespaced",
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": {"service": {"name": "webhook", "namespace": "ops", "path": "/convert"}},
            }},
            "versions": [
                {"name": "v1", "served": true, "storage": false},
                {"name": "v2", "served": true, "storage": true},
            ],
        },
    });
    let pod = json!({"serviceAccountName": "op", "containers": [{"name": "manager"}]});
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "op", "namespace": "ops"},
        "spec": {"template": {"spec": pod}},
    });
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("operator.yaml");
    fs::write(&file, format!("{definition}\n---\n{deployment}\n")).expect("written");
    let file = file.to_string_lossy();
    let adopt =
        |more: &[&str]| adopted(&[&["--no-build", "--manifests", &file][..], more].concat());

    let (text, said) = adopt(&[]);
    let all = objects(&text);
    let printed = &one(&all, "CustomResourceDefinition")["spec"];
    assert_eq!(printed["conversion"], json!({"strategy": "None"}));
    assert_eq!(printed["versions"], definition["spec"]["versions"]);
    assert_reported(&said, &["not yet", NAME, "spec.conversion", "use v2 only"]);

    let manifests = folder.path().join("manifests.yaml");
    fs::write(&manifests, &text).expect("written");
    let (back, said) = adopted(&["--unadopt", &manifests.to_string_lossy()]);
    let back = objects(&back);
    assert_eq!(back[0], deployment);
    assert_eq!(back[1]["metadata"], definition["metadata"]);
    assert_eq!(
        back[1]["spec"],
        json!({"conversion": definition["spec"]["conversion"]})
    );
    assert!(said.contains("without --server-side"), "{said}");

    let (text, said) = adopt(&["--with-webhooks"]);
    assert_eq!(
        one(&objects(&text), "CustomResourceDefinition"),
        &definition
    );
    assert_reported(&said, &["not yet", NAME, "as v2 only"]);
}

#[test]
fn chart_is_rendered_with_values_in_its_namespace() {
    let chart = ["--no-build", "--manifests", "dist/chart"];
    let with = |more: &[&str]| adopted(&[&chart[..], more].concat());

    let (text, said) = with(&[
        "-n",
        "ops",
        "--release",
        "r",
        "--set",
        "args={--a,--b=1},replicas=2",
    ]);
    let all = objects(&text);
    let plugin = one(&all, "Plugin");
    assert_eq!(plugin["metadata"]["name"], "r-manager");
    assert_eq!(
        plugin["spec"]["process"]["args"],
        json!(["--leader-elect", "--a", "--b=1"])
    );
    for kind in ["Plugin", "ServiceAccount"] {
        assert_eq!(one(&all, kind)["metadata"]["namespace"], "ops", "{kind}");
    }
    let binding = one(&all, "ClusterRoleBinding");
    assert_eq!(binding["metadata"]["namespace"], Value::Null);
    assert_eq!(binding["subjects"][0]["namespace"], "ops");

    assert_reported(&said, &["no ", "Job/r-certificates", "pre-install"]);
    assert_reported(&said, &["works", "replicas", "2 becomes one process"]);
    assert_reported(
        &said,
        &["kubectl label namespace ops operetta.dev/plugins=enabled"],
    );

    let (text, _) = with(&[]);
    assert_eq!(
        one(&objects(&text), "Plugin")["metadata"]["name"],
        "adopted-manager"
    );
    assert_eq!(
        one(&objects(&text), "Plugin")["metadata"]["namespace"],
        "default"
    );

    let said = error(&["--no-build", "--set", "a=b"]);
    assert!(said.contains("isn't a Helm chart"), "{said}");
}

#[test]
fn check_reports_and_prints_no_manifests() {
    let (report, _) = adopted(&["--check"]);
    assert_reported(&report, &["works", "packages", "example.com/adopted/cmd"]);
    assert_reported(&report, &["The manifests (config/default):"]);
    assert!(!report.contains("apiVersion"), "{report}");

    // What can't be converted is still reported.
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::write(&file, text).expect("written");
        file.to_string_lossy().into_owned()
    };
    let shell = write(
        "shell.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: op}\nspec: {template: {spec: {serviceAccountName: a, \
         containers: [{name: m, command: [sh, -c, x]}]}}}\n",
    );
    let (report, _) = adopted(&["--check", "--manifests", &shell]);
    assert_reported(
        &report,
        &["no ", "Deployment/op", "which isn't the operator"],
    );
    let said = error(&["--no-build", "--manifests", &shell]);
    assert!(said.contains("which isn't the operator"), "{said}");

    let none = write(
        "none.yaml",
        "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n",
    );
    let output = run(&["--check", "--manifests", &none]);
    assert_eq!(output.status.code(), Some(1));
    assert_reported(
        &String::from_utf8_lossy(&output.stdout),
        &["no ", "subprocesses"],
    );
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("no Deployment and no StatefulSet"),
        "{output:?}"
    );

    let remote = folder.path().join("remote");
    fs::create_dir(&remote).expect("a folder");
    fs::write(
        remote.join("kustomization.yaml"),
        "resources: [\"https://example.com/base\"]\n",
    )
    .expect("written");
    let said = error(&["--no-build", "--manifests", &remote.to_string_lossy()]);
    assert!(
        said.contains("includes https://example.com/base, which is remote"),
        "{said}"
    );
}

#[test]
fn component_is_built_and_pinned() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("out");
    let (printed, said) = adopted(&["-o", &output.to_string_lossy()]);
    assert_eq!(printed, "", "the manifests are in a file");
    assert!(said.contains("GOOS=wasip1"), "{said}");

    let component = fs::read(output.join("adopted-controller-manager.wasm")).expect("a component");
    let text = fs::read_to_string(output.join("manifests.yaml")).expect("manifests");
    let digest = operetta_wasm::digest(&component);
    assert_eq!(one(&objects(&text), "Plugin")["spec"]["digest"], *digest);
}

/// Applies what `operetta adopt` prints to a cluster, and takes the Deployment back from there.
#[tokio::test]
async fn cluster_takes_the_manifests_and_gives_the_deployment_back() {
    let host = crate::host().await;
    let control_plane = ControlPlane::shared().await;
    let namespace = control_plane.namespace("adopted").await;
    let run = |line: &str| {
        let mut command = shell(
            &[&operetta_testkit::program("operetta")],
            control_plane.kubeconfig(),
            line,
        );
        let output = command
            .current_dir(operator())
            .envs(caches())
            .output()
            .expect("bash starts");
        succeeded(line, &output)
    };

    let line = format!(
        "operetta adopt --no-build --manifests dist/chart -n {0} --release {0} | kubectl apply --server-side -f -",
        namespace.name()
    );
    run(&line);
    let name = format!("{}-manager", namespace.name());
    let plugin = namespace
        .get(Kind("operetta.dev/v1alpha1", "Plugin"), &name)
        .await
        .expect("the Plugin");
    assert_eq!(plugin["spec"]["process"]["args"], json!(["--leader-elect"]));

    let line = format!(
        "kubectl get plugin {name} -n {0} -o yaml | operetta adopt --unadopt - | kubectl apply --dry-run=server -o json -f -",
        namespace.name()
    );
    let deployment: Value = serde_json::from_str(&run(&line)).expect("JSON");
    assert_eq!(deployment["kind"], "Deployment");
    assert_eq!(deployment["metadata"]["namespace"], namespace.name());

    namespace
        .delete(Kind("operetta.dev/v1alpha1", "Plugin"), &name)
        .await;
    host.assert_sound();
}
