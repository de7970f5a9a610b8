//! Validation of Jobs and CronJobs.

use serde_json::Value;

use super::{
    super::{
        object::{at, fields, has, int, is_true, items, text},
        shown::typed_object,
    },
    ErrorList, cron, pod, selector,
};

/// The numbers of a Job's spec that may not be negative, in the real server's order.
const COUNTS: [&str; 5] = [
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
];

pub(super) fn job(object: &Value, errors: &mut ErrorList) {
    generated_selector(object, errors);
    checked_spec(at(object, "spec"), errors);
}

/// Validates the spec of a Job with its selector.
fn checked_spec(spec: &Value, errors: &mut ErrorList) {
    job_spec(spec, "spec", errors);
    if has(spec, "selector") {
        selector::validate(at(spec, "selector"), "spec.selector", errors);
    } else {
        errors.required("spec.selector", "");
    }

    let matcher = at(spec, "selector");
    let labels = fields(spec, "template.metadata.labels");
    let matched = if matcher.is_null() {
        Some(false)
    } else {
        selector::matches_if_valid(matcher, labels)
    };

    if matched == Some(false) {
        let value = at(spec, "template.metadata.labels").clone();
        errors.invalid(
            "spec.template.metadata.labels",
            value,
            "`selector` does not match template `labels`",
        );
    }
}

/// Validates that the selector and the labels are those that the server generates.
fn generated_selector(object: &Value, errors: &mut ErrorList) {
    let spec = at(object, "spec");
    if is_true(spec, "manualSelector") || !has(spec, "selector") {
        return;
    }

    let uid = text(object, "metadata.uid");
    let labels = fields(spec, "template.metadata.labels");
    let expected = [
        ("controller-uid", uid),
        ("job-name", text(object, "metadata.name")),
        ("batch.kubernetes.io/controller-uid", uid),
        (
            "batch.kubernetes.io/job-name",
            text(object, "metadata.name"),
        ),
    ];

    for (key, value) in expected {
        let path = format!("spec.template.metadata.labels[{key}]");
        match labels.get(key).and_then(Value::as_str) {
            None => errors.required(&path, &format!("must be '{value}'")),
            Some(found) if found != value => {
                errors.invalid(
                    &path,
                    at(spec, "template.metadata.labels").clone(),
                    &format!("must be '{value}'"),
                );
            }
            Some(_) => {}
        }
    }

    let own = fields(spec, "selector.matchLabels");
    let only = own.len() == 1 && own.values().all(|value| value == uid);
    if !only || !items(spec, "selector.matchExpressions").is_empty() {
        let value = typed_object("meta/v1.LabelSelector", at(spec, "selector"));
        errors.invalid("spec.selector", value, "`selector` not auto-generated");
    }
}

fn job_spec(spec: &Value, path: &str, errors: &mut ErrorList) {
    for key in COUNTS {
        errors.non_negative(&format!("{path}.{key}"), &spec[key]);
    }

    let mode = text(spec, "completionMode");
    errors.one_of(
        &format!("{path}.completionMode"),
        &spec["completionMode"],
        &["NonIndexed", "Indexed"],
    );

    if mode == "Indexed" && !has(spec, "completions") {
        let detail = "when completion mode is Indexed";
        errors.required(&format!("{path}.completions"), detail);
    }

    for key in ["backoffLimitPerIndex", "maxFailedIndexes"] {
        errors.non_negative(&format!("{path}.{key}"), &spec[key]);
        if has(spec, key) && mode != "Indexed" {
            let value = spec[key].clone();
            errors.invalid(
                &format!("{path}.{key}"),
                value,
                "requires indexed completion mode",
            );
        }
    }

    let policies = ["Failed", "TerminatingOrFailed"];
    errors.one_of(
        &format!("{path}.podReplacementPolicy"),
        &spec["podReplacementPolicy"],
        &policies,
    );

    pod::template(at(spec, "template"), &format!("{path}.template"), errors);
    let policy = text(spec, "template.spec.restartPolicy");
    let field = format!("{path}.template.spec.restartPolicy");

    match policy {
        "OnFailure" | "Never" => {}
        "" | "Always" => errors.required(&field, "valid values: \"OnFailure\", \"Never\""),
        other => errors.not_supported(&field, other, &["OnFailure", "Never"]),
    }

    if has(spec, "podFailurePolicy") && policy != "Never" {
        let detail = "only \"Never\" is supported when podFailurePolicy is specified";
        errors.invalid(
            &format!("{path}.template.spec.restartPolicy"),
            policy,
            detail,
        );
    }
}

