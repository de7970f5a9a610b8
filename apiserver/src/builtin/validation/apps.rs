//! Validation of the kinds that create Pods.

use serde_json::{Value, json};

use super::{
    super::{
        object::{at, fields, has, int, items, text},
        shown::{internal_object, typed_object},
    },
    ErrorList, format, pod, selector,
};

const NO_MATCH: &str = "`selector` does not match template `labels`";

/// Validates a new object, or the main part of a changed one, of apps/v1.
pub(super) fn validate(kind: &str, object: &Value, errors: &mut ErrorList) {
    let spec = at(object, "spec");
    match kind {
        "Deployment" => deployment(spec, errors),
        "ReplicaSet" => replica_set(spec, errors),
        "StatefulSet" => stateful_set(spec, errors),
        "DaemonSet" => daemon_set(spec, errors),
        "ControllerRevision" => {
            if object["data"].is_null() {
                errors.required("data", "data is mandatory");
            }
            errors.non_negative("revision", &object["revision"]);
        }
        _ => {}
    }
}

/// Validates a selector that is required and may not be empty.
fn required_selector(spec: &Value, kind: &str, errors: &mut ErrorList) {
    let selector = at(spec, "selector");
    if selector.is_null() {
        errors.required("spec.selector", "");
        return;
    }

    selector::validate(selector, "spec.selector", errors);
    if selector::is_empty(selector) {
        let detail = format!("empty selector is invalid for {kind}");
        errors.invalid(
            "spec.selector",
            typed_object("meta/v1.LabelSelector", selector),
            &detail,
        );
    }
}

/// Validates a template and that the selector matches its labels. A selector without requirements
/// matches none.
fn template(spec: &Value, errors: &mut ErrorList) {
    template_labels(spec, errors);
    pod::template(at(spec, "template"), "spec.template", errors);
}

fn template_labels(spec: &Value, errors: &mut ErrorList) {
    let labels = fields(spec, "template.metadata.labels");
    let selector = at(spec, "selector");
    if !selector::is_empty(selector) || selector.is_null() {
        if !selector.is_null() && selector::matches_if_valid(selector, labels).unwrap_or(false) {
            // It matches.
        } else {
            errors.invalid(
                "spec.template.metadata.labels",
                labels_value(spec),
                NO_MATCH,
            );
        }
    }
}

/// Returns the labels of a template; null if there are none.
fn labels_value(spec: &Value) -> Value {
    at(spec, "template.metadata.labels").clone()
}

/// Validates that a template's Pods run forever: they always restart and have no deadline.
fn runs_forever(spec: &Value, owner: &str, errors: &mut ErrorList) {
    let template = at(spec, "template.spec");
    let policy = text(template, "restartPolicy");
    if policy != "Always" {
        errors.not_supported("spec.template.spec.restartPolicy", policy, &["Always"]);
    }

    if has(template, "activeDeadlineSeconds") {
        let detail = format!("activeDeadlineSeconds in {owner} is not Supported");
        errors.forbidden("spec.template.spec.activeDeadlineSeconds", &detail);
    }
}

fn deployment(spec: &Value, errors: &mut ErrorList) {
    errors.non_negative("spec.replicas", &spec["replicas"]);
    required_selector(spec, "deployment", errors);

    let matcher = at(spec, "selector");
    if !matcher.is_null()
        && selector::matches_if_valid(matcher, fields(spec, "template.metadata.labels")).is_none()
    {
        let value = typed_object("meta/v1.LabelSelector", matcher);
        errors.invalid("spec.selector", value, "invalid label selector");
    } else {
        replica_template(spec, errors);
    }

    strategy(at(spec, "strategy"), errors);
    errors.non_negative("spec.minReadySeconds", &spec["minReadySeconds"]);
    errors.non_negative("spec.revisionHistoryLimit", &spec["revisionHistoryLimit"]);

    if let Some(deadline) = int(spec, "progressDeadlineSeconds") {
        errors.non_negative("spec.progressDeadlineSeconds", &json!(deadline));
        if deadline <= int(spec, "minReadySeconds").unwrap_or(0) {
            let detail = "must be greater than minReadySeconds";
            errors.invalid("spec.progressDeadlineSeconds", deadline, detail);
        }
    }
}

