//! The definitions and samples of other projects, from their Go modules.
//!
//! They all have the Apache License 2.0. Modules are downloaded by version, and their contents are
//! checked against a hash.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use serde::Deserialize as _;
use serde_json::Value;

/// A project's Go module, the hash of its contents, and the folders of its definitions and samples.
struct Module {
    name: &'static str,
    hash: &'static str,
    definitions: &'static [&'static str],
    samples: &'static [&'static str],
}

const MODULES: [Module; 6] = [
    Module {
        name: "github.com/cert-manager/cert-manager@v1.21.2",
        hash: "h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68=",
        definitions: &["deploy/crds"],
        samples: &["test/fixtures"],
    },
    Module {
        name: "sigs.k8s.io/gateway-api@v1.4.0",
        hash: "h1:ZwlNM6zOHq0h3WUX2gfByPs2yAEsy/EenYJB78jpQfQ=",
        definitions: &["config/crd/experimental"],
        samples: &["examples", "hack/invalid-examples"],
    },
    Module {
        name: "github.com/argoproj/argo-cd/v3@v3.1.0",
        hash: "h1:2+gPskQKCyPC9DzRSWQ1AvmS3WiIlRR7bKz/FO3DozI=",
        definitions: &["manifests/crds"],
        samples: &["applicationset/examples", "docs"],
    },
    Module {
        name: "github.com/argoproj/argo-rollouts@v1.8.3",
        hash: "h1:blbtQva4IK9r6gFh+dWkCrLnFdPOWiv9ubQYu36qeaA=",
        definitions: &["manifests/crds"],
        samples: &["examples"],
    },
    Module {
        name: "github.com/argoproj/argo-workflows/v3@v3.7.2",
        hash: "h1:Fi6j0q2sCg6cfkntKde5KA+TfJgMrq1MzJCmOESlWNw=",
        definitions: &["manifests/base/crds/full"],
        samples: &["examples"],
    },
    Module {
        name: "sigs.k8s.io/cluster-api@v1.14.2",
        hash: "h1:o3GFNaeNFAOEEMpDPfhCK+2CjmV6gtQ8yLEcUwCg7bA=",
        definitions: &[
            "core/config/crd/bases",
            "bootstrap/kubeadm/config/crd/bases",
            "controlplane/kubeadm/config/crd/bases",
            "cmd/clusterctl/config/crd/bases",
        ],
        samples: &[],
    },
];

/// A project's definitions by name, and its samples by API version and kind.
pub struct Project {
    pub definitions: BTreeMap<String, Value>,
    pub samples: BTreeMap<(String, String), Vec<Value>>,
}

pub fn projects() -> impl Iterator<Item = Project> {
    MODULES.iter().map(read)
}

fn read(module: &Module) -> Project {
    let root = download(module);

    let documents = |folders: &[&str]| {
        folders
            .iter()
            .flat_map(|folder| documents(&root.join(folder)))
            .collect::<Vec<_>>()
    };

    let is_definition =
        |object: &Value| object["kind"] == "CustomResourceDefinition" && object["spec"].is_object();
    let name = |object: &Value| {
        object["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };

    let definitions: BTreeMap<String, Value> = documents(module.definitions)
        .into_iter()
        .filter(is_definition)
        .map(|definition| (name(&definition), definition))
        .collect();

    let mut samples: BTreeMap<(String, String), Vec<Value>> = BTreeMap::new();
    for object in documents(module.samples) {
        if let (Some(version), Some(kind)) =
            (object["apiVersion"].as_str(), object["kind"].as_str())
        {
            samples
                .entry((version.into(), kind.into()))
                .or_default()
                .push(object);
        }
    }

    Project {
        definitions,
        samples,
    }
}

/// Downloads a module, and returns its folder.
fn download(module: &Module) -> PathBuf {
    let mut go = Command::new("go");
    let found = go
        .args(["mod", "download", "-json", module.name])
        .current_dir("/")
        .env("GOWORK", "off")
        .output();

    let answer: Value = serde_json::from_slice(&found.expect("go runs").stdout)
        .expect("an answer of go mod download");
    assert_eq!(
        answer["Sum"], module.hash,
        "{} has other contents: {}",
        module.name, answer["Error"]
    );

    PathBuf::from(answer["Dir"].as_str().expect("a folder"))
}

/// The objects in a folder's YAML files, in the order of their paths. Templates are not valid YAML
/// and end a file early.
fn documents(folder: &Path) -> Vec<Value> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };

    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();

    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            found.extend(documents(&path));
        } else if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let parse = serde_yaml_ng::Deserializer::from_str(&text).map(Value::deserialize);
            found.extend(parse.map_while(Result::ok).filter(Value::is_object));
        }
    }

    found
}
