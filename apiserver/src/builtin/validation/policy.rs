//! Validation of budgets, autoscalers, quotas, limits, leases, events and other small kinds.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    super::{
        codec::Quantity,
        object::{at, fields, has, int, items, text},
        shown::internal_object,
    },
    ErrorList, apps, format, metadata, network, pod, selector,
};

pub(super) fn budget(object: &Value, errors: &mut ErrorList) {
    let spec = at(object, "spec");
    if has(spec, "minAvailable") && has(spec, "maxUnavailable") {
        let mut shown = spec.clone();
        let labels = super::super::codec::typed_json("meta/v1.LabelSelector", &spec["selector"]);
        shown["selector"] = serde_json::from_str(&labels).unwrap_or_default();

        let keys = [
            "minAvailable",
            "selector",
            "maxUnavailable",
            "unhealthyPodEvictionPolicy",
        ];
        let value = internal_object(&shown, &keys);

        errors.invalid(
            "spec",
            value,
            "minAvailable and maxUnavailable cannot be both set",
        );
    }

    for key in ["minAvailable", "maxUnavailable"] {
        let path = format!("spec.{key}");
        apps::int_or_percent(&spec[key], &path, errors);
        apps::at_most_all(&spec[key], &path, errors);
    }

    selector::validate(at(spec, "selector"), "spec.selector", errors);
    let policies = ["AlwaysAllow", "IfHealthyBudget"];
    errors.one_of(
        "spec.unhealthyPodEvictionPolicy",
        &spec["unhealthyPodEvictionPolicy"],
        &policies,
    );
}

pub(super) fn budget_status(new: &Value, errors: &mut ErrorList) {
    for key in [
        "disruptionsAllowed",
        "currentHealthy",
        "desiredHealthy",
        "expectedPods",
    ] {
        errors.non_negative(&format!("status.{key}"), at(new, &format!("status.{key}")));
    }
}

pub(super) fn lease(object: &Value, errors: &mut ErrorList) {
    let spec = at(object, "spec");
    if let Some(seconds) = int(spec, "leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        errors.invalid(
            "spec.leaseDurationSeconds",
            seconds,
            "must be greater than 0",
        );
    }

    errors.non_negative("spec.leaseTransitions", &spec["leaseTransitions"]);
}

pub(super) fn autoscaler(object: &Value, errors: &mut ErrorList) {
    let spec = at(object, "spec");
    let minimum = int(spec, "minReplicas");
    if let Some(minimum) = minimum.filter(|minimum| *minimum < 1) {
        errors.invalid(
            "spec.minReplicas",
            minimum,
            "must be greater than or equal to 1",
        );
    }

    let maximum = int(spec, "maxReplicas").unwrap_or(0);
    if maximum == 0 {
        errors.required("spec.maxReplicas", "must be set and greater than 0");
    } else if maximum < 0 {
        errors.invalid(
            "spec.maxReplicas",
            maximum,
            "must be greater than or equal to 1",
        );
    }

    if minimum.is_some_and(|minimum| maximum < minimum) {
        errors.invalid(
            "spec.maxReplicas",
            maximum,
            "must be greater than or equal to `minReplicas`",
        );
    }

    scale_target(at(spec, "scaleTargetRef"), errors);
    for (index, metric) in items(spec, "metrics").iter().enumerate() {
        let kinds = [
            "ContainerResource",
            "External",
            "Object",
            "Pods",
            "Resource",
        ];

        let path = format!("spec.metrics[{index}].type");
        if text(metric, "type").is_empty() {
            errors.required(&path, "must specify a metric source type");
            errors.not_supported(&path, "", &kinds);
        } else {
            // The real server's two validations both report it.
            errors.one_of(&path, &metric["type"], &kinds);
            errors.one_of(&path, &metric["type"], &kinds);
        }
    }

    for (index, metric) in items(spec, "metrics").iter().enumerate() {
        if has(metric, "resource") && text(metric, "resource.name").is_empty() {
            let path = format!("spec.metrics[{index}].resource.name");
            errors.required(&path, "must specify a resource name");
        }
    }

    let external = items(spec, "metrics")
        .iter()
        .any(|metric| matches!(text(metric, "type"), "Object" | "External"));
    if minimum == Some(0) && !external {
        let detail = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.forbidden("spec.metrics", detail);
    }
}

fn scale_target(target: &Value, errors: &mut ErrorList) {
    for key in ["kind", "name"] {
        let value = text(target, key);
        let path = format!("spec.scaleTargetRef.{key}");
        if value.is_empty() {
            errors.required(&path, "");
        } else {
            errors.invalid_each(&path, value, &format::path_segment(value));
        }
    }

    let version = text(target, "apiVersion");
    if !version.contains('/') {
        errors.invalid(
            "spec.scaleTargetRef.apiVersion",
            version,
            "apiVersion must specify API group",
        );
    }
}