pub(super) fn job_update(old: &Value, new: &Value, errors: &mut ErrorList) {
    job(new, errors);
    let spec = at(new, "spec");
    checked_spec(spec, errors);

    let before = at(old, "spec");
    let elastic = text(spec, "completionMode") == "Indexed"
        && int(spec, "completions") == int(spec, "parallelism");
    if !elastic {
        errors.immutable(
            "spec.completions",
            &before["completions"],
            &spec["completions"],
        );
    }

    if before["selector"] != spec["selector"] {
        let value = typed_object("meta/v1.LabelSelector", &spec["selector"]);
        errors.invalid("spec.selector", value, "field is immutable");
    }

    let suspended = is_true(before, "suspend") && !has(old, "status.startTime");
    if before["template"] != spec["template"] && !suspended {
        errors.invalid(
            "spec.template",
            spec["template"].clone(),
            "field is immutable",
        );
    }

    for key in [
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        errors.immutable(&format!("spec.{key}"), &before[key], &spec[key]);
    }
}

/// The longest name of a CronJob: its Jobs add eleven characters.
const MAX_CRON_JOB: usize = 52;

pub(super) fn new_cron_job(object: &Value, errors: &mut ErrorList) {
    cron_job(object, errors);
    let name = text(object, "metadata.name");
    if name.len() > MAX_CRON_JOB {
        errors.invalid("metadata.name", name, "must be no more than 52 characters");
    }
}

pub(super) fn cron_job(object: &Value, errors: &mut ErrorList) {
    let spec = at(object, "spec");
    let schedule = text(spec, "schedule");
    if schedule.is_empty() {
        errors.required("spec.schedule", "");
    } else {
        cron_schedule(schedule, errors);
    }

    if let Some(zone) = spec["timeZone"].as_str() {
        time_zone(zone, errors);
    }

    errors.non_negative(
        "spec.startingDeadlineSeconds",
        &spec["startingDeadlineSeconds"],
    );

    let policies = ["Allow", "Forbid", "Replace"];
    errors.one_of(
        "spec.concurrencyPolicy",
        &spec["concurrencyPolicy"],
        &policies,
    );

    let template = at(spec, "jobTemplate.spec");
    if is_true(template, "manualSelector") {
        let allowed = ["nil", "false"];
        errors.not_supported("spec.jobTemplate.spec.manualSelector", true, &allowed);
    }

    job_spec(template, "spec.jobTemplate.spec", errors);
    if has(template, "selector") {
        let value = typed_object("meta/v1.LabelSelector", &template["selector"]);
        errors.invalid(
            "spec.jobTemplate.spec.selector",
            value,
            "`selector` will be auto-generated",
        );
    }

    for key in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        errors.non_negative(&format!("spec.{key}"), &spec[key]);
    }
}

fn cron_schedule(schedule: &str, errors: &mut ErrorList) {
    if let Err(message) = cron::parse(schedule) {
        errors.invalid("spec.schedule", schedule, &message);
    }

    if schedule.contains("TZ") {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.invalid("spec.schedule", schedule, detail);
    }
}

/// Validates the form of a time zone's name. Which zones exist depends on the real server's tz
/// database; here any name in one of its regions passes.
fn time_zone(zone: &str, errors: &mut ErrorList) {
    const REGIONS: [&str; 11] = [
        "Africa",
        "America",
        "Antarctica",
        "Arctic",
        "Asia",
        "Atlantic",
        "Australia",
        "Etc",
        "Europe",
        "Indian",
        "Pacific",
    ];

    if zone.is_empty() {
        errors.invalid(
            "spec.timeZone",
            zone,
            "timeZone must be nil or non-empty string",
        );
        return;
    }

    if zone.eq_ignore_ascii_case("local") {
        errors.invalid(
            "spec.timeZone",
            zone,
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
        );
    }

    let known = match zone.split_once('/') {
        Some((region, _)) => REGIONS.contains(&region) || region == "US",
        None => zone
            .chars()
            .all(|character| character.is_ascii_alphanumeric() || "+-".contains(character)),
    };
    if !known {
        errors.invalid("spec.timeZone", zone, &format!("unknown time zone {zone}"));
    }
}
