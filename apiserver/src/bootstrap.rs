//! The objects that an API server creates when it starts: namespaces, the roles and bindings of
//! RBAC, its own Service.

use std::{fmt::Display, sync::LazyLock};

use serde_json::{Value, json};

use crate::{
    apimachinery::options::FieldValidation,
    authz::bootstrap,
    builtin::{self, Instant},
    server::format_time,
    shared::Shared,
    store::{Draft, ObjectKey, StoreError},
};

/// The namespaces that always exist.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// The objects as they are stored, but for their uid and creation time. A process that starts many
/// servers prepares them once.
static PREPARED: LazyLock<Result<Vec<Value>, String>> = LazyLock::new(prepare_all);

/// Creates what is missing.
///
/// # Errors
///
/// A message about the object that could not be created.
pub(crate) fn create_missing(shared: &Shared) -> Result<(), String> {
    PREPARED
        .as_ref()
        .map_err(Clone::clone)?
        .iter()
        .try_for_each(|object| create(shared, object))
}

fn prepare_all() -> Result<Vec<Value>, String> {
    let namespaces = NAMESPACES
        .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
        .into_iter();
    let roles = bootstrap::objects().map_err(|error| error.to_string())?;
    let objects = namespaces
        .chain(roles)
        .chain([own_service()])
        .chain(priority_classes());
    objects.map(|object| prepare(&object)).collect()
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
    [
        class("system-cluster-critical", 2_000_000_000, movable),
        class("system-node-critical", 2_000_001_000, fixed),
    ]
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

/// Decodes an object, and adds defaults.
fn prepare(object: &Value) -> Result<Value, String> {
    let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let decoded = builtin::decode_value(api_version, kind, object, FieldValidation::Strict);
    let mut object = decoded.map_err(|error| failed(object, &error))?.object;
    object["metadata"]["uid"] = "".into();
    object["metadata"]["creationTimestamp"] = "1970-01-01T00:00:00Z".into();
    // Nothing of these objects but the creation time depends on the time.
    let now = Instant {
        seconds: 0,
        nanos: 0,
    };
    builtin::prepare_create(api_version, kind, object.clone(), now)
        .map_err(|error| failed(&object, &error))
}

fn create(shared: &Shared, prepared: &Value) -> Result<(), String> {
    let failed = |error: &dyn Display| failed(prepared, error);
    let (name, namespace) = (
        text(&prepared["metadata"]["name"]),
        text(&prepared["metadata"]["namespace"]),
    );
    let resource =
        builtin::resource_of_kind(text(&prepared["apiVersion"]), text(&prepared["kind"]))
            .ok_or_else(|| failed(&"its kind is not known"))?;
    let resource = shared
        .resources()
        .get(&resource.group, &resource.version, &resource.plural)
        .ok_or_else(|| failed(&"it is not served"))?;
    let key = ObjectKey::new(
        Some(namespace).filter(|namespace| !namespace.is_empty()),
        name,
    );
    if shared.store.get(&resource.storage(), &key).is_some() {
        return Ok(());
    }
    let mut object = prepared.clone();
    object["metadata"]["uid"] = shared.environment.uid().into();
    object["metadata"]["creationTimestamp"] = format_time(shared.environment.now()).into();
    let draft = Draft::from_object(&object);
    let draft = draft.with_fields(resource.strategy.fields(&object));
    match shared.store.create(&resource.storage(), &key, draft) {
        Ok(_) | Err(StoreError::AlreadyExists) => Ok(()),
        Err(error) => Err(failed(&error)),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn failed(object: &Value, error: &dyn Display) -> String {
    format!(
        "failed to create {} {}: {error}",
        text(&object["kind"]),
        text(&object["metadata"]["name"])
    )
}
