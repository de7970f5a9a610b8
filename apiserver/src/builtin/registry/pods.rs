//! Writes of Pods by the server itself: for bindings and evictions.

use serde_json::{Value, json};

use crate::{
    apimachinery::status::Status,
    server::format_time,
    shared::Shared,
    store::{Draft, GroupResource, ObjectKey, StoreError},
};

/// The number of attempts of a write, when other writes come first.
const ATTEMPTS: usize = 100;

/// The effect of a change on a Pod.
pub(crate) enum Outcome {
    /// It is replaced.
    Changed(Value),
    /// It is removed.
    Deleted,
    /// It stays as it is.
    Same,
}

pub(crate) fn resource() -> GroupResource {
    GroupResource::new("", "pods")
}

/// Changes a Pod by a function of its current state.
///
/// # Errors
///
/// 404 if there is none, and what the function refuses.
pub(crate) fn change(
    shared: &Shared,
    namespace: &str,
    name: &str,
    change: impl Fn(Value) -> Result<Outcome, Status>,
) -> Result<(), Status> {
    let key = ObjectKey::namespaced(namespace, name);
    for _ in 0..ATTEMPTS {
        let live = shared
            .store
            .get(&resource(), &key)
            .ok_or_else(|| Status::not_found(&resource(), name))?;
        let pod = live.to_value().map_err(Status::internal)?;
        let written = match change(pod)? {
            Outcome::Same => return Ok(()),
            Outcome::Deleted => shared.store.delete(&resource(), &key, live.revision()),
            Outcome::Changed(pod) => {
                let mut draft = Draft::from_object(&pod);
                if let Some(resource) = shared.resources().preferred("", "pods") {
                    draft = draft.with_fields(resource.strategy.fields(&pod));
                }
                shared
                    .store
                    .update(&resource(), &key, draft, live.revision())
            }
        };

        match written {
            Ok(_) => return Ok(()),
            Err(StoreError::Conflict { .. }) => {}
            Err(StoreError::NotFound) => return Err(Status::not_found(&resource(), name)),
            Err(error) => return Err(Status::internal(error)),
        }
    }

    Err(Status::modified(&resource(), name))
}

/// Sets a condition of a Pod to true, and its time if it was not.
pub(crate) fn set_true(
    pod: &mut Value,
    kind: &str,
    reason: &str,
    message: &str,
    now: jiff::Timestamp,
) {
    let mut condition = json!({
        "type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": format_time(now),
    });

    for (name, text) in [("reason", reason), ("message", message)] {
        if !text.is_empty() {
            condition[name] = text.into();
        }
    }

    if !pod["status"]["conditions"].is_array() {
        pod["status"]["conditions"] = json!([]);
    }

    let Some(conditions) = pod["status"]["conditions"].as_array_mut() else {
        return;
    };

    match conditions
        .iter_mut()
        .find(|condition| condition["type"] == kind)
    {
        None => conditions.push(condition),
        Some(old) => {
            if old["status"] == "True" {
                condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            *old = condition;
        }
    }
}

pub(crate) fn success() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
}

/// Reports whether a request only tries what it would do.
pub(crate) fn is_dry_run(query: &[(String, String)], options: &Value) -> bool {
    let in_options = options["dryRun"]
        .as_array()
        .is_some_and(|all| all.iter().any(|one| one == "All"));
    in_options
        || query
            .iter()
            .any(|(name, value)| name == "dryRun" && value == "All")
}
