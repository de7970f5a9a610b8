//! Validation of updates of Pods: which fields of the spec may change.

use serde_json::{Value, json};

use super::super::super::object::{at, copy, int, items, items_mut, set, text};
use super::super::ErrorList;

const RULE: &str = "pod updates may not change fields other than \
    `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` \
    (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it \
    was previously negative)";

/// Validates an update of a Pod's spec.
///
/// The message ends after the rule, where the API server's appends a diff of the internal objects.
pub(in super::super) fn pod(old: &Value, new: &Value, errors: &mut ErrorList) {
    for path in ["spec.containers", "spec.initContainers"] {
        if items(old, path).len() != items(new, path).len() {
            errors.forbidden(path, "pod updates may not add or remove containers");
            return;
        }

        for (index, container) in items(new, path).iter().enumerate() {
            let image = text(container, "image");
            let path = format!("{path}[{index}].image");
            if image.is_empty() {
                errors.required(&path, "");
            } else if image != image.trim() {
                errors.invalid(&path, image, "must not have leading or trailing whitespace");
            }
        }
    }

    deadline(old, new, errors);

    let mut mutable = new.clone();
    for list in ["spec.containers", "spec.initContainers"] {
        let images: Vec<Value> = items(old, list)
            .iter()
            .map(|container| container["image"].clone())
            .collect();

        for (container, image) in items_mut(&mut mutable, list).zip(images) {
            set(container, "image", image);
        }
    }

    copy(old, &mut mutable, "spec.activeDeadlineSeconds");

    tolerations(old, new, errors);
    copy(old, &mut mutable, "spec.tolerations");

    if int(old, "spec.terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0)
        && at(new, "spec.terminationGracePeriodSeconds") == &json!(1)
    {
        copy(old, &mut mutable, "spec.terminationGracePeriodSeconds");
    }

    if at(old, "spec") != at(&mutable, "spec") {
        errors.forbidden("spec", RULE);
    }
}

/// A deadline may only be set or shortened.
fn deadline(old: &Value, new: &Value, errors: &mut ErrorList) {
    const PATH: &str = "spec.activeDeadlineSeconds";

    match (int(old, PATH), int(new, PATH)) {
        (Some(before), Some(after)) if after > before => {
            let detail = "must be less than or equal to previous value";
            errors.invalid(PATH, after, detail);
        }
        (Some(_), None) => errors.invalid(
            PATH,
            Value::Null,
            "must not update from a positive integer to nil value",
        ),
        _ => {}
    }
}

/// Tolerations may only be added.
fn tolerations(old: &Value, new: &Value, errors: &mut ErrorList) {
    const PATH: &str = "spec.tolerations";

    let after = items(new, PATH);
    let without_seconds = |toleration: &Value| {
        let mut toleration = toleration.clone();
        super::super::super::object::remove(&mut toleration, "tolerationSeconds");
        toleration
    };

    let kept = items(old, PATH).iter().all(|toleration| {
        after
            .iter()
            .any(|other| without_seconds(other) == without_seconds(toleration))
    });

    if !kept {
        errors.forbidden(
            PATH,
            "existing toleration can not be modified except its tolerationSeconds",
        );
    }
}
