//! CustomResourceDefinitions and APIServices for tests.

use serde_json::{Value, json};

/// Returns the definition of a kind whose only version is `v1`, served and stored. `scope` is
/// `Namespaced` or `Cluster`; `schema` is the OpenAPI schema of an object. The kind has no
/// subresources: see [`with_status`].
pub fn crd(group: &str, kind: &str, plural: &str, scope: &str, schema: &Value) -> Value {
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": schema},
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

/// Adds the status subresource to a definition.
#[must_use]
pub fn with_status(mut crd: Value) -> Value {
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    crd
}

/// Returns the APIService of `v1` of a group whose aggregated API server does not exist.
pub fn dead_api_service(group: &str) -> Value {
    let service = json!({"name": "nobody", "namespace": "default", "port": 443});
    json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": format!("v1.{group}")},
        "spec": {
            "group": group, "version": "v1", "service": service, "insecureSkipTLSVerify": true,
            "groupPriorityMinimum": 1000, "versionPriority": 10,
        },
    })
}

/// Returns the schema of an object with any fields.
pub fn any_schema() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
