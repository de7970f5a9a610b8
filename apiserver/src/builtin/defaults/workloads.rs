//! Defaults of workloads.

use serde_json::{Value, json};

use super::super::object::{at, at_mut, fields, has, items_mut, set, set_default, text};
use super::{pod, storage};

pub(super) fn replication_controller(object: &mut Value) {
    pod::template(object, "spec.template");

    let labels = fields(object, "spec.template.metadata.labels").clone();
    if !labels.is_empty() {
        if let Some(spec) = at_mut(object, "spec") {
            set_default(spec, "selector", labels.clone());
        }
        set_default(&mut object["metadata"], "labels", labels);
    }

    if let Some(spec) = at_mut(object, "spec") {
        set_default(spec, "replicas", 1);
    }
}

pub(super) fn deployment(object: &mut Value) {
    pod::template(object, "spec.template");
    let Some(spec) = at_mut(object, "spec") else {
        return;
    };

    set_default(spec, "replicas", 1);
    set_default(spec, "strategy", json!({}));
    let strategy = &mut spec["strategy"];
    set_default(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        set_default(strategy, "rollingUpdate", json!({}));
        let update = &mut strategy["rollingUpdate"];
        set_default_number_or_text(update, "maxUnavailable", "25%");
        set_default_number_or_text(update, "maxSurge", "25%");
    }

    set_default(spec, "revisionHistoryLimit", 10);
    set_default(spec, "progressDeadlineSeconds", 600);
}

/// Sets a field of which an empty text counts as a value.
fn set_default_number_or_text(value: &mut Value, key: &str, default: impl Into<Value>) {
    if value[key].is_null() {
        set(value, key, default);
    }
}

pub(super) fn replica_set(object: &mut Value) {
    pod::template(object, "spec.template");
    if let Some(spec) = at_mut(object, "spec") {
        set_default(spec, "replicas", 1);
    }
}

pub(super) fn stateful_set(object: &mut Value) {
    pod::template(object, "spec.template");
    let Some(spec) = at_mut(object, "spec") else {
        return;
    };

    set_default(spec, "podManagementPolicy", "OrderedReady");
    set_default(spec, "updateStrategy", json!({}));
    let strategy = &mut spec["updateStrategy"];
    set_default(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        set_default(strategy, "rollingUpdate", json!({}));
        set_default(&mut strategy["rollingUpdate"], "partition", 0);
    }

    set_default(spec, "persistentVolumeClaimRetentionPolicy", json!({}));
    let policy = &mut spec["persistentVolumeClaimRetentionPolicy"];
    set_default(policy, "whenDeleted", "Retain");
    set_default(policy, "whenScaled", "Retain");

    set_default(spec, "replicas", 1);
    set_default(spec, "revisionHistoryLimit", 10);

    for claim in items_mut(spec, "volumeClaimTemplates") {
        set(claim, "apiVersion", "v1");
        set(claim, "kind", "PersistentVolumeClaim");
        storage::persistent_volume_claim(claim);
    }
}

pub(super) fn daemon_set(object: &mut Value) {
    pod::template(object, "spec.template");
    let Some(spec) = at_mut(object, "spec") else {
        return;
    };

    set_default(spec, "updateStrategy", json!({}));
    let strategy = &mut spec["updateStrategy"];
    set_default(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        set_default(strategy, "rollingUpdate", json!({}));
        set_default_number_or_text(&mut strategy["rollingUpdate"], "maxUnavailable", 1);
        set_default_number_or_text(&mut strategy["rollingUpdate"], "maxSurge", 0);
    }

    set_default(spec, "revisionHistoryLimit", 10);
}

pub(super) fn job(object: &mut Value) {
    pod::template(object, "spec.template");
    let Some(spec) = at_mut(object, "spec") else {
        return;
    };

    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        set(spec, "completions", 1);
    }
    set_default(spec, "parallelism", 1);

    if has(spec, "backoffLimitPerIndex") {
        set_default(spec, "backoffLimit", i32::MAX);
    }
    set_default(spec, "backoffLimit", 6);
    set_default(spec, "completionMode", "NonIndexed");
    set_default(spec, "suspend", false);
    set_default(spec, "manualSelector", false);

    let replacement = if has(spec, "podFailurePolicy") {
        "Failed"
    } else {
        "TerminatingOrFailed"
    };
    set_default(spec, "podReplacementPolicy", replacement);
    for rule in items_mut(spec, "podFailurePolicy.rules") {
        items_mut(rule, "onPodConditions")
            .for_each(|condition| set_default(condition, "status", "True"));
    }
}

/// Gives a Job without labels those of its template, including generated ones.
pub(super) fn job_labels(object: &mut Value) {
    let labels = fields(object, "spec.template.metadata.labels").clone();
    if !labels.is_empty() {
        set_default(&mut object["metadata"], "labels", labels);
    }
}

pub(super) fn cron_job(object: &mut Value) {
    let Some(spec) = at_mut(object, "spec") else {
        return;
    };

    set_default(spec, "concurrencyPolicy", "Allow");
    set_default(spec, "suspend", false);
    set_default(spec, "successfulJobsHistoryLimit", 3);
    set_default(spec, "failedJobsHistoryLimit", 1);

    if at(spec, "jobTemplate.spec").is_object() {
        pod::template(spec, "jobTemplate.spec.template");
    }
}
