//! The warnings that the real server sends in headers for objects that it accepts.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;

use super::{
    object::{at, fields, int, items, text},
    pod_warnings::pod_warnings,
    validation::dns_label,
};

/// Returns the warning for a request to a deprecated kind.
pub fn deprecation_warning(api_version: &str, kind: &str) -> Option<&'static str> {
    match (api_version, kind) {
        ("v1", "Endpoints") => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        }
        ("v1", "ComponentStatus") => Some("v1 ComponentStatus is deprecated in v1.19+"),
        _ => None,
    }
}

/// Returns the warnings of a new object, or of one that replaces `old`.
///
/// Pods only get warnings when they are created, and templates when something has changed that
/// counts as a new generation.
pub fn object_warnings(
    api_version: &str,
    kind: &str,
    object: &Value,
    old: Option<&Value>,
) -> Vec<String> {
    let generation = "metadata.generation";
    let is_changed = old.is_none_or(|old| int(old, generation) != int(object, generation));

    let mut warnings = Vec::new();
    match (api_version, kind) {
        ("v1", "Pod") if old.is_none() => {
            name(object, "the Pod's hostname", &mut warnings);
            warnings.extend(pod_warnings(object, None));
        }
        ("apps/v1", "Deployment" | "ReplicaSet") => {
            if old.is_none() {
                name(object, "Pod names and hostnames", &mut warnings);
            }
            if is_changed {
                template(object, "spec.template", &mut warnings);
            }
        }
        ("apps/v1", "StatefulSet") => {
            if is_changed {
                template(object, "spec.template", &mut warnings);
            }
            if int(object, "spec.revisionHistoryLimit").is_some_and(|limit| limit < 0) {
                let words = "a negative value retains all historical revisions; a value >= 0 is recommended";
                warnings.push(format!("spec.revisionHistoryLimit: {words}"));
            }
        }
        ("apps/v1", "DaemonSet") => {
            let path = "spec.template";
            if old.is_none_or(|old| at(old, path) != at(object, path)) {
                template(object, path, &mut warnings);
            }
        }
        ("batch/v1", "Job") if is_changed => template(object, "spec.template", &mut warnings),
        // kube-apiserver passes the templates in the wrong order, so it warns of the old one:
        // https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/registry/core/replicationcontroller/strategy.go
        ("v1", "ReplicationController") if is_changed => {
            template(old.unwrap_or(object), "spec.template", &mut warnings);
        }
        ("batch/v1", "CronJob") if is_changed => {
            template(object, "spec.jobTemplate.spec.template", &mut warnings);
        }
        ("v1", "Service") if !items(object, "spec.externalIPs").is_empty() => {
            warnings.push(
                "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
                    .to_owned(),
            );
        }
        ("v1", "Secret") if text(object, "type") == "kubernetes.io/tls" => {
            certificate(object, &mut warnings);
        }
        _ => {}
    }
    warnings
}

fn template(object: &Value, path: &str, warnings: &mut Vec<String>) {
    warnings.extend(pod_warnings(at(object, path), Some(path)));
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

/// Warns of a certificate that is no PEM. The real server also reads the certificate and the key.
fn certificate(secret: &Value, warnings: &mut Vec<String>) {
    let encoded = fields(secret, "data")
        .get("tls.crt")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let text = BASE64_STANDARD.decode(encoded).unwrap_or_default();
    if !String::from_utf8_lossy(&text).contains("-----BEGIN ") {
        warnings.push("tls: failed to find any PEM data in certificate input".to_owned());
    }
}
