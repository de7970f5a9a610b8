//! What a create or an update may set: the reset of status and spec, generations and managed
//! labels.

use serde_json::{Value, json};

use super::{
    codec::Instant,
    object::{at, at_mut, copy, has, is_true, remove, set, set_default, text},
    qos,
    resources::resource_of_kind,
    service,
};
use crate::apimachinery::metadata::keep_system_fields;

/// The part of an object whose change increments its generation.
#[derive(Clone, Copy, PartialEq)]
enum Generation {
    /// The object has no generation.
    None,
    /// Always 1.
    Constant,
    Field(&'static str),
    SpecOrAnnotations,
    /// All but the metadata, and the labels.
    AllButMetadata,
}

fn generation_of(api_version: &str, kind: &str) -> Generation {
    match (api_version.split('/').next().unwrap_or_default(), kind) {
        ("apps", "Deployment") => Generation::SpecOrAnnotations,
        ("apps", "ReplicaSet" | "StatefulSet" | "DaemonSet")
        | ("batch", "Job" | "CronJob")
        | ("policy", "PodDisruptionBudget")
        | ("networking.k8s.io", "Ingress" | "IngressClass" | "NetworkPolicy")
        | ("v1", "ReplicationController" | "Pod")
        | (
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicy"
            | "ValidatingAdmissionPolicyBinding"
            | "MutatingAdmissionPolicy"
            | "MutatingAdmissionPolicyBinding",
        )
        | ("resource.k8s.io", "DeviceClass" | "ResourceSlice" | "DeviceTaintRule")
        | ("apiextensions.k8s.io", "CustomResourceDefinition")
        | ("flowcontrol.apiserver.k8s.io", _) => Generation::Field("spec"),
        ("admissionregistration.k8s.io", _) => Generation::Field("webhooks"),
        ("scheduling.k8s.io", "PriorityClass") => Generation::Constant,
        ("discovery.k8s.io", "EndpointSlice") => Generation::AllButMetadata,
        ("v1", "PodTemplate") => Generation::Field("template"),
        _ => Generation::None,
    }
}

/// Reports whether an update of the status of a kind keeps the old metadata.
fn resets_metadata(api_version: &str, kind: &str) -> bool {
    let group = api_version.split('/').next().unwrap_or_default();
    matches!(
        (group, kind),
        ("admissionregistration.k8s.io", _)
            | ("networking.k8s.io", "ServiceCIDR")
            | ("storage.k8s.io", "VolumeAttachment")
            | ("resource.k8s.io", _)
            | ("flowcontrol.apiserver.k8s.io", _)
            | ("apiextensions.k8s.io" | "apiregistration.k8s.io", _)
    )
}

/// Prepares a new object: resets what a user may not set. The uid is set already.
pub(super) fn prepare_for_create(api_version: &str, kind: &str, object: &mut Value, now: Instant) {
    let has_status = resource_of_kind(api_version, kind)
        .is_some_and(|found| found.subresource("status").is_some());
    if has_status && kind != "Node" {
        set(object, "status", json!({}));
    }
    if generation_of(api_version, kind) != Generation::None {
        set(&mut object["metadata"], "generation", 1);
    }
    match (api_version, kind) {
        ("v1", "Pod") => {
            let class = qos::class(object);
            set(
                object,
                "status",
                json!({ "phase": "Pending", "qosClass": class }),
            );
        }
        ("v1", "Namespace") => namespace(object),
        ("v1", "PersistentVolume") => {
            set(
                object,
                "status",
                json!({ "phase": "Pending", "lastPhaseTransitionTime": now.to_seconds() }),
            );
        }
        ("v1", "PersistentVolumeClaim") => set(object, "status", json!({ "phase": "Pending" })),
        ("v1", "Secret") => string_data(object),
        ("apps/v1", "DaemonSet") => template_generation(object, 1),
        ("batch/v1", "Job") => job_selector(object),
        ("coordination.k8s.io/v1", "Lease") => drop_lease_strategy(&Value::Null, object),
        _ => {}
    }
}

/// Merges a Secret's stringData into its data, as the conversion does.
pub(super) fn string_data(object: &mut Value) {
    use base64::{Engine, prelude::BASE64_STANDARD};
    let Some(Value::Object(texts)) = remove(object, "stringData") else {
        return;
    };
    set_default(object, "data", json!({}));
    for (key, text) in texts {
        let encoded = BASE64_STANDARD.encode(text.as_str().unwrap_or_default());
        set(&mut object["data"], &key, encoded);
    }
}

/// Drops what coordinated leader election has, which is off in 1.36.
fn drop_lease_strategy(old: &Value, new: &mut Value) {
    for key in ["strategy", "preferredHolder"] {
        if !has(old, &format!("spec.{key}")) && has(new, "spec") {
            remove(&mut new["spec"], key);
        }
    }
}

fn namespace(object: &mut Value) {
    set(object, "status", json!({ "phase": "Active" }));
    set_default(object, "spec", json!({}));
    let spec = &mut object["spec"];
    set_default(spec, "finalizers", json!([]));
    if let Some(list) = spec["finalizers"]
        .as_array_mut()
        .filter(|list| !list.contains(&json!("kubernetes")))
    {
        list.push(json!("kubernetes"));
    }
}

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Writes the generation of a DaemonSet's template into the annotation that apps/v1 has for it.
pub(super) fn template_generation(object: &mut Value, generation: i64) {
    let metadata = &mut object["metadata"];
    set_default(metadata, "annotations", json!({}));
    let annotations = &mut metadata["annotations"];
    let current = annotations[TEMPLATE_GENERATION]
        .as_str()
        .and_then(|text| text.parse::<i64>().ok());
    let generation = current
        .filter(|current| *current >= generation)
        .unwrap_or(generation);
    set(annotations, TEMPLATE_GENERATION, generation.to_string());
}

/// Generates the selector of a Job, and the labels of its template, from its uid.
fn job_selector(object: &mut Value) {
    let uid = text(object, "metadata.uid").to_owned();
    let name = text(object, "metadata.name").to_owned();
    if is_true(object, "spec.manualSelector") {
        return;
    }
    let Some(spec) = at_mut(object, "spec") else {
        return;
    };
    let selector_key = "batch.kubernetes.io/controller-uid";
    if spec["template"]["metadata"].is_null() {
        set(&mut spec["template"], "metadata", json!({}));
    }
    let metadata = &mut spec["template"]["metadata"];
    set_default(metadata, "labels", json!({}));
    let labels = &mut metadata["labels"];
    for (key, value) in [
        ("controller-uid", &uid),
        ("job-name", &name),
        (selector_key, &uid),
        ("batch.kubernetes.io/job-name", &name),
    ] {
        set_default(labels, key, value.as_str());
    }
    set_default(spec, "selector", json!({}));
    set_default(&mut spec["selector"], "matchLabels", json!({}));
    let labels = &mut spec["selector"]["matchLabels"];
    set_default(labels, selector_key, uid);
}

/// Prepares an update of a resource or subresource: keeps what it may not change, and counts the
/// generation.
pub(super) fn prepare_for_update(
    api_version: &str,
    kind: &str,
    subresource: Option<&str>,
    old: &Value,
    new: &mut Value,
    now: Instant,
) {
    keep_system_fields(new, old);
    match subresource {
        None => main_update(api_version, kind, old, new),
        Some("status") => status_update(api_version, kind, old, new, now),
        Some("finalize") => copy(old, new, "status"),
        Some("approval") => {
            copy(old, new, "spec");
            copy(old, new, "status.certificate");
        }
        Some(_) => {}
    }
}

fn main_update(api_version: &str, kind: &str, old: &Value, new: &mut Value) {
    let has_status = resource_of_kind(api_version, kind)
        .is_some_and(|found| found.subresource("status").is_some());
    if has_status {
        copy(old, new, "status");
    }
    match (api_version, kind) {
        ("v1", "Namespace") => {
            set_default(new, "spec", json!({}));
            copy(old, new, "spec.finalizers");
        }
        ("v1", "Secret") => string_data(new),
        ("certificates.k8s.io/v1", "CertificateSigningRequest") => copy(old, new, "spec"),
        ("v1", "Service") => service::keep_allocated(old, new),
        ("coordination.k8s.io/v1", "Lease") => drop_lease_strategy(old, new),
        ("apps/v1", "DaemonSet") => {
            let current = text(old, "metadata.annotations")
                .parse::<i64>()
                .unwrap_or(0);
            let annotation = at(old, "metadata.annotations")[TEMPLATE_GENERATION].as_str();
            let mut generation = annotation
                .and_then(|text| text.parse().ok())
                .unwrap_or(current);
            if at(old, "spec.template") != at(new, "spec.template") {
                generation += 1;
            }
            if let Some(annotations) = at_mut(new, "metadata.annotations") {
                remove(annotations, TEMPLATE_GENERATION);
            }
            template_generation(new, generation);
        }
        _ => {}
    }
    let changed = match generation_of(api_version, kind) {
        Generation::None | Generation::Constant => false,
        Generation::Field(field) => at(old, field) != at(new, field),
        Generation::SpecOrAnnotations => {
            at(old, "spec") != at(new, "spec")
                || at(old, "metadata.annotations") != at(new, "metadata.annotations")
        }
        Generation::AllButMetadata => {
            let part = |object: &Value| {
                let mut part = object.clone();
                remove(&mut part, "metadata");
                part
            };
            part(old) != part(new) || at(old, "metadata.labels") != at(new, "metadata.labels")
        }
    };
    if changed {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
        set(&mut new["metadata"], "generation", generation);
    }
}

fn status_update(api_version: &str, kind: &str, old: &Value, new: &mut Value, now: Instant) {
    copy(old, new, "spec");
    match (api_version, kind) {
        ("apps/v1", "Deployment") => copy(old, new, "metadata.labels"),
        ("v1", "Pod") => {
            copy(old, new, "metadata.ownerReferences");
            if text(new, "status.qosClass").is_empty() {
                copy(old, new, "status.qosClass");
            }
        }
        ("v1", "PersistentVolume") => phase_transition(old, new, now),
        ("certificates.k8s.io/v1", "CertificateSigningRequest") => {
            copy(old, new, "status.conditions");
        }
        _ if resets_metadata(api_version, kind) => {
            let managed = at(new, "metadata.managedFields").clone();
            let version = at(new, "metadata.resourceVersion").clone();
            copy(old, new, "metadata");
            for (key, value) in [("managedFields", managed), ("resourceVersion", version)] {
                if !value.is_null() {
                    set(&mut new["metadata"], key, value);
                }
            }
        }
        _ => {}
    }
}

/// Records when the phase of a PersistentVolume changed.
fn phase_transition(old: &Value, new: &mut Value, now: Instant) {
    const TIME: &str = "status.lastPhaseTransitionTime";
    let same = text(old, "status.phase") == text(new, "status.phase");
    if same && !has(new, TIME) {
        copy(old, new, TIME);
    } else if !same && (!has(new, TIME) || at(old, TIME) == at(new, TIME)) {
        set(
            &mut new["status"],
            "lastPhaseTransitionTime",
            now.to_seconds(),
        );
    }
}
