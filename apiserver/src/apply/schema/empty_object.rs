//! The object of a kind before its creation.
//!
//! The API server compares a new object with the zero value of its Go type. Fields that Go encodes
//! even when empty are in both, so nobody manages them. OpenAPI mostly tells which: a struct that is
//! not a pointer has the default `{}`, and a field without `omitempty` is required. `EXCEPTIONS`
//! lists the rest.

use serde_json::{Map, Value, json};

use super::openapi::{Definitions, reference};

/// How deep schemas are followed. No built-in kind nests as deep.
const MAX_DEPTH: usize = 32;

/// The zero value of a field that OpenAPI describes misleadingly.
#[derive(Clone, Copy)]
enum Zero {
    Absent,
    Null,
    Text,
    Number,
}

/// Definitions without `io.k8s.api.`, their fields, and the fields' zero values.
const EXCEPTIONS: [(&str, &[&str], Zero); 19] = [
    (
        "admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec",
        &["policyName", "validationActions"],
        Zero::Absent,
    ),
    ("apps.v1.ControllerRevision", &["data"], Zero::Null),
    ("apps.v1.StatefulSetSpec", &["serviceName"], Zero::Text),
    (
        "apps.v1.StatefulSetStatus",
        &["availableReplicas"],
        Zero::Number,
    ),
    (
        "authentication.v1.TokenRequestSpec",
        &["audiences", "boundObjectRef", "expirationSeconds"],
        Zero::Null,
    ),
    (
        "authentication.v1.TokenRequestStatus",
        &["expirationTimestamp"],
        Zero::Null,
    ),
    (
        "authentication.v1.TokenRequestStatus",
        &["token"],
        Zero::Text,
    ),
    (
        "authentication.v1.TokenReviewSpec",
        &["token"],
        Zero::Absent,
    ),
    (
        "autoscaling.v2.HorizontalPodAutoscalerStatus",
        &["currentMetrics"],
        Zero::Null,
    ),
    (
        "core.v1.Event",
        &["eventTime", "firstTimestamp", "lastTimestamp"],
        Zero::Null,
    ),
    (
        "core.v1.Event",
        &["reportingComponent", "reportingInstance"],
        Zero::Text,
    ),
    (
        "discovery.v1.EndpointSlice",
        &["endpoints", "ports"],
        Zero::Null,
    ),
    (
        "events.v1.Event",
        &["deprecatedFirstTimestamp", "deprecatedLastTimestamp"],
        Zero::Null,
    ),
    (
        "flowcontrol.v1.FlowSchemaSpec",
        &["matchingPrecedence"],
        Zero::Number,
    ),
    ("networking.v1.IPAddressSpec", &["parentRef"], Zero::Absent),
    (
        "policy.v1.PodDisruptionBudgetStatus",
        &[
            "currentHealthy",
            "desiredHealthy",
            "disruptionsAllowed",
            "expectedPods",
        ],
        Zero::Number,
    ),
    ("rbac.v1.RoleRef", &["apiGroup"], Zero::Text),
    ("resource.v1.DeviceClaim", &["requests"], Zero::Null),
    ("scheduling.v1.PriorityClass", &["value"], Zero::Number),
];

/// Kinds whose rules Go encodes even when empty.
const ROLES: [&str; 2] = ["rbac.v1.ClusterRole", "rbac.v1.Role"];

/// Returns Go's zero value of a built-in kind as it would be encoded, without apiVersion and kind.
///
/// `name` is the name of its definition.
pub fn empty_object(definitions: &Definitions, name: &str) -> Map<String, Value> {
    zero_struct(definitions, name, 0)
}

fn zero_struct(definitions: &Definitions, name: &str, depth: usize) -> Map<String, Value> {
    let mut object = Map::new();
    let Some(definition) = definitions.get(name).filter(|_| depth < MAX_DEPTH) else {
        return object;
    };

    let required: Vec<&str> = definition["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();

    for (field, property) in definition["properties"].as_object().into_iter().flatten() {
        let is_required = required.contains(&field.as_str());

        let zero = match (property.get("default"), reference(property)) {
            (Some(default), Some(target))
                if *default == json!({}) && is_struct(definitions, target) =>
            {
                Some(Value::Object(zero_struct(definitions, target, depth + 1)))
            }
            (Some(default), None) if is_required && !default.is_object() => Some(default.clone()),
            (default, _) => (is_required && default != Some(&json!({}))).then_some(Value::Null),
        };

        object.extend(zero.map(|zero| (field.clone(), zero)));
    }

    correct(
        &mut object,
        name.strip_prefix("io.k8s.api.").unwrap_or(name),
    );

    object
}

fn is_struct(definitions: &Definitions, name: &str) -> bool {
    definitions.get(name).is_some_and(|definition| {
        definition["type"] == "object" && definition.get("properties").is_some()
    })
}

/// Applies the exceptions of a definition.
fn correct(object: &mut Map<String, Value>, name: &str) {
    for (_, fields, zero) in EXCEPTIONS
        .iter()
        .filter(|(definition, ..)| *definition == name)
    {
        for field in *fields {
            match zero {
                Zero::Absent => object.remove(*field),
                Zero::Null => object.insert((*field).into(), Value::Null),
                Zero::Text => object.insert((*field).into(), json!("")),
                Zero::Number => object.insert((*field).into(), json!(0)),
            };
        }
    }

    if ROLES.contains(&name) {
        object.insert("rules".into(), Value::Null);
    }
}
