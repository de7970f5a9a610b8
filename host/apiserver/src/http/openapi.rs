//! OpenAPI documents without schemas: enough for a client to see which parameters a resource has.

use serde_json::{Map, Value, json};

use super::{registry::Resources, resource::Resource};

/// Returns the index of the documents: `/openapi/v3`.
#[must_use]
pub fn index(resources: &Resources, hash: &str) -> Value {
    let mut paths = Map::new();
    for group in resources.groups() {
        for version in resources.versions(&group) {
            let path = if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
            let url = format!("/openapi/v3/{path}?hash={hash}");
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

/// Returns the document of a path such as `apis/apps/v1`.
#[must_use]
pub fn document(resources: &Resources, path: &str) -> Option<Value> {
    let parts: Vec<&str> = path.split('/').collect();
    let (group, version) = match parts.as_slice() {
        ["api", version] => ("", *version),
        ["apis", group, version] => (*group, *version),
        _ => return None,
    };
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for resource in resources.in_version(group, version)? {
        let kind = json!({"group": resource.group, "version": resource.version, "kind": resource.names.kind});
        let name = format!("{}.{}.{}", resource.group, resource.version, resource.names.kind);
        let name = name.trim_start_matches('.').to_owned();
        schemas.insert(name, json!({"type": "object", "x-kubernetes-group-version-kind": [kind]}));
        paths.insert(object_path(path, &resource), json!({"patch": patch_operation(&kind)}));
    }
    Some(json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.36.2"},
        "paths": paths, "components": {"schemas": schemas},
    }))
}

fn object_path(path: &str, resource: &Resource) -> String {
    let namespace = if resource.namespaced { "namespaces/{namespace}/" } else { "" };
    format!("/{path}/{namespace}{}/{{name}}", resource.names.plural)
}

fn patch_operation(kind: &Value) -> Value {
    let parameter =
        |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let parameters: Vec<Value> = ["dryRun", "fieldManager", "fieldValidation", "force"].map(parameter).to_vec();
    json!({"x-kubernetes-action": "patch", "x-kubernetes-group-version-kind": kind, "parameters": parameters})
}
