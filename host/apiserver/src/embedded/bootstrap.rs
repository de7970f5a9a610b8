//! The objects that an API server creates when it starts: namespaces, the roles and bindings of RBAC, its own Service.

use serde_json::{Value, json};

use super::shared::Shared;
use crate::{
    authz::bootstrap,
    http::format_time,
    kinds::{self, FieldValidation, Instant},
    store::{Draft, ObjectKey, StoreError},
};

/// The namespaces that always exist.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Creates what is missing.
///
/// # Errors
///
/// A message about the object that could not be created.
pub(super) fn create_missing(shared: &Shared) -> Result<(), String> {
    let namespaces =
        NAMESPACES.map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).into_iter();
    let roles = bootstrap::objects().map_err(|error| error.to_string())?;
    for object in namespaces.chain(roles).chain([own_service()]).chain(priority_classes()) {
        create(shared, &object)?;
    }
    Ok(())
}

/// Returns the priority classes of Pods of the system.
fn priority_classes() -> [Value; 2] {
    let class = |name: &str, value: i64, description: &str| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "value": value, "description": description, "preemptionPolicy": "PreemptLowerPriority",
        })
    };
    let movable = "Used for system critical pods that must run in the cluster, but can be moved to another node if \
        necessary.";
    let fixed = "Used for system critical pods that must not be moved from their current node.";
    [class("system-cluster-critical", 2_000_000_000, movable), class("system-node-critical", 2_000_001_000, fixed)]
}

/// Returns the Service `kubernetes`, which every cluster has.
fn own_service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "type": "ClusterIP", "sessionAffinity": "None",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    })
}

fn create(shared: &Shared, object: &Value) -> Result<(), String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let (name, namespace) = (text(&object["metadata"]["name"]), text(&object["metadata"]["namespace"]));
    let failed = |error: &dyn std::fmt::Display| format!("failed to create {kind} {name}: {error}");
    let resource = kinds::resource_of_kind(&api_version, &kind).ok_or_else(|| failed(&"its kind is not known"))?;
    let resource = shared
        .resources()
        .get(&resource.group, &resource.version, &resource.plural)
        .ok_or_else(|| failed(&"it is not served"))?;
    let key = ObjectKey::new(Some(namespace.as_str()).filter(|namespace| !namespace.is_empty()), &name);
    if shared.store.get(&resource.storage(), &key).is_some() {
        return Ok(());
    }
    let decoded = kinds::decode_value(&api_version, &kind, object, FieldValidation::Strict);
    let mut object = decoded.map_err(|error| failed(&error))?.object;
    let now = shared.environment.now();
    object["metadata"]["uid"] = shared.environment.uid().into();
    object["metadata"]["creationTimestamp"] = format_time(now).into();
    let now = Instant { seconds: now.as_second(), nanos: 0 };
    let object = kinds::prepare_create(&api_version, &kind, object, now).map_err(|error| failed(&error))?;
    let draft = Draft::from_object(&object).map_err(|error| failed(&error))?;
    let draft = draft.with_fields(resource.strategy.fields(&object));
    match shared.store.create(&resource.storage(), &key, draft) {
        Ok(_) | Err(StoreError::AlreadyExists) => Ok(()),
        Err(error) => Err(failed(&error)),
    }
}
