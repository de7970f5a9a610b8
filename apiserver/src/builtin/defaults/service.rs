//! Defaults of Services. Addresses and node ports are allocated elsewhere.

use serde_json::{Value, json};

use super::super::object::{at_mut, items_mut, set, set_default, text};

pub(super) fn service(object: &mut Value) {
    let Some(spec) = at_mut(object, "spec") else {
        return;
    };

    set_default(spec, "sessionAffinity", "None");
    if text(spec, "sessionAffinity") == "None" {
        super::super::object::remove(spec, "sessionAffinityConfig");
    }
    if text(spec, "sessionAffinity") == "ClientIP" {
        let seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].clone();
        if seconds.is_null() {
            set(
                spec,
                "sessionAffinityConfig",
                json!({ "clientIP": { "timeoutSeconds": 10_800 } }),
            );
        }
    }

    set_default(spec, "type", "ClusterIP");
    for port in items_mut(spec, "ports") {
        set_default(port, "protocol", "TCP");
        if port["targetPort"] == 0 || port["targetPort"] == "" {
            let number = port["port"].clone();
            set(port, "targetPort", number);
        }
    }

    let kind = text(spec, "type").to_owned();
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        set_default(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP") {
        set_default(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        set_default(spec, "allocateLoadBalancerNodePorts", true);
    }
}
