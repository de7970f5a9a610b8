//! Validation of Services and Endpoints.

use std::{collections::HashSet, net::IpAddr};

use serde_json::{Value, json};

use super::{
    super::{
        object::{at, has, int, items, text},
        shown::internal_object,
    },
    ErrorList, format, selector,
};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

pub(super) fn service(object: &Value, errors: &mut ErrorList) {
    let spec = at(object, "spec");
    let kind = text(spec, "type");
    let headless = text(spec, "clusterIP") == "None";
    if items(spec, "ports").is_empty() && !headless && kind != "ExternalName" {
        errors.required("spec.ports", "");
    }

    match kind {
        "LoadBalancer" if headless => {
            errors.invalid(
                "spec.clusterIPs[0]",
                "None",
                "may not be set to 'None' for LoadBalancer services",
            );
        }
        "NodePort" if headless => {
            errors.invalid(
                "spec.clusterIPs[0]",
                "None",
                "may not be set to 'None' for NodePort services",
            );
        }
        "ExternalName" => external_name(spec, errors),
        _ => {}
    }

    ports(spec, errors);
    selector::validate_labels(at(spec, "selector"), "spec.selector", errors);

    let affinity = text(spec, "sessionAffinity");
    if affinity.is_empty() {
        errors.required("spec.sessionAffinity", "");
    } else {
        errors.one_of(
            "spec.sessionAffinity",
            &spec["sessionAffinity"],
            &["ClientIP", "None"],
        );
    }

    addresses(spec, errors);
    external_ips(spec, errors);

    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if kind.is_empty() {
        errors.required("spec.type", "");
    } else {
        errors.one_of("spec.type", &spec["type"], &kinds);
    }

    if kind == "ClusterIP" {
        for (index, port) in items(spec, "ports").iter().enumerate() {
            if int(port, "nodePort").unwrap_or(0) != 0 {
                let detail = "may not be used when `type` is 'ClusterIP'";
                errors.forbidden(&format!("spec.ports[{index}].nodePort"), detail);
            }
        }
    }

    duplicate_ports(spec, errors);
    traffic(spec, kind, errors);
}

fn external_name(spec: &Value, errors: &mut ErrorList) {
    for key in ["clusterIPs", "ipFamilies"] {
        if !items(spec, key).is_empty() {
            errors.forbidden(
                &format!("spec.{key}"),
                "may not be set for ExternalName services",
            );
        }
    }

    if has(spec, "ipFamilyPolicy") {
        errors.forbidden(
            "spec.ipFamilyPolicy",
            "may not be set for ExternalName services",
        );
    }

    let name = text(spec, "externalName").trim_end_matches('.');
    if name.is_empty() {
        errors.required("spec.externalName", "");
    } else {
        errors.invalid_each("spec.externalName", name, &format::subdomain(name));
    }
}

fn ports(spec: &Value, errors: &mut ErrorList) {
    let list = items(spec, "ports");
    let mut names = HashSet::new();
    for (index, port) in list.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        let name = text(port, "name");
        if list.len() > 1 && name.is_empty() {
            errors.required(&format!("{path}.name"), "");
        } else if !name.is_empty() {
            errors.invalid_each(&format!("{path}.name"), name, &format::label(name));
            if !names.insert(name) {
                errors.duplicate(&format!("{path}.name"), name);
            }
        }

        let number = int(port, "port").unwrap_or(0);
        if let Some(message) = format::range(number, 1, 65_535) {
            errors.invalid(&format!("{path}.port"), number, &message);
        }

        errors.one_of(&format!("{path}.protocol"), &port["protocol"], &PROTOCOLS);
        port_or_name(&port["targetPort"], &format!("{path}.targetPort"), errors);
    }
}

/// Validates a port's number or name.
pub(super) fn port_or_name(port: &Value, path: &str, errors: &mut ErrorList) {
    match port {
        Value::String(name) => errors.invalid_each(path, name, &format::port_name(name)),
        other => {
            let number = other.as_i64().unwrap_or(0);
            if let Some(message) = format::range(number, 1, 65_535) {
                errors.invalid(path, number, &message);
            }
        }
    }
}

