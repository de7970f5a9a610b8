//! The objects of an installation: the kustomizations of `deploy/`, which the program contains.
//!
//! Only the kustomize features that `deploy/` uses are supported: `resources`, `labels` and
//! `images`. Any other is an error, and the tests compare the objects with those of `kubectl
//! kustomize`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;

use crate::args::Component;

/// The files of `deploy/`: paths and texts.
mod files {
    include!(concat!(env!("OUT_DIR"), "/deploy.rs"));
}

/// A kustomization of `deploy/`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Kustomization {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    resources: Vec<String>,
    #[serde(default)]
    labels: Vec<Labels>,
    #[serde(default)]
    images: Vec<Image>,
}

/// Labels of the objects, but not of their selectors and templates.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Labels {
    pairs: BTreeMap<String, String>,
}

/// A tag for images with a name.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Image {
    name: String,
    new_tag: String,
}

/// What the user chooses.
#[derive(Debug, Default)]
pub struct Choices<'a> {
    /// The image; None means the one in `deploy/base`.
    pub image: Option<&'a str>,
    /// The number of replicas; None means the one in `deploy/base`.
    pub replicas: Option<u32>,
    /// The optional parts.
    pub components: &'a [Component],
}

/// The objects, in an order in which they can be created.
///
/// # Errors
/// Returns an error if a file of `deploy/` has an unknown form.
pub fn objects(choices: &Choices<'_>) -> Result<Vec<Value>> {
    let mut objects = kustomization("base")?;

    for component in choices.components {
        let name = match component {
            Component::Unrestricted => "components/unrestricted",
            Component::Monitoring => "components/monitoring",
        };
        objects.extend(kustomization(name)?);
    }

    for object in &mut objects {
        if let Some(replicas) = choices.replicas
            && object["kind"] == "Deployment"
        {
            object["spec"]["replicas"] = replicas.into();
        }

        if let Some(image) = choices.image {
            for container in containers(object) {
                container["image"] = image.into();
            }
        }
    }

    objects.sort_by_key(rank);
    Ok(objects)
}

/// The position of an object's kind: what others need comes first.
pub(super) fn rank(object: &Value) -> usize {
    const ORDER: [&str; 8] = [
        "Namespace",
        "CustomResourceDefinition",
        "ServiceAccount",
        "ClusterRole",
        "Role",
        "ClusterRoleBinding",
        "RoleBinding",
        "ConfigMap",
    ];

    match object["kind"].as_str() {
        Some("Deployment") => usize::MAX,
        kind => ORDER
            .iter()
            .position(|known| Some(*known) == kind)
            .unwrap_or(ORDER.len()),
    }
}

/// Renders a kustomization in a folder of `deploy/`.
fn kustomization(folder: &str) -> Result<Vec<Value>> {
    let path = format!("{folder}/kustomization.yaml");
    let kustomization: Kustomization =
        serde_yaml_ng::from_str(file(&path)?).with_context(|| path.clone())?;

    let mut objects = Vec::new();
    for resource in &kustomization.resources {
        let path = join(folder, resource);
        if !path.ends_with(".yaml") {
            objects.extend(self::kustomization(&path)?);
            continue;
        }

        for document in serde_yaml_ng::Deserializer::from_str(file(&path)?) {
            let object = Option::<Value>::deserialize(document).with_context(|| path.clone())?;
            objects.extend(object);
        }
    }

    for object in &mut objects {
        for (name, value) in kustomization.labels.iter().flat_map(|labels| &labels.pairs) {
            object["metadata"]["labels"][name] = value.as_str().into();
        }

        for container in containers(object) {
            if let Some(image) = kustomization
                .images
                .iter()
                .find(|image| container["image"] == image.name.as_str())
            {
                container["image"] = format!("{}:{}", image.name, image.new_tag).into();
            }
        }
    }

    Ok(objects)
}

fn containers(object: &mut Value) -> impl Iterator<Item = &mut Value> {
    object
        .pointer_mut("/spec/template/spec/containers")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}

/// Joins a folder and a relative path; `..` is the folder's parent.
fn join(folder: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').collect();

    for part in relative.split('/') {
        match part {
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }

    parts.join("/")
}

fn file(path: &str) -> Result<&'static str> {
    match files::DEPLOY.iter().find(|(known, _)| *known == path) {
        Some(&(_, text)) => Ok(text),
        None => bail!("deploy/{path} does not exist"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_kustomization() {
        assert_eq!(join("base", "../crd"), "crd");
        assert_eq!(
            join("components/monitoring", "service-monitor.yaml"),
            "components/monitoring/service-monitor.yaml"
        );
    }

    #[test]
    fn deployment_comes_last_and_namespace_first() {
        let all = [Component::Unrestricted, Component::Monitoring];
        let objects = objects(&Choices {
            components: &all,
            ..Choices::default()
        })
        .expect("objects");

        let kinds: Vec<_> = objects
            .iter()
            .map(|object| object["kind"].as_str().expect("a kind"))
            .collect();

        assert_eq!(
            (kinds.first(), kinds.last()),
            (Some(&"Namespace"), Some(&"Deployment"))
        );
    }

    #[test]
    fn unknown_feature_of_kustomize_is_an_error() {
        let text = "apiVersion: v1\nkind: Kustomization\nresources: []\nnamePrefix: x\n";
        let error = serde_yaml_ng::from_str::<Kustomization>(text)
            .expect_err("unknown")
            .to_string();
        assert!(error.contains("namePrefix"), "{error}");
    }
}
