//! The warnings that the real server sends in headers for objects that it accepts.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;

use super::{
    codec::Quantity,
    object::{at, fields, has, int, items, text},
    validation::dns_label,
};

/// Returns the warning for a request to a deprecated kind.
pub fn deprecation_warning(api_version: &str, kind: &str) -> Option<&'static str> {
    match (api_version, kind) {
        ("v1", "Endpoints") => Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
        ("v1", "ComponentStatus") => Some("v1 ComponentStatus is deprecated in v1.19+"),
        _ => None,
    }
}

/// Returns the warnings of a new or changed object.
pub fn object_warnings(api_version: &str, kind: &str, object: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    match (api_version, kind) {
        ("v1", "Pod") => {
            name(object, "the Pod's hostname", &mut warnings);
            pod_spec(at(object, "spec"), "spec", &mut warnings);
        }
        ("apps/v1", "Deployment" | "ReplicaSet") => {
            name(object, "Pod names and hostnames", &mut warnings);
            pod_spec(at(object, "spec.template.spec"), "spec.template.spec", &mut warnings);
        }
        ("apps/v1", "StatefulSet") => {
            pod_spec(at(object, "spec.template.spec"), "spec.template.spec", &mut warnings);
            if int(object, "spec.revisionHistoryLimit").is_some_and(|limit| limit < 0) {
                let words = "a negative value retains all historical revisions; a value >= 0 is recommended";
                warnings.push(format!("spec.revisionHistoryLimit: {words}"));
            }
        }
        ("apps/v1", "DaemonSet") | ("batch/v1", "Job") | ("v1", "ReplicationController") => {
            pod_spec(at(object, "spec.template.spec"), "spec.template.spec", &mut warnings);
        }
        ("batch/v1", "CronJob") => {
            let path = "spec.jobTemplate.spec.template.spec";
            pod_spec(at(object, path), path, &mut warnings);
        }
        ("v1", "Service") if !items(object, "spec.externalIPs").is_empty() => {
            warnings
                .push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned());
        }
        ("v1", "Secret") if text(object, "type") == "kubernetes.io/tls" => certificate(object, &mut warnings),
        _ => {}
    }
    warnings
}

/// Warns of a name that is no DNS label.
fn name(object: &Value, used_in: &str, warnings: &mut Vec<String>) {
    let faults = dns_label(text(object, "metadata.name"));
    if !faults.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is \
             recommended: [{}]",
            faults.join(" ")
        ));
    }
}

fn pod_spec(spec: &Value, path: &str, warnings: &mut Vec<String>) {
    for (index, constraint) in items(spec, "topologySpreadConstraints").iter().enumerate() {
        if !has(constraint, "labelSelector") {
            let path = format!("{path}.topologySpreadConstraints[{index}].labelSelector");
            warnings.push(format!("{path}: a null labelSelector results in matching no pod"));
        }
    }
    for (index, secret) in items(spec, "imagePullSecrets").iter().enumerate() {
        if text(secret, "name").is_empty() {
            warnings.push(format!("{path}.imagePullSecrets[{index}].name: invalid empty name \"\""));
        }
    }
    for list in ["initContainers", "containers"] {
        for (index, container) in items(spec, list).iter().enumerate() {
            fractions(container, &format!("{path}.{list}[{index}]"), warnings);
        }
    }
}

/// Warns of bytes that are no whole number.
fn fractions(container: &Value, path: &str, warnings: &mut Vec<String>) {
    for list in ["limits", "requests"] {
        for name in ["memory", "ephemeral-storage"] {
            let amount = fields(container, &format!("resources.{list}")).get(name).and_then(Value::as_str);
            let parsed = amount.and_then(|amount| Quantity::parse(amount).ok());
            if let Some(fraction) = parsed.filter(|amount| !amount.is_integer()) {
                let value = fraction.canonical();
                warnings.push(format!(
                    "{path}.resources.{list}[{name}]: fractional byte value {value:?} is invalid, must be an integer"
                ));
            }
        }
    }
}

/// Warns of a certificate that is no PEM. The real server also reads the certificate and the key.
fn certificate(secret: &Value, warnings: &mut Vec<String>) {
    let encoded = fields(secret, "data").get("tls.crt").and_then(Value::as_str).unwrap_or_default();
    let text = BASE64_STANDARD.decode(encoded).unwrap_or_default();
    if !String::from_utf8_lossy(&text).contains("-----BEGIN ") {
        warnings.push("tls: failed to find any PEM data in certificate input".to_owned());
    }
}