fn replica_template(spec: &Value, errors: &mut ErrorList) {
    template(spec, errors);
    runs_forever(spec, "ReplicaSet", errors);
}

fn replica_set(spec: &Value, errors: &mut ErrorList) {
    errors.non_negative("spec.replicas", &spec["replicas"]);
    errors.non_negative("spec.minReadySeconds", &spec["minReadySeconds"]);

    // Not a slip: the real server's message for ReplicaSets says "deployment".
    required_selector(spec, "deployment", errors);

    let matcher = at(spec, "selector");
    if !matcher.is_null()
        && selector::matches_if_valid(matcher, fields(spec, "template.metadata.labels")).is_none()
    {
        let value = typed_object("meta/v1.LabelSelector", matcher);
        errors.invalid("spec.selector", value, "invalid label selector");
    } else {
        replica_template(spec, errors);
    }
}

/// Validates a number or a percentage of at least 0.
pub(super) fn int_or_percent(value: &Value, path: &str, errors: &mut ErrorList) {
    match value {
        Value::String(text) => errors.invalid_each(path, text, &format::percent(text)),
        other => errors.non_negative(path, other),
    }
}

/// Validates that a percentage is at most 100.
pub(super) fn at_most_all(value: &Value, path: &str, errors: &mut ErrorList) {
    let percent = value
        .as_str()
        .filter(|text| format::percent(text).is_empty());
    let number = percent.and_then(|text| text.trim_end_matches('%').parse::<i64>().ok());
    if let Some((percent, _)) = percent.zip(number).filter(|(_, number)| *number > 100) {
        errors.invalid(path, percent, "must not be greater than 100%");
    }
}

/// Returns the value of a number or a percentage; of a malformed one 0.
fn amount(value: &Value) -> i64 {
    value
        .as_i64()
        .or_else(|| value.as_str()?.trim_end_matches('%').parse().ok())
        .unwrap_or(0)
}

fn strategy(strategy: &Value, errors: &mut ErrorList) {
    match text(strategy, "type") {
        "Recreate" => {
            if has(strategy, "rollingUpdate") {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                errors.forbidden("spec.strategy.rollingUpdate", detail);
            }
        }
        "RollingUpdate" if !has(strategy, "rollingUpdate") => {
            errors.required(
                "spec.strategy.rollingUpdate",
                "this should be defaulted and never be nil",
            );
        }
        "RollingUpdate" => {
            let update = at(strategy, "rollingUpdate");
            let path = "spec.strategy.rollingUpdate";
            let unavailable = format!("{path}.maxUnavailable");
            int_or_percent(&update["maxUnavailable"], &unavailable, errors);
            int_or_percent(&update["maxSurge"], &format!("{path}.maxSurge"), errors);

            if amount(&update["maxUnavailable"]) == 0 && amount(&update["maxSurge"]) == 0 {
                let value = update["maxUnavailable"].clone();
                errors.invalid(&unavailable, value, "may not be 0 when `maxSurge` is 0");
            }

            at_most_all(&update["maxUnavailable"], &unavailable, errors);
        }
        _ => {
            let value = internal_object(strategy, &["type", "rollingUpdate"]);
            errors.not_supported("spec.strategy", value, &["Recreate", "RollingUpdate"]);
        }
    }
}

