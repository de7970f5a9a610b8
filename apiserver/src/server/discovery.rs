//! Discovery: which groups, versions and resources there are.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{
    registry::Resources,
    resource::{Flavor, Resource},
};

/// A subresource as discovery lists it.
struct Entry {
    name: String,
    group_version: Option<(String, String)>,
    kind: String,
    verbs: Vec<&'static str>,
}

/// Returns the subresources of a resource: of built-in ones in the order of their names.
fn subresources(resource: &Resource) -> Vec<Entry> {
    let entry = |name: &str, verbs: &[&'static str]| Entry {
        name: name.into(),
        group_version: None,
        kind: resource.names.kind.clone(),
        verbs: verbs.to_vec(),
    };

    let changeable = ["get", "patch", "update"];
    let mut entries = Vec::new();
    if resource.subresources.status {
        entries.push(entry("status", &changeable));
    }

    if resource.subresources.scale.is_some() {
        let group_version = Some(("autoscaling".to_owned(), "v1".to_owned()));
        entries.push(Entry {
            kind: "Scale".into(),
            group_version,
            ..entry("scale", &changeable)
        });
    }

    if resource.group.is_empty() && resource.names.plural == "namespaces" {
        entries.push(entry("finalize", &["update"]));
    }

    entries.extend(
        resource
            .subresources
            .others
            .iter()
            .map(|(name, subresource)| Entry {
                name: name.clone(),
                group_version: subresource.group_version.clone(),
                kind: subresource.kind.clone(),
                verbs: subresource.verbs.clone(),
            }),
    );

    if resource.flavor == Flavor::BuiltIn {
        entries.sort_by(|left, right| left.name.cmp(&right.name));
    }

    entries
}

/// Returns the versions of the core group: `/api`.
#[must_use]
pub fn core_versions(resources: &Resources, address: &str) -> Value {
    json!({
        "kind": "APIVersions", "versions": resources.versions(""),
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// Returns the groups besides the core group: `/apis`.
#[must_use]
pub fn group_list(resources: &Resources) -> Value {
    let groups: Vec<Value> = resources
        .groups()
        .iter()
        .filter(|group| !group.is_empty())
        .map(|group| group_value(resources, group))
        .collect();

    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Returns a group: `/apis/GROUP`.
#[must_use]
pub fn group(resources: &Resources, group: &str) -> Option<Value> {
    if group.is_empty() || resources.versions(group).is_empty() {
        return None;
    }

    let mut value = group_value(resources, group);
    value["kind"] = "APIGroup".into();
    value["apiVersion"] = "v1".into();

    Some(value)
}

fn group_value(resources: &Resources, group: &str) -> Value {
    let version = |version: &String| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    let versions: Vec<Value> = resources.versions(group).iter().map(version).collect();
    let preferred = versions.first().cloned();
    json!({"name": group, "versions": versions, "preferredVersion": preferred})
}

/// Returns the resources of a group version: `/api/v1` or `/apis/GROUP/VERSION`.
#[must_use]
pub fn resource_list(resources: &Resources, group: &str, version: &str) -> Option<Value> {
    let found = resources.in_version(group, version)?;
    let mut list = Vec::new();
    for resource in &found {
        list.push(resource_value(resource));
        list.extend(
            subresources(resource)
                .iter()
                .map(|entry| subresource_value(resource, entry)),
        );
    }

    let mut value = json!({"kind": "APIResourceList", "resources": list});
    if group.is_empty() {
        value["groupVersion"] = version.into();
    } else {
        value["apiVersion"] = "v1".into();
        value["groupVersion"] = format!("{group}/{version}").into();
    }

    Some(value)
}

fn resource_value(resource: &Resource) -> Value {
    let mut value = json!({
        "name": resource.names.plural, "singularName": resource.names.singular, "namespaced": resource.namespaced,
        "kind": resource.names.kind, "verbs": resource.verbs,
    });
    insert_names(&mut value, resource);

    if resource.has_verb("get") && resource.handler.is_none() {
        value["storageVersionHash"] = storage_version_hash(resource).into();
    }
    value
}

fn insert_names(value: &mut Value, resource: &Resource) {
    for (field, names) in [
        ("shortNames", &resource.names.short_names),
        ("categories", &resource.names.categories),
    ] {
        if !names.is_empty() {
            value[field] = json!(names);
        }
    }
}

/// Returns the hash of the version in which objects are stored.
fn storage_version_hash(resource: &Resource) -> String {
    let version = resource
        .rules
        .storage_version
        .as_ref()
        .unwrap_or(&resource.version);

    let digest = Sha256::digest(format!(
        "{}/{version}/{}",
        resource.storage().group(),
        resource.names.kind
    ));

    STANDARD.encode(&digest[..8])
}

fn subresource_value(resource: &Resource, entry: &Entry) -> Value {
    let mut value = json!({
        "name": format!("{}/{}", resource.names.plural, entry.name), "singularName": "", "namespaced": resource.namespaced,
        "kind": entry.kind, "verbs": entry.verbs,
    });

    if let Some((group, version)) = &entry.group_version {
        value["group"] = group.as_str().into();
        value["version"] = version.as_str().into();
    }

    value
}

/// Returns aggregated discovery: of the core group, or of all others.
#[must_use]
pub fn aggregated(resources: &Resources, is_core: bool) -> Value {
    let groups = resources.groups();
    let items: Vec<Value> = groups
        .iter()
        .filter(|group| group.is_empty() == is_core)
        .map(|group| {
            let metadata = if is_core {
                Map::new()
            } else {
                Map::from_iter([("name".into(), json!(group))])
            };

            let versions = resources.versions(group);
            let versions: Vec<Value> = versions
                .iter()
                .map(|version| aggregated_version(resources, group, version))
                .collect();

            json!({"metadata": metadata, "versions": versions})
        })
        .collect();

    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    })
}

fn aggregated_version(resources: &Resources, group: &str, version: &str) -> Value {
    let found = resources.in_version(group, version).unwrap_or_default();
    let list: Vec<Value> = found
        .iter()
        .map(|resource| aggregated_resource(resource))
        .collect();

    json!({"version": version, "resources": list, "freshness": "Current"})
}

fn aggregated_resource(resource: &Resource) -> Value {
    let mut value = json!({
        "resource": resource.names.plural, "responseKind": response_kind(resource, &resource.names.kind, None),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.names.singular, "verbs": resource.verbs,
    });

    insert_names(&mut value, resource);
    let entries: Vec<Value> = subresources(resource)
        .iter()
        .map(|entry| {
            json!({
                "subresource": entry.name, "verbs": entry.verbs,
                "responseKind": response_kind(resource, &entry.kind, entry.group_version.as_ref()),
            })
        })
        .collect();

    if !entries.is_empty() {
        value["subresources"] = entries.into();
    }

    value
}

/// Returns the kind of an answer. The API server leaves out group and version of built-in ones.
fn response_kind(
    resource: &Resource,
    kind: &str,
    group_version: Option<&(String, String)>,
) -> Value {
    let (group, version) = match (group_version, resource.flavor) {
        (Some((group, version)), _) => (group.as_str(), version.as_str()),
        (None, Flavor::Custom) => (resource.group.as_str(), resource.version.as_str()),
        (None, Flavor::BuiltIn) => ("", ""),
    };

    json!({"group": group, "version": version, "kind": kind})
}