pub(super) fn quota(object: &Value, errors: &mut ErrorList) {
    quota_list(object, "spec.hard", errors);
    for scope in items(object, "spec.scopes") {
        let known = [
            "BestEffort",
            "CrossNamespacePodAffinity",
            "NotBestEffort",
            "NotTerminating",
            "PriorityClass",
        ];

        let name = scope.as_str().unwrap_or_default();
        if !known.contains(&name) && !matches!(name, "Terminating" | "VolumeAttributesClass") {
            errors.invalid(
                "spec.scopes",
                items(object, "spec.scopes").to_vec(),
                "unsupported scope",
            );
        }
    }
}

/// Validates the amounts of a quota.
fn quota_list(object: &Value, path: &str, errors: &mut ErrorList) {
    for (name, amount) in fields(object, path) {
        let own = format!("{path}[{name}]");
        errors.invalid_each(&own, name, &format::qualified_name(name));

        let bare = name
            .trim_start_matches("requests.")
            .trim_start_matches("limits.");
        let compute = matches!(bare, "cpu" | "memory" | "ephemeral-storage" | "storage")
            || bare.starts_with("hugepages-");
        let counted = matches!(
            name.as_str(),
            "pods"
                | "services"
                | "replicationcontrollers"
                | "resourcequotas"
                | "secrets"
                | "configmaps"
                | "persistentvolumeclaims"
                | "services.nodeports"
                | "services.loadbalancers"
        );

        if !name.contains('/') && !compute && !counted {
            errors.invalid(
                &own,
                name.as_str(),
                "must be a standard resource type or fully qualified",
            );
            errors.invalid(&own, name.as_str(), "must be a standard resource for quota");
        }

        let Some(parsed) = amount.as_str().and_then(|text| Quantity::parse(text).ok()) else {
            continue;
        };

        if parsed.sign() < 0 {
            errors.invalid(
                &own,
                parsed.canonical(),
                "must be greater than or equal to 0",
            );
        }

        if (counted || name.starts_with("count/")) && !parsed.is_integer() {
            errors.invalid(&own, parsed.canonical(), "must be an integer");
        }
    }
}

pub(super) fn quota_status(new: &Value, errors: &mut ErrorList) {
    quota_list(new, "status.hard", errors);
    quota_list(new, "status.used", errors);
}

pub(super) fn limit_range(object: &Value, errors: &mut ErrorList) {
    let mut kinds = HashSet::new();
    for (index, limit) in items(object, "spec.limits").iter().enumerate() {
        let path = format!("spec.limits[{index}]");
        let kind = text(limit, "type");
        if !kinds.insert(kind) {
            errors.duplicate(&format!("{path}.type"), kind);
        }
        limits(limit, &path, errors);
    }
}

fn limits(limit: &Value, path: &str, errors: &mut ErrorList) {
    let lists = ["min", "max", "default", "defaultRequest"];
    let mut names: Vec<&String> = lists
        .iter()
        .flat_map(|list| fields(limit, list).keys())
        .collect();
    names.sort_unstable();
    names.dedup();

    for name in names {
        let quantity = |list: &str| {
            fields(limit, list)
                .get(name)?
                .as_str()
                .and_then(|text| Quantity::parse(text).ok())
        };

        let mut check = |low: &str, high: &str, field: &str, words: (&str, &str)| {
            let Some((small, large)) = quantity(low).zip(quantity(high)) else {
                return;
            };

            if small.compare(&large).is_gt() {
                let detail = format!(
                    "{} value {} is greater than {} value {}",
                    words.0,
                    small.canonical(),
                    words.1,
                    large.canonical()
                );

                let value = if matches!(field, "min" | "default") && low == "min" {
                    small.canonical()
                } else {
                    quantity(field).map_or_else(String::new, |q| q.canonical())
                };

                errors.invalid(&format!("{path}.{field}[{name}]"), value, &detail);
            }
        };

        check("min", "max", "min", ("min", "max"));
        check(
            "min",
            "defaultRequest",
            "defaultRequest",
            ("min", "default request"),
        );

        check(
            "defaultRequest",
            "max",
            "defaultRequest",
            ("default request", "max"),
        );

        check(
            "defaultRequest",
            "default",
            "defaultRequest",
            ("default request", "default"),
        );

        check("min", "default", "default", ("min", "default"));
        check("default", "max", "default", ("default", "max"));
    }
}

