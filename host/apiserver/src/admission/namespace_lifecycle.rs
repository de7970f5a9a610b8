//! The admission plugin NamespaceLifecycle: no new objects in a Namespace that ends or does not exist.

use super::request::{AdmissionRequest, Operation};
use crate::authz::{
    error::{ApiError, Cause, Subject},
    objects::{Objects, text},
};

/// The Namespaces that nobody may delete.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Admits a request.
///
/// # Errors
/// `NotFound` if the Namespace does not exist; `Forbidden` if it is being terminated, or is one that may not be
/// deleted.
pub fn admit(request: &AdmissionRequest<'_>, objects: &dyn Objects) -> Result<(), ApiError> {
    let endpoint = request.endpoint;
    let is_namespace = endpoint.group.is_empty() && endpoint.kind == "Namespace";
    if is_namespace && request.operation == Operation::Delete && IMMORTAL.contains(&request.name) {
        return Err(ApiError::forbidden("", &endpoint.resource, request.name, "this namespace may not be deleted"));
    }
    let is_review = endpoint.group == "authorization.k8s.io" && endpoint.resource == "localsubjectaccessreviews";
    let is_checked = matches!(request.operation, Operation::Create | Operation::Update);
    if is_namespace || request.namespace.is_empty() || !is_checked || is_review {
        return Ok(());
    }
    let name = request.namespace;
    let namespace = objects.get("", "namespaces", "", name);
    let namespace = namespace.ok_or_else(|| ApiError::not_found("", "namespaces", name))?;
    if request.operation == Operation::Update || text(&namespace, &["status", "phase"]) != "Terminating" {
        return Ok(());
    }
    let cause = format!("unable to create new content in namespace {name} because it is being terminated");
    Err(ApiError::Denied {
        code: 403,
        reason: "Forbidden".to_owned(),
        message: request.forbidden(&cause).to_string(),
        subject: Subject::boxed(&endpoint.group, &endpoint.resource, &request.shown_name()),
        causes: vec![Cause {
            reason: "NamespaceTerminating",
            message: format!("namespace {name} is being terminated"),
            field: "metadata.namespace".to_owned(),
        }],
    })
}
