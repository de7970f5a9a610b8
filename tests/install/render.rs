//! Renders the manifests, with kubectl's kustomize and with Helm.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use operetta_testkit::{shell, tool_path};
use serde::Deserialize;
use serde_json::{Value, json};

/// The repository, relative to the folder in which cargo runs tests.
pub const REPOSITORY: &str = "..";

/// The chart, relative to the repository.
pub const CHART: &str = "deploy/chart/operetta";

/// The labels that only a chart's objects have.
const OF_HELM: [&str; 3] = [
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "helm.sh/chart",
];

/// Objects by kind, namespace and name, written like `Service operetta-system/operetta`.
pub type Objects = BTreeMap<String, Value>;

/// Renders a kustomization below `deploy/`.
pub fn kustomize(folder: &str) -> Objects {
    let line = format!("kubectl kustomize deploy/{folder}");
    let output = shell(&[], Path::new("/dev/null"), &line)
        .current_dir(REPOSITORY)
        .output()
        .expect("bash runs");
    objects(&printed(&line, &output))
}

/// Renders the chart for a namespace, with further arguments of `helm template`.
pub fn helm_template(namespace: &str, args: &[&str]) -> Objects {
    objects(&helm_template_text(namespace, args))
}

/// Renders the chart as [`helm_template`] does, and returns the YAML.
pub fn helm_template_text(namespace: &str, args: &[&str]) -> String {
    helm(
        None,
        &[&["template", "operetta", CHART, "-n", namespace], args].concat(),
    )
}

/// Runs Helm and returns its standard output.
pub fn helm(kubeconfig: Option<&Path>, args: &[&str]) -> String {
    printed(
        &format!("helm {}", args.join(" ")),
        &helm_output(kubeconfig, args),
    )
}

/// Runs Helm in the repository, without the user's own settings, and returns its output even if it
/// fails.
pub fn helm_output(kubeconfig: Option<&Path>, args: &[&str]) -> Output {
    let home = tempfile::tempdir().expect("a folder");
    let mut helm = Command::new(tool_path("helm").canonicalize().expect("a path"));

    for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        helm.env(variable, home.path());
    }

    helm.env("KUBECONFIG", kubeconfig.unwrap_or(Path::new("/dev/null")));
    helm.args(args)
        .current_dir(REPOSITORY)
        .stdin(Stdio::null())
        .output()
        .expect("helm runs")
}

/// Reads a YAML file of the repository.
pub fn yaml(path: &str) -> Value {
    let text = fs::read_to_string(Path::new(REPOSITORY).join(path))
        .unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_yaml_ng::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns an object without what only charts have, and with the host's configuration as an object.
pub fn comparable(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(labels) = object["metadata"]["labels"].as_object_mut() {
        labels.retain(|name, _| !OF_HELM.contains(&name.as_str()));
    }

    for (path, annotation) in [
        ("/metadata", "helm.sh/resource-policy"),
        ("/spec/template/metadata", "checksum/config"),
    ] {
        let Some(metadata) = object.pointer_mut(path).and_then(Value::as_object_mut) else {
            continue;
        };

        let Some(annotations) = metadata
            .get_mut("annotations")
            .and_then(Value::as_object_mut)
        else {
            continue;
        };

        annotations.remove(annotation);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }

    if let Some(text) = object["data"]["config.yaml"].as_str() {
        let config: Value = serde_yaml_ng::from_str(text).expect("YAML");
        object["data"] = json!({"config.yaml": config});
    }

    object
}

/// Reads YAML documents.
pub fn objects(text: &str) -> Objects {
    let documents = serde_yaml_ng::Deserializer::from_str(text);
    let documents = documents.map(|document| Option::<Value>::deserialize(document).expect("YAML"));
    let named = documents.flatten().map(|object| (name(&object), object));

    let mut objects = Objects::new();
    for (name, object) in named {
        assert!(
            objects.insert(name.clone(), object).is_none(),
            "{name} is there twice"
        );
    }

    objects
}

fn name(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let namespace = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/"),
        None => String::new(),
    };

    format!(
        "{} {namespace}{}",
        text(&object["kind"]),
        text(&object["metadata"]["name"])
    )
}

/// Returns the standard output of a command that succeeded.
pub fn printed(command: &str, output: &Output) -> String {
    assert!(
        output.status.success(),
        "{command}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