/// Validates a Namespace: its finalizers.
pub(super) fn namespace(object: &Value, errors: &mut ErrorList) {
    for name in items(object, "spec.finalizers")
        .iter()
        .filter_map(Value::as_str)
    {
        errors.invalid_each("spec.finalizers", name, &format::qualified_name(name));
        metadata::finalizer_name(name, "spec.finalizers", errors);
    }
}

/// Validates the status of a Namespace: its phase follows its deletion.
pub(super) fn namespace_status(new: &Value, errors: &mut ErrorList) {
    let phase = text(new, "status.phase");
    let deleted = has(new, "metadata.deletionTimestamp");
    if !deleted && phase != "Active" {
        let detail = "may only be 'Active' if `deletionTimestamp` is empty";
        errors.invalid("status.Phase", phase, detail);
    }

    if deleted && phase != "Terminating" {
        let detail = "may only be 'Terminating' if `deletionTimestamp` is not empty";
        errors.invalid("status.Phase", phase, detail);
    }
}

/// Validates a Node: its taints.
pub(super) fn node(object: &Value, errors: &mut ErrorList) {
    for (index, taint) in items(object, "spec.taints").iter().enumerate() {
        let path = format!("metadata.taints[{index}]");
        let key = text(taint, "key");
        errors.invalid_each(&format!("{path}.key"), key, &format::qualified_name(key));

        let value = text(taint, "value");
        let messages = format::label_value(value);
        if !messages.is_empty() {
            errors.invalid(&format!("{path}.value"), value, &messages.join(";"));
        }

        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if text(taint, "effect").is_empty() {
            errors.required(&format!("{path}.effect"), "");
        } else {
            errors.one_of(&format!("{path}.effect"), &taint["effect"], &effects);
        }
    }

    for (index, range) in items(object, "spec.podCIDRs")
        .iter()
        .filter_map(Value::as_str)
        .enumerate()
    {
        if network::cidr(range).is_none() {
            errors.invalid(&format!("spec.podCIDRs[{index}]"), range, network::CIDR);
        }
    }

    for list in ["capacity", "allocatable"] {
        for (name, amount) in fields(object, &format!("status.{list}")) {
            pod::quantity(name, amount, &format!("status.{list}.{name}"), errors);
        }
    }
}

/// Validates an Event: its object is in its namespace, and a new-style one names its reporter.
pub(super) fn event(object: &Value, errors: &mut ErrorList) {
    let namespace = text(object, "metadata.namespace");
    let involved = if has(object, "involvedObject") {
        "involvedObject"
    } else {
        "regarding"
    };
    let about = text(object, &format!("{involved}.namespace"));
    let cluster_scoped = about.is_empty() && matches!(namespace, "default" | "kube-system");

    if !cluster_scoped && about != namespace {
        errors.invalid(
            "involvedObject.namespace",
            about,
            "does not match event.namespace",
        );
    }

    if !has(object, "eventTime") {
        return;
    }

    let reporter = if involved == "regarding" {
        "reportingController"
    } else {
        "reportingComponent"
    };
    let component = text(object, reporter);
    if component.is_empty() {
        errors.required("reportingComponent", "");
    }

    errors.invalid_each(
        "reportingComponent",
        component,
        &format::qualified_name(component),
    );

    for key in ["reportingInstance", "action", "reason"] {
        if text(object, key).is_empty() {
            errors.required(key, "");
        }
    }
}

pub(super) fn priority_class(object: &Value, errors: &mut ErrorList) {
    const HIGHEST: i64 = 1_000_000_000;

    let name = text(object, "metadata.name");
    let value = int(object, "value").unwrap_or(0);
    let system = matches!(name, "system-cluster-critical" | "system-node-critical");
    if name.starts_with("system-") && !system {
        let detail = format!(
            "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a \
                known system priority class"
        );
        errors.forbidden("metadata.name", &detail);
    } else if value > HIGHEST && !system {
        let detail = format!("maximum allowed value of a user defined priority is {HIGHEST}");
        errors.forbidden("value", &detail);
    }

    let policies = ["PreemptLowerPriority", "Never"];
    errors.one_of("preemptionPolicy", &object["preemptionPolicy"], &policies);
}

pub(super) fn priority_class_update(old: &Value, new: &Value, errors: &mut ErrorList) {
    if old["value"] != new["value"] {
        errors.forbidden("value", "may not be changed in an update.");
    }

    errors.immutable(
        "preemptionPolicy",
        &old["preemptionPolicy"],
        &new["preemptionPolicy"],
    );
}
