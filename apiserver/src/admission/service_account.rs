//! The admission plugin ServiceAccount: gives each new Pod a ServiceAccount, its token and its pull
//! secrets.

use std::sync::Arc;

use serde_json::{Value, json};

use super::request::{AdmissionRequest, Operation};
use crate::{
    apimachinery::status::Status,
    authz::objects::{Objects, text},
    golang::quote,
};

const VOLUME_PREFIX: &str = "kube-api-access-";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const MIRROR: &str = "kubernetes.io/config.mirror";
const ENFORCE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";
/// The lifetime of the token in seconds, by which the API server knows the kubelet's requests.
const TOKEN_SECONDS: i64 = 3607;

/// Completes a Pod that is to be created. `suffix` is the random end of the name of a new volume,
/// five characters.
///
/// # Errors
/// `Forbidden` if the ServiceAccount does not exist; `Unsupported` for mirror Pods, and for
/// ServiceAccounts that limit the secrets of their Pods.
pub fn complete(
    request: &AdmissionRequest<'_>,
    pod: &mut Value,
    suffix: &str,
    objects: &dyn Objects,
) -> Result<(), Status> {
    if !request.is_for("", "pods")
        || request.operation != Operation::Create
        || !pod["spec"].is_object()
    {
        return Ok(());
    }

    if pod["metadata"]["annotations"].get(MIRROR).is_some() {
        return Err(Status::unsupported(
            "the embedded API server does not support mirror Pods".to_owned(),
        ));
    }

    if text(pod, &["spec", "serviceAccountName"]).is_empty() {
        pod["spec"]["serviceAccountName"] = json!("default");
    }

    // The deprecated field always has the same value.
    pod["spec"]["serviceAccount"] = pod["spec"]["serviceAccountName"].clone();

    let account = find_account(request, text(pod, &["spec", "serviceAccountName"]), objects)?;
    if account["metadata"]["annotations"][ENFORCE_SECRETS] == "true" {
        let message =
            format!("the embedded API server does not support the annotation {ENFORCE_SECRETS}");
        return Err(Status::unsupported(message));
    }

    if mounts_token(&account, pod) {
        mount_token(pod, suffix);
    }

    let has_secrets = pod["spec"]["imagePullSecrets"]
        .as_array()
        .is_some_and(|secrets| !secrets.is_empty());
    let secrets = account["imagePullSecrets"]
        .as_array()
        .filter(|secrets| !secrets.is_empty());
    if let Some(secrets) = secrets.filter(|_| !has_secrets) {
        pod["spec"]["imagePullSecrets"] = secrets
            .iter()
            .map(|secret| json!({"name": secret["name"]}))
            .collect();
    }

    Ok(())
}

fn find_account(
    request: &AdmissionRequest<'_>,
    name: &str,
    objects: &dyn Objects,
) -> Result<Arc<Value>, Status> {
    let namespace = request.namespace;
    objects
        .get("", "serviceaccounts", namespace, name)
        .ok_or_else(|| {
            let missing = format!("serviceaccount {} not found", quote(name));
            request.forbidden(&format!(
                "error looking up service account {namespace}/{name}: {missing}"
            ))
        })
}

fn mounts_token(account: &Value, pod: &Value) -> bool {
    let of_pod = pod["spec"]["automountServiceAccountToken"].as_bool();
    of_pod
        .or(account["automountServiceAccountToken"].as_bool())
        .unwrap_or(true)
}

/// Mounts a token where no container has something else.
fn mount_token(pod: &mut Value, suffix: &str) {
    let volumes = pod["spec"]["volumes"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let existing = volumes
        .iter()
        .map(|volume| text(volume, &["name"]))
        .find(|name| name.starts_with(VOLUME_PREFIX));
    let (name, exists) = match existing {
        Some(name) => (name.to_owned(), true),
        None => (format!("{VOLUME_PREFIX}{suffix}"), false),
    };

    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            mounted |= mount(container, &name);
        }
    }

    if mounted && !exists {
        push(&mut pod["spec"]["volumes"], token_volume(&name));
    }
}

/// Mounts a volume in a container; returns false if there is something else.
fn mount(container: &mut Value, name: &str) -> bool {
    let mounts = container["volumeMounts"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if mounts
        .iter()
        .any(|mount| text(mount, &["mountPath"]) == MOUNT_PATH)
    {
        return false;
    }

    push(
        &mut container["volumeMounts"],
        json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH}),
    );

    true
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        other => *other = json!([item]),
    }
}

fn token_volume(name: &str) -> Value {
    json!({"name": name, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [
            {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
        ]}},
    ]}})
}
