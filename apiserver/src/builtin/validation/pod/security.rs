//! Validation of security contexts.

use serde_json::{Value, json};

use super::super::super::object::{at, is_true, items, text};
use super::super::{ErrorList, format};

const MAX_ID: i64 = i32::MAX as i64;

fn id(value: &Value, path: &str, errors: &mut ErrorList) {
    if let Some(number) = value.as_i64()
        && let Some(message) = format::range(number, 0, MAX_ID)
    {
        errors.invalid(path, number, &message);
    }
}

/// Validates the security context of a Pod, including its fields in the spec.
pub(super) fn pod(spec: &Value, path: &str, errors: &mut ErrorList) {
    let context = at(spec, "securityContext");

    for key in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(at(context, key), &format!("{path}.{key}"), errors);
    }

    for (index, group) in items(context, "supplementalGroups").iter().enumerate() {
        id(
            group,
            &format!("{path}.supplementalGroups[{index}]"),
            errors,
        );
    }

    if is_true(spec, "shareProcessNamespace") && is_true(spec, "hostPID") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&format!("{path}.shareProcessNamespace"), true, detail);
    }

    let policies = ["Always", "OnRootMismatch"];
    errors.one_of(
        &format!("{path}.fsGroupChangePolicy"),
        at(context, "fsGroupChangePolicy"),
        &policies,
    );

    seccomp(
        at(context, "seccompProfile"),
        &format!("{path}.seccompProfile"),
        errors,
    );

    let policies = ["Merge", "Strict"];
    errors.one_of(
        &format!("{path}.supplementalGroupsPolicy"),
        at(context, "supplementalGroupsPolicy"),
        &policies,
    );
}

pub(super) fn container(context: &Value, path: &str, errors: &mut ErrorList) {
    for key in ["runAsUser", "runAsGroup"] {
        id(at(context, key), &format!("{path}.{key}"), errors);
    }

    errors.one_of(
        &format!("{path}.procMount"),
        at(context, "procMount"),
        &["Default", "Unmasked"],
    );

    seccomp(
        at(context, "seccompProfile"),
        &format!("{path}.seccompProfile"),
        errors,
    );

    if at(context, "allowPrivilegeEscalation") != &json!(false) {
        return;
    }

    if is_true(context, "privileged") {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        errors.invalid(path, internal(context), detail);
    }

    if items(context, "capabilities.add")
        .iter()
        .any(|capability| capability == "CAP_SYS_ADMIN")
    {
        let detail =
            "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
        errors.invalid(path, internal(context), detail);
    }
}

/// The context as Go prints the internal type, which the message contains.
fn internal(context: &Value) -> crate::apimachinery::field::Shown {
    let keys = [
        "capabilities",
        "privileged",
        "seLinuxOptions",
        "windowsOptions",
        "runAsUser",
        "runAsGroup",
        "runAsNonRoot",
        "readOnlyRootFilesystem",
        "allowPrivilegeEscalation",
        "procMount",
        "seccompProfile",
        "appArmorProfile",
    ];

    super::super::super::shown::internal_object(context, &keys)
}

fn seccomp(profile: &Value, path: &str, errors: &mut ErrorList) {
    if profile.is_null() {
        return;
    }

    let kind = text(profile, "type");
    let has_file = !at(profile, "localhostProfile").is_null();

    if kind == "Localhost" {
        if !has_file {
            errors.required(
                &format!("{path}.localhostProfile"),
                "must be set when seccomp type is Localhost",
            );
        }
        return;
    }

    if has_file {
        let value = text(profile, "localhostProfile");
        let detail = "can only be set when seccomp type is Localhost";
        errors.invalid(&format!("{path}.localhostProfile"), value, detail);
    }

    let kinds = ["Localhost", "RuntimeDefault", "Unconfined"];
    if kind.is_empty() {
        errors.required(
            &format!("{path}.type"),
            "type is required when seccompProfile is set",
        );
    } else {
        errors.one_of(&format!("{path}.type"), &profile["type"], &kinds);
    }
}
