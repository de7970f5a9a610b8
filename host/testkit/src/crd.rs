//! CustomResourceDefinitions for tests.

use serde_json::{Value, json};

/// Returns the definition of a kind whose only version is `v1`, served and stored. `scope` is `Namespaced` or `Cluster`;
/// `schema` is the OpenAPI schema of an object. The kind has a status subresource.
pub fn crd(group: &str, kind: &str, plural: &str, scope: &str, schema: &Value) -> Value {
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema},
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [version],
        },
    })
}

/// Returns the schema of an object with any fields.
pub fn any_schema() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
