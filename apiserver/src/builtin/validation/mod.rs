//! Validation of the built-in kinds, in the real server's order and words.
//!
//! The kinds that [`create`] and [`update`] do not name are validated by their metadata only.
//! `data/README.md` lists what is left out of the others.

mod admission;
mod apps;
mod batch;
mod config;
mod cron;
mod format;
mod metadata;
mod network;
mod pod;
mod policy;
mod rbac;
mod service;
mod storage;

pub(super) use crate::apimachinery::field::ErrorList;
use crate::apimachinery::{
    field::Path,
    metadata::{Metadata, validate_common, validate_update},
    selector::objects as selector,
};
pub(super) use format::label as dns_label;

use serde_json::Value;

use super::resources::resource_of_kind;

pub(super) fn create(api_version: &str, kind: &str, object: &Value) -> ErrorList {
    let mut errors = ErrorList::default();
    metadata::validate(api_version, kind, object, &mut errors);

    match (api_version, kind) {
        ("v1", "Pod") => {
            pod::pod(object, &mut errors);
            pod::new_pod(object, &mut errors);
        }
        ("batch/v1", "Job") => batch::job(object, &mut errors),
        ("batch/v1", "CronJob") => batch::new_cron_job(object, &mut errors),
        _ => content(api_version, kind, object, &mut errors),
    }

    errors
}

/// Validates what new and changed objects have in common, besides the metadata.
fn content(api_version: &str, kind: &str, object: &Value, errors: &mut ErrorList) {
    match (api_version, kind) {
        ("v1", "Service") => service::service(object, errors),
        ("v1", "Endpoints") => service::endpoints(object, errors),
        ("v1", "ConfigMap") => config::config_map(object, errors),
        ("v1", "Secret") => config::secret(object, errors),
        ("v1", "Namespace") => policy::namespace(object, errors),
        ("v1", "Node") => policy::node(object, errors),
        ("v1", "Event") | ("events.k8s.io/v1", "Event") => policy::event(object, errors),
        ("v1", "PersistentVolume") => storage::persistent_volume(object, errors),
        ("v1", "PersistentVolumeClaim") => storage::claim(object, errors),
        ("v1", "LimitRange") => policy::limit_range(object, errors),
        ("v1", "ResourceQuota") => policy::quota(object, errors),
        ("v1", "ReplicationController") => apps::replication_controller(object, errors),
        ("v1", "PodTemplate") => pod::template(&object["template"], "template", errors),
        ("apps/v1", _) => apps::validate(kind, object, errors),
        ("batch/v1", "CronJob") => batch::cron_job(object, errors),
        ("rbac.authorization.k8s.io/v1", "Role" | "ClusterRole") => {
            rbac::role(kind, object, errors);
        }
        ("rbac.authorization.k8s.io/v1", _) => rbac::binding(kind, object, errors),
        ("coordination.k8s.io/v1", "Lease") => policy::lease(object, errors),
        ("policy/v1", "PodDisruptionBudget") => policy::budget(object, errors),
        ("autoscaling/v2" | "autoscaling/v1", "HorizontalPodAutoscaler") => {
            policy::autoscaler(object, errors);
        }
        ("networking.k8s.io/v1", "Ingress") => network::ingress(object, errors),
        ("networking.k8s.io/v1", "IngressClass") => network::ingress_class(object, errors),
        ("networking.k8s.io/v1", "NetworkPolicy") => network::network_policy(object, errors),
        ("discovery.k8s.io/v1", "EndpointSlice") => network::endpoint_slice(object, errors),
        ("storage.k8s.io/v1", "StorageClass") => storage::storage_class(object, errors),
        ("scheduling.k8s.io/v1", "PriorityClass") => policy::priority_class(object, errors),
        ("admissionregistration.k8s.io/v1", _) => match kind {
            "ValidatingWebhookConfiguration" => admission::webhooks(false, object, errors),
            "MutatingWebhookConfiguration" => admission::webhooks(true, object, errors),
            "ValidatingAdmissionPolicy" => admission::policy(object, errors),
            "ValidatingAdmissionPolicyBinding" => admission::binding(object, errors),
            _ => {}
        },
        _ => {}
    }
}

