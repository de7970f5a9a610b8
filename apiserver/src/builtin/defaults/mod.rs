//! Defaults of the built-in kinds, as the functions `SetDefaults_*` of Kubernetes set them, for
//! example in <https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/apis/core/v1/defaults.go>.

mod admission;
mod image;
mod pod;
mod policy;
mod service;
mod storage;
mod volumes;
mod workloads;

use serde_json::Value;

use super::object::{at_mut, fields, has, is_true, items, items_mut, set, set_default, text};

/// Sets the defaults of a decoded object.
pub(super) fn apply(api_version: &str, kind: &str, object: &mut Value) {
    match (api_version, kind) {
        ("v1", "Pod") => pod::pod(object),
        ("v1", "PodTemplate") => pod::template(object, "template"),
        ("v1", "ReplicationController") => workloads::replication_controller(object),
        ("v1", "Service") => service::service(object),
        ("v1", "Endpoints") => {
            items_mut(object, "subsets").for_each(|subset| protocols(subset, "ports"));
        }
        ("v1", "Secret") => set_default(object, "type", "Opaque"),
        ("v1", "Namespace") => namespace(object),
        ("v1", "Node") => node(object),
        ("v1", "PersistentVolume") => storage::persistent_volume(object),
        ("v1", "PersistentVolumeClaim") => storage::persistent_volume_claim(object),
        ("v1", "LimitRange") => items_mut(object, "spec.limits").for_each(policy::limit),
        ("apps/v1", "Deployment") => workloads::deployment(object),
        ("apps/v1", "ReplicaSet") => workloads::replica_set(object),
        ("apps/v1", "StatefulSet") => workloads::stateful_set(object),
        ("apps/v1", "DaemonSet") => workloads::daemon_set(object),
        ("batch/v1", "Job") => workloads::job(object),
        ("batch/v1", "CronJob") => workloads::cron_job(object),
        ("rbac.authorization.k8s.io/v1", "RoleBinding" | "ClusterRoleBinding") => {
            role_binding(object);
        }
        ("networking.k8s.io/v1", "NetworkPolicy") => policy::network_policy(object),
        ("networking.k8s.io/v1", "IngressClass") => {
            if let Some(parameters) = at_mut(object, "spec.parameters") {
                set_default(parameters, "scope", "Cluster");
            }
        }
        ("autoscaling/v2", "HorizontalPodAutoscaler") => policy::autoscaler(object),
        ("autoscaling/v1", "HorizontalPodAutoscaler") => policy::autoscaler_v1(object),
        ("storage.k8s.io/v1", "StorageClass") => storage::storage_class(object),
        ("storage.k8s.io/v1", "CSIDriver") => storage::csi_driver(object),
        ("scheduling.k8s.io/v1", "PriorityClass") => {
            set_default(object, "preemptionPolicy", "PreemptLowerPriority");
        }
        ("discovery.k8s.io/v1", "EndpointSlice") => {
            items_mut(object, "ports").for_each(|port| {
                if port["name"].is_null() {
                    set(port, "name", "");
                }
                set_default(port, "protocol", "TCP");
            });
        }
        ("admissionregistration.k8s.io/v1", _) => admission::registration(kind, object),
        _ => {}
    }
}

/// Sets the defaults of an object sent by a client.
pub(super) fn apply_first(api_version: &str, kind: &str, object: &mut Value) {
    apply(api_version, kind, object);

    // Other Jobs get their labels in `apply_stored`, with those that the server generates.
    if (api_version, kind) == ("batch/v1", "Job") && is_true(object, "spec.manualSelector") {
        workloads::job_labels(object);
    }
}

/// Gives an object its template's labels, if its kind takes them from there. Returns whether it did.
pub fn label_as_template(api_version: &str, kind: &str, object: &mut Value) -> bool {
    let takes = (api_version, kind) == ("batch/v1", "Job") && !has(object, "metadata.labels");
    if takes {
        workloads::job_labels(object);
    }
    takes
}

/// Sets the defaults that depend on what the server generated.
pub(super) fn apply_stored(api_version: &str, kind: &str, object: &mut Value) {
    apply(api_version, kind, object);
    if (api_version, kind) == ("batch/v1", "Job") {
        workloads::job_labels(object);
    }
}

fn protocols(object: &mut Value, path: &str) {
    items_mut(object, path).for_each(|port| set_default(port, "protocol", "TCP"));
}

fn namespace(object: &mut Value) {
    let name = text(object, "metadata.name").to_owned();
    if !name.is_empty()
        && let Some(metadata) = at_mut(object, "metadata")
    {
        set_default(metadata, "labels", serde_json::json!({}));
        if let Some(labels) = at_mut(metadata, "labels") {
            set(labels, "kubernetes.io/metadata.name", name);
        }
    }

    if let Some(status) = at_mut(object, "status") {
        set_default(status, "phase", "Active");
    }
}

fn node(object: &mut Value) {
    let capacity = fields(object, "status.capacity").clone();
    if let Some(status) = at_mut(object, "status").filter(|_| !capacity.is_empty()) {
        set_default(status, "allocatable", capacity);
    }

    let cidr = text(object, "spec.podCIDR").to_owned();
    if let Some(spec) = at_mut(object, "spec") {
        // The conversion to the internal type fills each of the two fields from the other.
        match (
            cidr.as_str(),
            items(spec, "podCIDRs").first().and_then(Value::as_str),
        ) {
            ("", Some(first)) => {
                let first = first.to_owned();
                set(spec, "podCIDR", first);
            }
            ("", None) => {}
            (cidr, None) => {
                let list = vec![Value::from(cidr)];
                set(spec, "podCIDRs", list);
            }
            _ => {}
        }
    }
}

fn role_binding(object: &mut Value) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    if let Some(role) = at_mut(object, "roleRef") {
        set_default(role, "apiGroup", GROUP);
    }

    for subject in items_mut(object, "subjects") {
        if matches!(text(subject, "kind"), "User" | "Group") {
            set_default(subject, "apiGroup", GROUP);
        }
    }
}