fn stateful_set(spec: &Value, errors: &mut ErrorList) {
    match text(spec, "podManagementPolicy") {
        "" => errors.required("spec.podManagementPolicy", ""),
        "OrderedReady" | "Parallel" => {}
        other => errors.invalid(
            "spec.podManagementPolicy",
            other,
            "must be 'OrderedReady' or 'Parallel'",
        ),
    }

    stateful_strategy(at(spec, "updateStrategy"), errors);
    let policy = at(spec, "persistentVolumeClaimRetentionPolicy");
    for key in ["whenDeleted", "whenScaled"] {
        let path = format!("spec.persistentVolumeClaimRetentionPolicy.{key}");
        errors.one_of(&path, &policy[key], &["Retain", "Delete"]);
    }

    errors.non_negative("spec.replicas", &spec["replicas"]);
    errors.non_negative("spec.minReadySeconds", &spec["minReadySeconds"]);
    if has(spec, "ordinals") {
        errors.non_negative("spec.ordinals.start", at(spec, "ordinals.start"));
    }

    required_selector(spec, "statefulset", errors);
    let matcher = at(spec, "selector");
    if !matcher.is_null()
        && selector::matches_if_valid(matcher, fields(spec, "template.metadata.labels")).is_none()
    {
        errors.invalid(
            "spec.selector",
            typed_object("meta/v1.LabelSelector", matcher),
            "",
        );
    } else {
        template_labels(spec, errors);
        let claims = items(spec, "volumeClaimTemplates");
        pod::template_with_claims(at(spec, "template"), claims, "spec.template", errors);
    }

    runs_forever(spec, "StatefulSet", errors);
}

fn stateful_strategy(strategy: &Value, errors: &mut ErrorList) {
    match text(strategy, "type") {
        "" => errors.required("spec.updateStrategy", ""),
        "OnDelete" => {
            if has(strategy, "rollingUpdate") {
                let detail = "only allowed for updateStrategy 'RollingUpdate'";
                let value = strategy["rollingUpdate"].clone();
                errors.invalid("spec.updateStrategy.rollingUpdate", value, detail);
            }
        }
        "RollingUpdate" => {
            let path = "spec.updateStrategy.rollingUpdate.partition";
            errors.non_negative(path, at(strategy, "rollingUpdate.partition"));
        }
        _ => {
            let value = internal_object(strategy, &["type", "rollingUpdate"]);
            errors.invalid(
                "spec.updateStrategy",
                value,
                "must be 'RollingUpdate' or 'OnDelete'",
            );
        }
    }
}

fn daemon_set(spec: &Value, errors: &mut ErrorList) {
    let matcher = at(spec, "selector");
    selector::validate(matcher, "spec.selector", errors);

    let labels = fields(spec, "template.metadata.labels");
    let matched = if matcher.is_null() {
        Some(false)
    } else {
        selector::matches_if_valid(matcher, labels)
    };

    let empty = !matcher.is_null() && selector::is_empty(matcher);
    if matched == Some(false) && !empty {
        errors.invalid(
            "spec.template.metadata.labels",
            labels_value(spec),
            NO_MATCH,
        );
    }

    if empty {
        let value = typed_object("meta/v1.LabelSelector", matcher);
        errors.invalid(
            "spec.selector",
            value,
            "empty selector is invalid for daemonset",
        );
    }

    pod::template(at(spec, "template"), "spec.template", errors);
    runs_forever(spec, "DaemonSet", errors);
    errors.non_negative("spec.minReadySeconds", &spec["minReadySeconds"]);
    daemon_strategy(at(spec, "updateStrategy"), errors);
    errors.non_negative("spec.revisionHistoryLimit", &spec["revisionHistoryLimit"]);
}

fn daemon_strategy(strategy: &Value, errors: &mut ErrorList) {
    match text(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let update = at(strategy, "rollingUpdate");
            let unavailable = "spec.updateStrategy.rollingUpdate.maxUnavailable";
            let surge = "spec.updateStrategy.rollingUpdate.maxSurge";
            for (key, path) in [("maxUnavailable", unavailable), ("maxSurge", surge)] {
                int_or_percent(&update[key], path, errors);
                at_most_all(&update[key], path, errors);
            }

            let has_unavailable = amount(&update["maxUnavailable"]) != 0;
            let has_surge = amount(&update["maxSurge"]) != 0;
            if has_unavailable && has_surge {
                let value = update["maxSurge"].clone();
                errors.invalid(
                    surge,
                    value,
                    "may not be set when maxUnavailable is non-zero",
                );
            } else if !has_unavailable && !has_surge {
                errors.required(unavailable, "cannot be 0 when maxSurge is 0");
            }
        }
        _ => {
            let value = internal_object(strategy, &["type", "rollingUpdate"]);
            errors.not_supported("spec.updateStrategy", value, &["RollingUpdate", "OnDelete"]);
        }
    }
}

