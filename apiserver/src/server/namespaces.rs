//! The life of namespaces: nothing is created in a missing or terminating one, and a deleted one
//! first loses its contents.

use serde_json::{Value, json};

use super::{call::Call, environment::format_time};
use crate::{
    apimachinery::{
        metadata,
        status::{Cause, Status},
    },
    store::{GroupResource, ObjectKey},
};

/// Namespaces that always exist.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Returns the name under which namespaces are stored.
pub(super) fn group_resource() -> GroupResource {
    GroupResource::new("", "namespaces")
}

/// Reports whether a request is for namespaces.
pub(super) fn is_namespaces(call: &Call<'_>) -> bool {
    call.view.resource.group.is_empty() && call.view.resource.names.plural == "namespaces"
}

/// Checks that the namespace of a new object exists and is not terminating.
///
/// # Errors
///
/// 404 and 403.
pub(super) fn check_namespace(call: &Call<'_>, name: &str) -> Result<(), Status> {
    let Some(namespace) = call.namespace() else {
        return Ok(());
    };

    let found = call
        .state
        .store
        .get(&group_resource(), &ObjectKey::cluster(namespace));
    let found = found.ok_or_else(|| Status::not_found(&group_resource(), namespace))?;
    let object = found.to_value().map_err(Status::internal)?;
    if object["status"]["phase"] != "Terminating" {
        return Ok(());
    }

    let message = format!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    );
    let mut error = Status::forbidden(&call.group_resource(), name, &message);
    if let Some(details) = &mut error.details {
        details.causes.push(Cause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".into(),
        });
    }

    Err(error)
}

/// Refuses to delete the namespaces that the API server needs.
///
/// # Errors
///
/// 403.
pub(super) fn check_deletion(name: &str) -> Result<(), Status> {
    if IMMORTAL.contains(&name) {
        return Err(Status::forbidden(
            &group_resource(),
            name,
            "this namespace may not be deleted",
        ));
    }

    Ok(())
}

/// Returns the namespace marked as terminating. Its contents and its finalizers go first.
pub(super) fn terminating(namespace: &Value, now: jiff::Timestamp, orphan: Option<bool>) -> Value {
    let mut changed = namespace.clone();
    if !metadata::is_terminating(&changed) {
        metadata::set(&mut changed, "deletionTimestamp", format_time(now));
    }

    if changed["status"].is_object() {
        changed["status"]["phase"] = "Terminating".into();
    } else {
        changed["status"] = json!({"phase": "Terminating"});
    }

    if let Some(orphan) = orphan {
        let mut finalizers: Vec<&str> = metadata::finalizers(namespace);
        finalizers.retain(|finalizer| *finalizer != "orphan");
        if orphan {
            finalizers.push("orphan");
        }

        let finalizers = if finalizers.is_empty() {
            Value::Null
        } else {
            json!(finalizers)
        };

        metadata::set(&mut changed, "finalizers", finalizers);
    }

    changed
}

/// Reports whether a terminating namespace has no finalizers left.
pub(super) fn is_empty(namespace: &Value) -> bool {
    let finalizers = namespace["spec"]["finalizers"].as_array();
    finalizers.is_none_or(Vec::is_empty) && metadata::finalizers(namespace).is_empty()
}