/// Validates the metadata of an update: for all kinds first, and once more in the checks of most
/// kinds.
fn update_metadata(
    api_version: &str,
    kind: &str,
    subresource: Option<&str>,
    old: &Value,
    new: &Value,
    errors: &mut ErrorList,
) {
    let namespaced =
        resource_of_kind(api_version, kind).is_some_and(|resource| resource.namespaced);
    errors.extend(validate_common(new, old, namespaced));

    match (api_version, kind) {
        ("v1", "Event") | ("policy/v1", _) => return,
        ("batch/v1", "CronJob") if subresource == Some("status") => return,
        _ => errors.extend(validate_update(
            Metadata::of(new),
            Metadata::of(old),
            &Path::new("metadata"),
        )),
    }

    metadata::qualified_finalizers(api_version, kind, new, errors);
    let validated_again = match (api_version, kind) {
        (
            "v1",
            "ConfigMap"
            | "Endpoints"
            | "PersistentVolume"
            | "PersistentVolumeClaim"
            | "Pod"
            | "Secret",
        )
        | ("v1", "ServiceAccount")
        | ("apps/v1", "ControllerRevision")
        | ("batch/v1", "Job")
        | ("networking.k8s.io/v1", "Ingress") => true,
        _ => api_version == "rbac.authorization.k8s.io/v1",
    };
    if validated_again && subresource.is_none() {
        metadata::validate(api_version, kind, new, errors);
    }
}

pub(super) fn update(
    api_version: &str,
    kind: &str,
    subresource: Option<&str>,
    old: &Value,
    new: &Value,
) -> ErrorList {
    let mut errors = ErrorList::default();
    update_metadata(api_version, kind, subresource, old, new, &mut errors);
    match subresource {
        None => changed(api_version, kind, old, new, &mut errors),
        Some("status") => status(api_version, kind, old, new, &mut errors),
        Some(_) => {}
    }

    errors
}

fn changed(api_version: &str, kind: &str, old: &Value, new: &Value, errors: &mut ErrorList) {
    match (api_version, kind) {
        ("v1", "Pod") => {
            pod::pod(new, errors);
            pod::pod_update(old, new, errors);
        }
        ("v1", "Service") => service::service_update(old, new, errors),
        ("v1", "ConfigMap") => config::config_map_update(old, new, errors),
        ("v1", "Secret") => config::secret_update(old, new, errors),
        ("v1", "Namespace") => {}
        ("v1", "PersistentVolume") => storage::persistent_volume_update(old, new, errors),
        ("v1", "PersistentVolumeClaim") => storage::claim_update(old, new, errors),
        ("apps/v1", _) => apps::validate_update(kind, old, new, errors),
        ("batch/v1", "Job") => batch::job_update(old, new, errors),
        ("rbac.authorization.k8s.io/v1", "RoleBinding" | "ClusterRoleBinding") => {
            rbac::binding_update(kind, old, new, errors);
        }
        ("networking.k8s.io/v1", "IngressClass") => {
            let path = "spec.controller";
            errors.immutable(path, &old["spec"]["controller"], &new["spec"]["controller"]);
            network::ingress_class(new, errors);
        }
        ("discovery.k8s.io/v1", "EndpointSlice") => {
            network::endpoint_slice(new, errors);
            errors.immutable("addressType", &old["addressType"], &new["addressType"]);
        }
        ("storage.k8s.io/v1", "StorageClass") => storage::storage_class_update(old, new, errors),
        ("scheduling.k8s.io/v1", "PriorityClass") => {
            policy::priority_class_update(old, new, errors);
        }
        _ => content(api_version, kind, new, errors),
    }
}

fn status(api_version: &str, kind: &str, old: &Value, new: &Value, errors: &mut ErrorList) {
    match (api_version, kind) {
        ("apps/v1", _) | ("v1", "ReplicationController") => {
            apps::validate_status(kind, old, new, errors);
        }
        ("v1", "Service") => service::service_status(new, errors),
        ("v1", "Namespace") => policy::namespace_status(new, errors),
        ("v1", "ResourceQuota") => policy::quota_status(new, errors),
        ("policy/v1", "PodDisruptionBudget") => policy::budget_status(new, errors),
        ("networking.k8s.io/v1", "Ingress") => {
            let ingress = super::object::items(new, "status.loadBalancer.ingress");
            service::load_balancer(ingress, errors);
        }
        _ => {}
    }
}
