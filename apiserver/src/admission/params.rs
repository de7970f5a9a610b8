//! The parameters of a policy.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    apimachinery::selector::objects as label_selector,
    authz::objects::{Objects, text},
};

/// The resource of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamResource {
    /// The API group.
    pub group: String,
    /// The resource.
    pub resource: String,
    /// Tells whether its objects are in namespaces.
    pub is_namespaced: bool,
}

/// Finds the resource of a kind.
pub trait Kinds {
    /// Returns the resource of a kind by its `apiVersion` and `kind`; None if there is no such
    /// kind.
    fn resource_of(&self, api_version: &str, kind: &str) -> Option<ParamResource>;
}

/// Returns the parameters of a binding: each makes an evaluation of its own. A policy without
/// parameters has one that is None.
///
/// # Errors
/// Returns kube-apiserver's message if the reference is wrong, or has no object and says `Deny`.
pub(super) fn collect(
    param_kind: &Value,
    reference: &Value,
    resource: Option<&ParamResource>,
    namespace: &str,
    objects: &dyn Objects,
) -> Result<Vec<Option<Value>>, String> {
    if param_kind.is_null() || reference.is_null() {
        return Ok(vec![None]);
    }
    let Some(resource) = resource else {
        return Ok(Vec::new());
    };
    let own_namespace = text(reference, &["namespace"]);
    let namespace = match (resource.is_namespaced, own_namespace) {
        (false, "") => "",
        (false, _) => {
            return Err(
                "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
                    .to_owned(),
            );
        }
        (true, "") if namespace.is_empty() => {
            let message = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            return Err(message.to_owned());
        }
        (true, "") => namespace,
        (true, own) => own,
    };

    let found: Vec<Arc<Value>> = match text(reference, &["name"]) {
        "" => {
            let all = objects
                .list(&resource.group, &resource.resource, namespace)
                .into_iter();
            let selector = &reference["selector"];
            all.filter(|object| label_selector::matches(selector, &object["metadata"]["labels"]))
                .collect()
        }
        name => objects
            .get(&resource.group, &resource.resource, namespace, name)
            .into_iter()
            .collect(),
    };
    if found.is_empty() && text(reference, &["parameterNotFoundAction"]) == "Deny" {
        return Err(
            "no params found for policy binding with `Deny` parameterNotFoundAction".to_owned(),
        );
    }

    Ok(found
        .iter()
        .map(|object| Some(typed(object, param_kind)))
        .collect())
}

/// Returns an object with the version and kind that the policy names.
fn typed(object: &Value, param_kind: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        for field in ["apiVersion", "kind"] {
            fields.insert(field.to_owned(), json!(text(param_kind, &[field])));
        }
    }

    object
}
