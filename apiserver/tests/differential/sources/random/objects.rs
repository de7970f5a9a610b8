//! Valid objects, which random requests change.

use serde_json::{Value, json};

/// The definition of a custom resource.
pub fn bolts() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "bolts.random.example"},
        "spec": {
            "group": "random.example", "scope": "Namespaced", "names": {"plural": "bolts", "kind": "Bolt"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
                "selectableFields": [{"jsonPath": ".spec.size"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "size": {"type": "string", "maxLength": 5, "default": "m"}, "replicas": {"type": "integer", "minimum": 0},
                        "parts": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
                    }, "x-kubernetes-validations": [{"rule": "!has(self.replicas) || self.replicas < 10"}]},
                    "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "phase": {"type": "string"}}},
                }}},
            }],
        },
    })
}

/// The collections, with a valid object of each.
pub fn kinds() -> Vec<(&'static str, Value)> {
    let pod = json!({"containers": [{"name": "c", "image": "nginx", "ports": [{"containerPort": 80}], "env": [{"name": "A", "value": "b"}]}]});
    let labels = json!({"app": "x"});

    vec![
        ("api/v1 configmaps", json!({"data": {"a": "1", "b": "2"}})),
        (
            "api/v1 secrets",
            json!({"data": {"a": "YQ=="}, "type": "Opaque"}),
        ),
        ("api/v1 pods", json!({"spec": pod})),
        (
            "api/v1 services",
            json!({"spec": {"ports": [{"port": 80, "name": "http"}], "selector": {"app": "x"}}}),
        ),
        ("api/v1 serviceaccounts", json!({})),
        (
            "apps/v1 deployments",
            json!({"spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}}),
        ),
        (
            "apps/v1 statefulsets",
            json!({"spec": {"serviceName": "s", "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}}),
        ),
        (
            "batch/v1 jobs",
            json!({"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}),
        ),
        (
            "batch/v1 cronjobs",
            json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}}}),
        ),
        (
            "coordination.k8s.io/v1 leases",
            json!({"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}),
        ),
        (
            "rbac.authorization.k8s.io/v1 roles",
            json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
        ),
        (
            "policy/v1 poddisruptionbudgets",
            json!({"spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}}),
        ),
        (
            "networking.k8s.io/v1 networkpolicies",
            json!({"spec": {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}]}}),
        ),
        (
            "random.example/v1 bolts",
            json!({"spec": {"size": "s", "replicas": 1, "parts": ["a"], "map": {"a": 1}}}),
        ),
        ("random.example/v1 bolts", json!({"spec": {"size": "l"}})),
    ]
}