fn addresses(spec: &Value, errors: &mut ErrorList) {
    let policies = ["SingleStack", "PreferDualStack", "RequireDualStack"];
    errors.one_of("spec.ipFamilyPolicy", &spec["ipFamilyPolicy"], &policies);

    for (index, family) in items(spec, "ipFamilies").iter().enumerate() {
        errors.one_of(
            &format!("spec.ipFamilies[{index}]"),
            family,
            &["IPv4", "IPv6"],
        );
    }

    let list = items(spec, "clusterIPs");
    for (index, address) in list.iter().filter_map(Value::as_str).enumerate() {
        let path = format!("spec.clusterIPs[{index}]");
        if address == "None" {
            if index > 0 || list.len() > 1 {
                errors.invalid(&path, address, "'None' must be the first and only value");
            }
            continue;
        }

        errors.invalid_each(&path, address, &format::ip(address));
    }
}

fn external_ips(spec: &Value, errors: &mut ErrorList) {
    for (index, address) in items(spec, "externalIPs")
        .iter()
        .filter_map(Value::as_str)
        .enumerate()
    {
        let path = format!("spec.externalIPs[{index}]");
        let messages = format::ip(address);
        errors.invalid_each(&path, address, &messages);
        if messages.is_empty() {
            special_address(address, &path, errors);
        }
    }
}

/// Validates that an address can be another machine's.
fn special_address(address: &str, path: &str, errors: &mut ErrorList) {
    let Ok(parsed) = address.parse::<IpAddr>() else {
        return;
    };

    if parsed.is_unspecified() {
        errors.invalid(
            path,
            address,
            &format!("may not be unspecified ({address})"),
        );
    }

    if parsed.is_loopback() {
        errors.invalid(
            path,
            address,
            "may not be in the loopback range (127.0.0.0/8, ::1/128)",
        );
    }

    let (link, multicast) = match parsed {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (
            (ip.segments()[0] & 0xffc0) == 0xfe80,
            (ip.segments()[0] & 0xff0f) == 0xff02,
        ),
    };

    if link {
        errors.invalid(
            path,
            address,
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
        );
    }

    if multicast {
        errors.invalid(
            path,
            address,
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        );
    }
}

/// Validates that no protocol and number, and no node port, is used twice.
fn duplicate_ports(spec: &Value, errors: &mut ErrorList) {
    let mut numbers = HashSet::new();
    let mut nodes = HashSet::new();
    for (index, port) in items(spec, "ports").iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        let protocol = text(port, "protocol");
        if let Some(node) = int(port, "nodePort").filter(|node| *node != 0)
            && !nodes.insert((protocol, node))
        {
            errors.duplicate(&format!("{path}.nodePort"), node);
        }

        let number = int(port, "port").unwrap_or(0);
        if !numbers.insert((protocol, number)) {
            let key = json!({ "name": "", "protocol": protocol, "port": number, "targetPort": 0, "nodePort": 0 });
            let fields = [
                "name",
                "protocol",
                "appProtocol",
                "port",
                "targetPort",
                "nodePort",
            ];

            errors.duplicate(&path, internal_object(&key, &fields));
        }
    }
}

fn traffic(spec: &Value, kind: &str, errors: &mut ErrorList) {
    let external = text(spec, "externalTrafficPolicy");
    let accessible = matches!(kind, "NodePort" | "LoadBalancer");
    if !accessible && !external.is_empty() && items(spec, "externalIPs").is_empty() {
        let detail = "may only be set for externally-accessible services";
        errors.invalid("spec.externalTrafficPolicy", external, detail);
    } else {
        errors.one_of(
            "spec.externalTrafficPolicy",
            &spec["externalTrafficPolicy"],
            &["Cluster", "Local"],
        );
    }

    errors.one_of(
        "spec.internalTrafficPolicy",
        &spec["internalTrafficPolicy"],
        &["Cluster", "Local"],
    );
}

