//! The entries of custom resources in discovery documents.

use base64::Engine as _;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::model::{Definition, Names, Version};

const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const TERMINATING_VERBS: [&str; 5] = ["delete", "deletecollection", "get", "list", "watch"];
const SUBRESOURCE_VERBS: [&str; 3] = ["get", "patch", "update"];

fn verbs(definition: &Definition) -> Value {
    if definition.status.is_true("Terminating") { json!(TERMINATING_VERBS) } else { json!(VERBS) }
}

fn add_names(entry: &mut Value, names: &Names) {
    for (field, list) in [("shortNames", &names.short_names), ("categories", &names.categories)] {
        if !list.is_empty() {
            entry[field] = json!(list);
        }
    }
}

/// Returns the hash by which clients see that the storage version has changed.
pub fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    let name = if group.is_empty() { format!("{version}/{kind}") } else { format!("{group}/{version}/{kind}") };
    base64::engine::general_purpose::STANDARD.encode(&Sha256::digest(name)[..8])
}

/// Returns the entries of a version in the `APIResourceList` of its group version.
pub fn api_resources(definition: &Definition, version: &Version) -> Vec<Value> {
    let names = &definition.status.accepted_names;
    let namespaced = definition.spec.scope == "Namespaced";
    let mut main = json!({"name": names.plural, "singularName": names.singular, "namespaced": namespaced,
        "kind": names.kind, "verbs": verbs(definition)});
    add_names(&mut main, names);
    if let Some(storage) = definition.spec.versions.iter().find(|version| version.served && version.storage) {
        let hash = storage_version_hash(&definition.spec.group, &storage.name, &definition.spec.names.kind);
        main["storageVersionHash"] = json!(hash);
    }
    let mut entries = vec![main];
    if version.has_status() {
        entries.push(json!({"name": format!("{}/status", names.plural), "singularName": "",
            "namespaced": namespaced, "kind": names.kind, "verbs": SUBRESOURCE_VERBS}));
    }
    if version.scale().is_some() {
        entries.push(json!({"name": format!("{}/scale", names.plural), "singularName": "",
            "namespaced": namespaced, "group": "autoscaling", "version": "v1", "kind": "Scale",
            "verbs": SUBRESOURCE_VERBS}));
    }
    entries
}

/// Returns the entry of a version in an aggregated discovery document.
pub fn aggregated(definition: &Definition, version: &Version) -> Value {
    let names = &definition.status.accepted_names;
    let kind = json!({"group": definition.spec.group, "version": version.name, "kind": names.kind});
    let mut entry = json!({"resource": names.plural, "responseKind": kind, "scope": definition.spec.scope,
        "singularResource": names.singular, "verbs": verbs(definition)});
    add_names(&mut entry, names);
    let mut subresources = Vec::new();
    if version.has_status() {
        subresources.push(json!({"subresource": "status", "responseKind": kind, "verbs": SUBRESOURCE_VERBS}));
    }
    if version.scale().is_some() {
        let kind = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
        subresources.push(json!({"subresource": "scale", "responseKind": kind, "verbs": SUBRESOURCE_VERBS}));
    }
    if !subresources.is_empty() {
        entry["subresources"] = Value::Array(subresources);
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_the_storage_version_as_the_real_server_does() {
        assert_eq!(storage_version_hash("example.com", "v1", "Probe"), "zwuaPedx9JQ=");
    }
}
