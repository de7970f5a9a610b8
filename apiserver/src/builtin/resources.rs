//! The resources of the built-in kinds, as the real server's aggregated discovery lists them.

use std::{collections::HashMap, sync::LazyLock};

use serde_json::Value;

use super::data::DATA;

/// A resource: its names, its kind and its verbs.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// The group; empty for core.
    pub group: String,
    /// The version, as in `v1`.
    pub version: String,
    /// The kind, as in `Deployment`.
    pub kind: String,
    /// The name in paths, as in `deployments`.
    pub plural: String,
    /// The singular name, as in `deployment`.
    pub singular: String,
    /// The short names, as in `deploy`.
    pub short_names: Vec<String>,
    /// The categories, as in `all`.
    pub categories: Vec<String>,
    /// True if the objects are in namespaces.
    pub namespaced: bool,
    /// The verbs in alphabetical order.
    pub verbs: Vec<String>,
    /// The subresources in alphabetical order.
    pub subresources: Vec<Subresource>,
}

/// A subresource, as in `status`.
#[derive(Clone, Debug, PartialEq)]
pub struct Subresource {
    /// The name, as in `status`.
    pub name: String,
    /// The apiVersion of the kind that it answers with.
    pub api_version: String,
    /// The kind that it answers with, as in `Scale`.
    pub kind: String,
    /// The verbs in alphabetical order.
    pub verbs: Vec<String>,
}

impl Resource {
    /// Returns the apiVersion, as in `apps/v1`.
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// Returns a subresource by its name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources
            .iter()
            .find(|subresource| subresource.name == name)
    }
}

/// All resources in the order of discovery.
static RESOURCES: LazyLock<Vec<Resource>> = LazyLock::new(|| {
    let groups = DATA.api.iter().chain(&DATA.apis);
    groups
        .flat_map(|group| list(&group["versions"]).map(move |version| (group, version)))
        .flat_map(read)
        .collect()
});

/// The positions in [`RESOURCES`] by `APIVERSION KIND`.
static BY_KIND: LazyLock<HashMap<String, usize>> = LazyLock::new(|| {
    let key = |resource: &Resource| format!("{} {}", resource.api_version(), resource.kind);
    RESOURCES
        .iter()
        .enumerate()
        .map(|(index, resource)| (key(resource), index))
        .collect()
});

/// Returns all resources in the order of discovery.
pub fn resources() -> &'static [Resource] {
    &RESOURCES
}

/// Returns the resource of a kind.
pub fn resource_of_kind(api_version: &str, kind: &str) -> Option<&'static Resource> {
    BY_KIND
        .get(&format!("{api_version} {kind}"))
        .map(|index| &RESOURCES[*index])
}

/// Returns the resource of a name in paths.
pub fn resource_of_plural(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    let found = |resource: &&Resource| resource.plural == plural && resource.version == version;
    RESOURCES
        .iter()
        .filter(|resource| resource.group == group)
        .find(found)
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    list(value).map(text).collect()
}

/// Reads the resources of a version.
fn read((group, version): (&Value, &Value)) -> Vec<Resource> {
    let group = text(&group["metadata"]["name"]);
    let name = text(&version["version"]);
    let resource = |resource: &Value| Resource {
        group: group.clone(),
        version: name.clone(),
        kind: text(&resource["responseKind"]["kind"]),
        plural: text(&resource["resource"]),
        singular: text(&resource["singularResource"]),
        short_names: texts(&resource["shortNames"]),
        categories: texts(&resource["categories"]),
        namespaced: resource["scope"] == "Namespaced",
        verbs: texts(&resource["verbs"]),
        subresources: list(&resource["subresources"])
            .map(|sub| subresource(sub, &group, &name))
            .collect(),
    };
    list(&version["resources"]).map(resource).collect()
}

fn subresource(value: &Value, group: &str, version: &str) -> Subresource {
    let kind = &value["responseKind"];
    // Without a version, the kind is in the group and version of the resource.
    let of_kind = match kind["version"].as_str() {
        Some(own) if !own.is_empty() => {
            api_version(kind["group"].as_str().unwrap_or_default(), own)
        }
        _ => api_version(group, version),
    };
    Subresource {
        name: text(&value["subresource"]),
        api_version: of_kind,
        kind: text(&kind["kind"]),
        verbs: texts(&value["verbs"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deployment_has_names_verbs_and_subresources() {
        let deployment = resource_of_kind("apps/v1", "Deployment").cloned();
        assert_eq!(
            deployment.as_ref(),
            resource_of_plural("apps", "v1", "deployments")
        );
        let deployment = deployment.unwrap_or_else(|| panic!("no Deployment"));
        assert_eq!(deployment.short_names, ["deploy"]);
        assert_eq!(deployment.categories, ["all"]);
        assert!(deployment.namespaced);
        assert_eq!(deployment.verbs.len(), 8);
        let scale = deployment
            .subresource("scale")
            .map(|scale| (scale.api_version.as_str(), scale.kind.as_str()));
        assert_eq!(scale, Some(("autoscaling/v1", "Scale")));
    }

    #[test]
    fn every_resource_with_a_get_has_a_type() {
        use crate::builtin::codec::types::TYPES;
        for resource in resources()
            .iter()
            .filter(|resource| resource.verbs.iter().any(|verb| verb == "get"))
        {
            assert!(
                TYPES
                    .of_kind(&resource.api_version(), &resource.kind)
                    .is_some(),
                "{resource:?}"
            );
        }
        assert!(resources().len() > 60);
    }
}
