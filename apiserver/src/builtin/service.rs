//! Addresses and ports of Services: what is allocated, and what an update keeps.

use super::object::{at_mut, has, items, items_mut, remove, set, set_default, text};
use crate::apimachinery::{
    field::{FieldError, Path},
    status::Status,
};
use serde_json::{Value, json};

/// The allocations for Services, from ranges that the caller owns.
pub trait ServiceAllocator {
    /// Returns a free IPv4 address of the service range.
    fn cluster_ip(&mut self) -> Option<String>;
    /// Returns a free port of the node-port range.
    fn node_port(&mut self) -> Option<i64>;
}

/// Reserves the address of a new Service. The reservation names the Service.
///
/// # Errors
/// Returns the real server's 422 for a Service without a name.
pub fn reserve_address(
    service: &Value,
    allocator: &mut dyn ServiceAllocator,
) -> Result<(), Status> {
    let spec = &service["spec"];
    let wanted = match text(spec, "clusterIP") {
        "" => items(spec, "clusterIPs")
            .first()
            .and_then(Value::as_str)
            .unwrap_or_default(),
        address => address,
    };
    let needs_none = wanted == "None" || !needs_cluster_ip(text(spec, "type"));
    if needs_none || !text(service, "metadata.name").is_empty() {
        return Ok(());
    }
    let (what, address) = match wanted {
        "" => ("IP".to_owned(), allocator.cluster_ip().unwrap_or_default()),
        wanted => (format!("IP {wanted}"), wanted.to_owned()),
    };
    let cause = format!(
        "IPAddress.networking.k8s.io \"{address}\" is invalid: spec.parentRef.name: Required value"
    );
    let detail = format!("failed to allocate {what}: {cause}");
    let errors = vec![FieldError::invalid(
        Path::new("spec.clusterIPs"),
        json!([wanted]),
        detail,
    )];
    Err(Status::invalid("", "Service", "", errors))
}

/// Allocates the address and the node ports that a new or changed Service lacks, as a single-stack
/// IPv4 cluster does.
pub fn allocate(service: &mut Value, allocator: &mut dyn ServiceAllocator) {
    let kind = text(service, "spec.type").to_owned();
    let Some(spec) = at_mut(service, "spec") else {
        return;
    };
    if kind == "ExternalName" {
        return;
    }
    let headless = text(spec, "clusterIP") == "None";
    if headless && super::object::fields(spec, "selector").is_empty() {
        // Without a selector, the real server leaves the families to whoever writes the endpoints.
        set_default(spec, "ipFamilyPolicy", "RequireDualStack");
        set_default(spec, "ipFamilies", json!(["IPv4", "IPv6"]));
    }
    set_default(spec, "ipFamilyPolicy", "SingleStack");
    set_default(spec, "ipFamilies", json!(["IPv4"]));
    if text(spec, "clusterIP").is_empty() {
        if let Some(first) = items(spec, "clusterIPs").first().cloned() {
            set(spec, "clusterIP", first);
        } else if let Some(address) = allocator.cluster_ip() {
            set(spec, "clusterIP", address);
        }
    }
    let address = spec["clusterIP"].clone();
    if !address.is_null() && items(spec, "clusterIPs").is_empty() {
        set(spec, "clusterIPs", json!([address]));
    }
    let needs_ports = kind == "NodePort"
        || kind == "LoadBalancer" && spec["allocateLoadBalancerNodePorts"] == true;
    if !needs_ports {
        return;
    }
    for port in items_mut(spec, "ports") {
        if port["nodePort"].as_i64().unwrap_or(0) == 0
            && let Some(number) = allocator.node_port()
        {
            set(port, "nodePort", number);
        }
    }
}

/// Reports whether Services of a type have a cluster address.
fn needs_cluster_ip(kind: &str) -> bool {
    matches!(kind, "ClusterIP" | "NodePort" | "LoadBalancer")
}

/// Keeps the allocated values of the old Service where the new one leaves them out, and drops those
/// of another type.
pub(super) fn keep_allocated(old: &Value, new: &mut Value) {
    let before = text(old, "spec.type").to_owned();
    let after = text(new, "spec.type").to_owned();
    let Some(spec) = at_mut(new, "spec") else {
        return;
    };
    let old_spec = &old["spec"];
    if needs_cluster_ip(&before) && needs_cluster_ip(&after) {
        for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if has(old_spec, key) {
                set_default(spec, key, old_spec[key].clone());
            }
        }
    }
    let node_ports = |kind: &str| matches!(kind, "NodePort" | "LoadBalancer");
    if node_ports(&before) && node_ports(&after) {
        for port in items_mut(spec, "ports") {
            let same = |other: &&Value| {
                ["port", "protocol"]
                    .iter()
                    .all(|key| other[key] == port[key])
                    && other["name"] == port["name"]
            };
            let number = items(old_spec, "ports")
                .iter()
                .find(same)
                .map(|found| found["nodePort"].clone());
            if let Some(number) = number.filter(|number| !number.is_null()) {
                set_default(port, "nodePort", number);
            }
        }
    }
    drop_dependent(&before, &after, old_spec, spec);
}

/// Drops the fields that depend on the old type, where they are unchanged.
fn drop_dependent(before: &str, after: &str, old: &Value, new: &mut Value) {
    if needs_cluster_ip(before) && !needs_cluster_ip(after) {
        for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if old[key] == new[key] {
                remove(new, key);
            }
        }
    }
    if matches!(before, "NodePort" | "LoadBalancer")
        && !matches!(after, "NodePort" | "LoadBalancer")
    {
        for (port, earlier) in items_mut(new, "ports").zip(items(old, "ports")) {
            if port["nodePort"] == earlier["nodePort"] {
                remove(port, "nodePort");
            }
        }
        if old["externalTrafficPolicy"] == new["externalTrafficPolicy"] {
            remove(new, "externalTrafficPolicy");
        }
        if old["healthCheckNodePort"] == new["healthCheckNodePort"] {
            remove(new, "healthCheckNodePort");
        }
    }
    if before == "LoadBalancer" && after != "LoadBalancer" {
        for key in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if old[key] == new[key] {
                remove(new, key);
            }
        }
    }
}
