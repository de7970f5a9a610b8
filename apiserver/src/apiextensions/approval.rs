//! The annotation by which the Kubernetes community approves APIs in its groups.

use super::model::Definition;
use crate::apimachinery::field::{FieldError, Path};

const ANNOTATION: &str = "api-approved.kubernetes.io";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Approved,
    Bypassed,
    Missing,
    Invalid,
}

/// Reports whether a group belongs to the Kubernetes community.
pub fn is_protected(group: &str) -> bool {
    group == "k8s.io"
        || group == "kubernetes.io"
        || group.ends_with(".k8s.io")
        || group.ends_with(".kubernetes.io")
}

fn annotation(definition: &Definition) -> &str {
    definition
        .metadata
        .pointer("/annotations")
        .and_then(|all| all.get(ANNOTATION)?.as_str())
        .unwrap_or_default()
}

fn state(annotation: &str) -> State {
    if annotation.is_empty() {
        return State::Missing;
    }
    if annotation.starts_with("unapproved") {
        return State::Bypassed;
    }

    let host = annotation.split_once("://").map_or("", |(_, rest)| {
        rest.split(['/', '?', '#']).next().unwrap_or("")
    });
    let scheme = annotation.split("://").next().unwrap_or_default();
    let is_url = !host.is_empty()
        && !scheme.is_empty()
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());

    if is_url {
        State::Approved
    } else {
        State::Invalid
    }
}

/// Requires the annotation in protected groups, unless an update leaves it as it was.
pub fn check(definition: &Definition, old: Option<&Definition>, errors: &mut Vec<FieldError>) {
    let text = annotation(definition);
    let new = state(text);
    let unchanged = old.is_some_and(|old| state(annotation(old)) == new);
    if !is_protected(&definition.spec.group) || unchanged {
        return;
    }

    let path = Path::new("metadata").child("annotations").key(ANNOTATION);
    let pull = "see https://github.com/kubernetes/enhancements/pull/1111";
    match new {
        State::Missing => {
            let detail =
                format!("protected groups must have approval annotation \"{ANNOTATION}\", {pull}");
            errors.push(FieldError::required(&path, detail));
        }
        State::Invalid => {
            let detail = format!(
                "protected groups must have approval annotation \"{ANNOTATION}\" with either a URL or a reason \
                 starting with \"unapproved\", {pull}"
            );
            errors.push(FieldError::invalid_text(&path, text, detail));
        }
        State::Approved | State::Bypassed => {}
    }
}

/// Returns the `KubernetesAPIApprovalPolicyConformant` condition for a definition in a protected
/// group: its status, reason and message.
pub fn condition(definition: &Definition) -> Option<(&'static str, &'static str, String)> {
    if !is_protected(&definition.spec.group) {
        return None;
    }

    let text = annotation(definition);
    let pull = "see https://github.com/kubernetes/enhancements/pull/1111";
    Some(match state(text) {
        State::Approved => ("True", "ApprovedAnnotation", format!("approved in {text}")),
        State::Bypassed => (
            "False",
            "UnapprovedAnnotation",
            format!("not approved: {}", crate::golang::quote(text)),
        ),
        State::Missing => {
            let message =
                format!("protected groups must have approval annotation \"{ANNOTATION}\", {pull}");
            ("False", "MissingAnnotation", message)
        }
        State::Invalid => {
            let message = format!(
                "protected groups must have approval annotation \"{ANNOTATION}\" with either a URL or a reason \
                 starting with \"unapproved\", {pull}"
            );
            ("False", "InvalidAnnotation", message)
        }
    })
}
