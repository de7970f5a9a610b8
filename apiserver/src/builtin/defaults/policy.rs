//! Defaults of limits, network policies and autoscalers.

use serde_json::{Value, json};

use super::super::object::{at_mut, fields, items, items_mut, set, set_default, text};

/// The CPU utilization, in percent, that an autoscaler without metrics aims at.
const DEFAULT_PERCENT: i64 = 80;

/// Derives a Container's default limits and requests.
pub(super) fn limit(limit: &mut Value) {
    if text(limit, "type") != "Container" {
        return;
    }

    for (from, to) in [
        ("max", "default"),
        ("default", "defaultRequest"),
        ("min", "defaultRequest"),
    ] {
        for (name, quantity) in fields(limit, from).clone() {
            set_default(limit, to, json!({}));
            set_default(&mut limit[to], &name, quantity);
        }
    }
}

pub(super) fn network_policy(object: &mut Value) {
    for list in ["spec.ingress", "spec.egress"] {
        items_mut(object, list).for_each(|rule| super::protocols(rule, "ports"));
    }

    let has_egress = !items(object, "spec.egress").is_empty();
    let Some(spec) = at_mut(object, "spec") else {
        return;
    };

    let types = if has_egress {
        json!(["Ingress", "Egress"])
    } else {
        json!(["Ingress"])
    };
    set_default(spec, "policyTypes", types);
}

pub(super) fn autoscaler(object: &mut Value) {
    let Some(spec) = at_mut(object, "spec") else {
        return;
    };

    set_default(spec, "minReplicas", 1);
    let target = json!({ "type": "Utilization", "averageUtilization": DEFAULT_PERCENT });
    set_default(
        spec,
        "metrics",
        json!([{ "type": "Resource", "resource": { "name": "cpu", "target": target } }]),
    );

    let Some(behavior) = at_mut(spec, "behavior") else {
        return;
    };

    let percent = json!({ "type": "Percent", "value": 100, "periodSeconds": 15 });
    let pods = json!({ "type": "Pods", "value": 4, "periodSeconds": 15 });
    set_default(behavior, "scaleUp", json!({}));
    set_default(behavior, "scaleDown", json!({}));

    let up = &mut behavior["scaleUp"];
    set_default(up, "stabilizationWindowSeconds", 0);
    set_default(up, "selectPolicy", "Max");
    set_default(up, "policies", json!([pods, percent]));
    let down = &mut behavior["scaleDown"];
    set_default(down, "selectPolicy", "Max");
    set_default(down, "policies", json!([percent]));
}

pub(super) fn autoscaler_v1(object: &mut Value) {
    let Some(spec) = at_mut(object, "spec") else {
        return;
    };

    set_default(spec, "minReplicas", 1);
    if spec["targetCPUUtilizationPercentage"].is_null() {
        set(spec, "targetCPUUtilizationPercentage", DEFAULT_PERCENT);
    }
}
