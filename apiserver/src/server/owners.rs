//! The owner references of objects in requests.

use serde_json::Value;

use super::call::Call;

/// When owner references are looked at, which the client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// As the client sent them.
    Request,
    /// After mutating admission. Patches are only looked at here.
    Admitted,
}

/// Removes the owner references that an object has twice, and warns of their UIDs. References with
/// the same UID and other differences stay.
///
/// This is `dedupOwnerReferences` of
/// <https://github.com/kubernetes/kubernetes/blob/v1.36.2/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/rest.go>.
pub(super) fn remove_duplicates(call: &Call<'_>, object: &mut Value, stage: Stage) {
    let Some(owners) = object
        .pointer_mut("/metadata/ownerReferences")
        .and_then(Value::as_array_mut)
    else {
        return;
    };

    let mut kept: Vec<Value> = Vec::with_capacity(owners.len());
    let mut duplicates = Vec::new();
    for owner in owners.drain(..) {
        if kept.contains(&owner) {
            duplicates.push(owner["uid"].as_str().unwrap_or_default().to_owned());
        } else {
            kept.push(owner);
        }
    }
    *owners = kept;

    if !duplicates.is_empty() {
        let after = match stage {
            Stage::Request => "",
            Stage::Admitted => " after mutating admission happens",
        };
        call.warn(format!(
            ".metadata.ownerReferences contains duplicate entries{after}; API server dedups owner references in 1.20+, \
             and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            duplicates.join(", ")
        ));
    }
}