pub(super) fn service_update(old: &Value, new: &Value, errors: &mut ErrorList) {
    let kinds = |object: &Value| {
        matches!(
            text(object, "spec.type"),
            "ClusterIP" | "NodePort" | "LoadBalancer"
        )
    };
    if kinds(old) && kinds(new) {
        let first = |object: &Value| items(object, "spec.clusterIPs").first().cloned();
        if first(old).is_some() && first(old) != first(new) {
            let list = items(new, "spec.clusterIPs").to_vec();
            errors.invalid("spec.clusterIPs[0]", list, "may not change once set");
        }
    }

    service(new, errors);
}

pub(super) fn service_status(new: &Value, errors: &mut ErrorList) {
    let ingress = items(new, "status.loadBalancer.ingress");
    if !ingress.is_empty() && text(new, "spec.type") != "LoadBalancer" {
        let detail = "may only be used when `spec.type` is 'LoadBalancer'";
        errors.forbidden("status.loadBalancer.ingress", detail);
    }

    load_balancer(ingress, errors);
}

/// Validates the addresses of a load balancer.
pub(super) fn load_balancer(ingress: &[Value], errors: &mut ErrorList) {
    for (index, point) in ingress.iter().enumerate() {
        let path = format!("status.loadBalancer.ingress[{index}]");
        let address = text(point, "ip");
        if !address.is_empty() {
            errors.invalid_each(&format!("{path}.ip"), address, &format::ip(address));
        }

        let name = text(point, "hostname");
        if !name.is_empty() {
            errors.invalid_each(&format!("{path}.hostname"), name, &format::subdomain(name));
            if name.parse::<IpAddr>().is_ok() {
                errors.invalid(
                    &format!("{path}.hostname"),
                    name,
                    "must be a DNS name, not an IP address",
                );
            }
        }
    }
}

pub(super) fn endpoints(object: &Value, errors: &mut ErrorList) {
    for (index, subset) in items(object, "subsets").iter().enumerate() {
        let path = format!("subsets[{index}]");
        if items(subset, "addresses").is_empty() && items(subset, "notReadyAddresses").is_empty() {
            errors.required(&path, "must specify `addresses` or `notReadyAddresses`");
        }

        for list in ["addresses", "notReadyAddresses"] {
            for (number, point) in items(subset, list).iter().enumerate() {
                let path = format!("{path}.{list}[{number}]");
                endpoint(point, &path, errors);
            }
        }

        let ports = items(subset, "ports");
        for (number, port) in ports.iter().enumerate() {
            endpoint_port(
                port,
                ports.len() > 1,
                &format!("{path}.ports[{number}]"),
                errors,
            );
        }
    }
}

fn endpoint(point: &Value, path: &str, errors: &mut ErrorList) {
    let address = text(point, "ip");
    let messages = format::ip(address);
    errors.invalid_each(&format!("{path}.ip"), address, &messages);

    let host = text(point, "hostname");
    if !host.is_empty() {
        errors.invalid_each(&format!("{path}.hostname"), host, &format::label(host));
    }

    let node = text(point, "nodeName");
    if !node.is_empty() {
        errors.invalid_each(&format!("{path}.nodeName"), node, &format::subdomain(node));
    }

    if messages.is_empty() {
        special_address(address, &format!("{path}.ip"), errors);
    } else {
        errors.invalid(&format!("{path}.ip"), address, "must be a valid IP address");
    }
}

fn endpoint_port(port: &Value, needs_name: bool, path: &str, errors: &mut ErrorList) {
    let name = text(port, "name");
    if needs_name && name.is_empty() {
        errors.required(&format!("{path}.name"), "");
    } else if !name.is_empty() {
        errors.invalid_each(&format!("{path}.name"), name, &format::label(name));
    }

    let number = int(port, "port").unwrap_or(0);
    if let Some(message) = format::range(number, 1, 65_535) {
        errors.invalid(&format!("{path}.port"), number, &message);
    }

    errors.one_of(&format!("{path}.protocol"), &port["protocol"], &PROTOCOLS);
}