pub(super) fn replication_controller(object: &Value, errors: &mut ErrorList) {
    let spec = at(object, "spec");
    errors.non_negative("spec.minReadySeconds", &spec["minReadySeconds"]);

    let selector = fields(spec, "selector");
    if selector.is_empty() {
        errors.required("spec.selector", "");
    }

    errors.non_negative("spec.replicas", &spec["replicas"]);
    if !has(spec, "template") {
        errors.required("spec.template", "");
        return;
    }

    let labels = fields(spec, "template.metadata.labels");
    if !selector.is_empty()
        && !selector
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
    {
        errors.invalid(
            "spec.template.metadata.labels",
            labels_value(spec),
            NO_MATCH,
        );
    }

    pod::template(at(spec, "template"), "spec.template", errors);
    runs_forever(spec, "ReplicationController", errors);
}

pub(super) fn validate_update(kind: &str, old: &Value, new: &Value, errors: &mut ErrorList) {
    if kind == "StatefulSet" {
        stateful_update(old, new, errors);
        return;
    }
    if kind == "ControllerRevision" {
        errors.immutable("data", &old["data"], &new["data"]);
        validate(kind, new, errors);
        return;
    }

    validate(kind, new, errors);
    if at(old, "spec.selector") != at(new, "spec.selector") {
        let value = typed_object("meta/v1.LabelSelector", at(new, "spec.selector"));
        errors.invalid("spec.selector", value, "field is immutable");
    }
}

fn stateful_update(old: &Value, new: &Value, errors: &mut ErrorList) {
    validate("StatefulSet", new, errors);
    let mutable = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];

    let fixed = |object: &Value| {
        let mut spec = fields(object, "spec").clone();
        mutable.iter().for_each(|key| drop(spec.remove(*key)));
        spec
    };
    if fixed(old) != fixed(new) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
            'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' \
            are forbidden";
        errors.forbidden("spec", detail);
    }
}

/// Validates the numbers of a status: none below zero, and none above the number of replicas.
pub(super) fn validate_status(kind: &str, old: &Value, new: &Value, errors: &mut ErrorList) {
    let status = at(new, "status");
    let number = |key: &str| int(status, key).unwrap_or(0);
    let keys: &[&str] = match kind {
        "Deployment" => &[
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
        ],
        "StatefulSet" => &[
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
        ],
        "DaemonSet" => {
            daemon_status(status, errors);
            return;
        }
        _ => &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
    };

    let path = |key: &str| format!("status.{key}");
    errors.non_negative("status.replicas", &json!(number("replicas")));
    for key in keys {
        errors.non_negative(&path(key), &json!(number(key)));
    }

    errors.non_negative(
        "status.observedGeneration",
        &json!(number("observedGeneration")),
    );

    if kind == "Deployment"
        && number("collisionCount") < int(old, "status.collisionCount").unwrap_or(0)
    {
        errors.invalid(
            "status.collisionCount",
            number("collisionCount"),
            "cannot be decremented",
        );
    }

    let total = number("replicas");
    let above: Vec<&&str> = keys
        .iter()
        .filter(|key| **key != "unavailableReplicas" && number(key) > total)
        .collect();
    for key in above {
        errors.invalid(
            &path(key),
            number(key),
            "cannot be greater than status.replicas",
        );
    }

    let available = number("availableReplicas");
    if available > number("readyReplicas") {
        let detail = if kind == "StatefulSet" {
            "cannot be greater than status.readyReplicas"
        } else {
            "cannot be greater than readyReplicas"
        };
        errors.invalid("status.availableReplicas", available, detail);
    }
}

fn daemon_status(status: &Value, errors: &mut ErrorList) {
    for key in [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
    ] {
        errors.non_negative(&format!("status.{key}"), &status[key]);
    }
}
