//! Validation of Ingresses, network policies and endpoint slices.

use std::net::IpAddr;

use serde_json::Value;

use super::{
    super::object::{at, has, int, items, text},
    ErrorList, format, selector, service,
};

pub(super) const CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

pub(super) fn ingress(object: &Value, errors: &mut ErrorList) {
    let spec = at(object, "spec");
    if items(spec, "rules").is_empty() && !has(spec, "defaultBackend") {
        errors.invalid(
            "spec",
            Value::Null,
            "either `defaultBackend` or `rules` must be specified",
        );
    }

    if has(spec, "defaultBackend") {
        backend(at(spec, "defaultBackend"), "spec.defaultBackend", errors);
    }

    for (index, rule) in items(spec, "rules").iter().enumerate() {
        let path = format!("spec.rules[{index}]");
        host(text(rule, "host"), &format!("{path}.host"), errors);

        if has(rule, "http") {
            paths(
                items(rule, "http.paths"),
                &format!("{path}.http.paths"),
                errors,
            );
        }
    }

    for (index, tls) in items(spec, "tls").iter().enumerate() {
        for (number, name) in items(tls, "hosts")
            .iter()
            .filter_map(Value::as_str)
            .enumerate()
        {
            let path = format!("spec.tls[{index}].hosts[{number}]");
            errors.invalid_each(&path, name, &host_messages(name));
        }

        let secret = text(tls, "secretName");
        if !secret.is_empty() {
            errors.invalid_each(
                &format!("spec.tls[{index}].secretName"),
                secret,
                &format::subdomain(secret),
            );
        }
    }

    let class = text(spec, "ingressClassName");
    if has(spec, "ingressClassName") {
        errors.invalid_each("spec.ingressClassName", class, &format::subdomain(class));
    }
}

fn host_messages(name: &str) -> Vec<String> {
    if name.contains('*') {
        format::wildcard_subdomain(name)
    } else {
        format::subdomain(name)
    }
}

fn host(name: &str, path: &str, errors: &mut ErrorList) {
    if name.is_empty() {
        return;
    }

    if name.parse::<IpAddr>().is_ok() {
        errors.invalid(path, name, "must be a DNS name, not an IP address");
    }

    errors.invalid_each(path, name, &host_messages(name));
}

fn paths(paths: &[Value], path: &str, errors: &mut ErrorList) {
    if paths.is_empty() {
        errors.required(path, "");
    }

    for (index, entry) in paths.iter().enumerate() {
        let own = format!("{path}[{index}]");
        let target = text(entry, "path");
        let field = format!("{own}.path");

        match text(entry, "pathType") {
            "" => {
                errors.required(&format!("{own}.pathType"), "pathType must be specified");
                continue;
            }
            "Exact" | "Prefix" => {
                if !target.starts_with('/') {
                    errors.invalid(&field, target, "must be an absolute path");
                }

                for part in ["//", "/./", "/../", "%2f", "%2F"]
                    .iter()
                    .filter(|part| target.contains(**part))
                {
                    errors.invalid(&field, target, &format!("must not contain '{part}'"));
                }

                for part in ["/..", "/."].iter().filter(|part| target.ends_with(**part)) {
                    errors.invalid(&field, target, &format!("cannot end with '{part}'"));
                }
            }
            "ImplementationSpecific" => {
                if !target.is_empty() && !target.starts_with('/') {
                    errors.invalid(&field, target, "must be an absolute path");
                }
            }
            other => {
                let kinds = ["Exact", "ImplementationSpecific", "Prefix"];
                errors.not_supported(&format!("{own}.pathType"), other, &kinds);
            }
        }

        backend(at(entry, "backend"), &format!("{own}.backend"), errors);
    }
}

fn backend(backend: &Value, path: &str, errors: &mut ErrorList) {
    match (has(backend, "resource"), has(backend, "service")) {
        (true, true) => errors.invalid(path, "", "cannot set both resource and service backends"),
        (false, false) => errors.invalid(path, "", "resource or service backend is required"),
        (true, false) => {}
        (false, true) => service_backend(at(backend, "service"), path, errors),
    }
}

fn service_backend(service: &Value, path: &str, errors: &mut ErrorList) {
    let name = text(service, "name");
    if name.is_empty() {
        errors.required(&format!("{path}.service.name"), "");
    } else {
        errors.invalid_each(&format!("{path}.service.name"), name, &format::label(name));
    }

    let port = text(service, "port.name");
    let number = int(service, "port.number").unwrap_or(0);
    if !port.is_empty() && number != 0 {
        errors.invalid(path, "", "cannot set both port name & port number");
    } else if !port.is_empty() {
        errors.invalid_each(
            &format!("{path}.service.port.name"),
            port,
            &format::port_name(port),
        );
    } else if number != 0 {
        if let Some(message) = format::range(number, 1, 65_535) {
            errors.invalid(&format!("{path}.service.port.number"), number, &message);
        }
    } else {
        errors.required(path, "port name or number is required");
    }
}

pub(super) fn ingress_class(object: &Value, errors: &mut ErrorList) {
    const PATH: &str = "spec.controller";
    const WORDS: &str = "must be a domain-prefixed path (such as \"acme.io/foo\")";

    let controller = text(object, PATH);
    if controller.len() > 250 {
        errors.too_long(PATH, 250);
    }

    match controller.split_once('/') {
        _ if controller.is_empty() => errors.required(PATH, ""),
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => {
            errors.invalid_each(PATH, domain, &format::subdomain(domain));
        }
        _ => errors.invalid(PATH, controller, WORDS),
    }

    if has(object, "spec.parameters") {
        for key in ["kind", "name"] {
            let path = format!("spec.parameters.{key}");
            let name = text(object, &path);
            if name.is_empty() {
                errors.required(&path, "");
            } else {
                errors.invalid_each(&path, name, &format::path_segment(name));
            }
        }
    }
}

pub(super) fn network_policy(object: &Value, errors: &mut ErrorList) {
    let spec = at(object, "spec");
    selector::validate(at(spec, "podSelector"), "spec.podSelector", errors);

    for (list, key) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in items(spec, list).iter().enumerate() {
            let path = format!("spec.{list}[{index}]");
            for (number, port) in items(rule, "ports").iter().enumerate() {
                policy_port(port, &format!("{path}.ports[{number}]"), errors);
            }
            for (number, peer) in items(rule, key).iter().enumerate() {
                policy_peer(peer, &format!("{path}.{key}[{number}]"), errors);
            }
        }
    }

    let types = items(spec, "policyTypes");
    if types.len() > 2 {
        let detail = "may not specify more than two policyTypes";
        errors.invalid("spec.policyTypes", types.to_vec(), detail);
        return;
    }

    for (index, kind) in types.iter().enumerate() {
        errors.one_of(
            &format!("spec.policyTypes[{index}]"),
            kind,
            &["Ingress", "Egress"],
        );
    }
}

fn policy_port(port: &Value, path: &str, errors: &mut ErrorList) {
    errors.one_of(
        &format!("{path}.protocol"),
        &port["protocol"],
        &["TCP", "UDP", "SCTP"],
    );

    if has(port, "port") {
        service::port_or_name(&port["port"], &format!("{path}.port"), errors);
    }

    let Some(end) = int(port, "endPort") else {
        return;
    };

    match int(port, "port") {
        Some(first) if end < first => {
            let detail = "must be greater than or equal to `port`";
            errors.invalid(&format!("{path}.endPort"), end, detail);
        }
        Some(_) => {}
        None => errors.required(
            &format!("{path}.port"),
            "must be specified when `endPort` is specified",
        ),
    }
}

fn policy_peer(peer: &Value, path: &str, errors: &mut ErrorList) {
    let mut count = 0;
    for key in ["podSelector", "namespaceSelector"] {
        if has(peer, key) {
            count += 1;
            selector::validate(at(peer, key), &format!("{path}.{key}"), errors);
        }
    }

    if has(peer, "ipBlock") {
        if count > 0 {
            errors.forbidden(path, "may not specify both ipBlock and another peer");
        }
        count += 1;
        ip_block(at(peer, "ipBlock"), &format!("{path}.ipBlock"), errors);
    }

    if count == 0 {
        errors.required(path, "must specify a peer");
    }
}

/// Returns the address and the length of a CIDR.
pub(super) fn cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let length: u8 = length.parse().ok()?;
    (length <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, length))
}

/// Returns an address as 128 bits.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(ip) => u128::from(u32::from(ip)) << 96,
        IpAddr::V6(ip) => u128::from(ip),
    }
}

fn ip_block(block: &Value, path: &str, errors: &mut ErrorList) {
    let range = text(block, "cidr");
    let field = format!("{path}.cidr");
    if range.is_empty() {
        errors.required(&field, "");
        return;
    }
    let Some((network, length)) = cidr(range) else {
        errors.invalid(&field, range, CIDR);
        return;
    };

    for (index, except) in items(block, "except")
        .iter()
        .filter_map(Value::as_str)
        .enumerate()
    {
        let path = format!("{path}.except[{index}]");
        let Some((inner, inner_length)) = cidr(except) else {
            errors.invalid(&path, except, CIDR);
            continue;
        };

        let shift = 128 - u32::from(length);
        let same = (bits(network) ^ bits(inner))
            .checked_shr(shift)
            .unwrap_or(0)
            == 0;
        if network.is_ipv4() != inner.is_ipv4() || !same || inner_length <= length {
            errors.invalid(&path, except, "must be a strict subset of `cidr`");
        }
    }
}

pub(super) fn endpoint_slice(object: &Value, errors: &mut ErrorList) {
    let kind = text(object, "addressType");
    if kind.is_empty() {
        errors.required("addressType", "");
    } else {
        errors.one_of(
            "addressType",
            &object["addressType"],
            &["FQDN", "IPv4", "IPv6"],
        );
    }

    for (index, port) in items(object, "ports").iter().enumerate() {
        let path = format!("ports[{index}]");
        let name = text(port, "name");
        if !name.is_empty() {
            errors.invalid_each(&format!("{path}.name"), name, &format::label(name));
        }

        errors.one_of(
            &format!("{path}.protocol"),
            &port["protocol"],
            &["SCTP", "TCP", "UDP"],
        );
    }

    for (index, endpoint) in items(object, "endpoints").iter().enumerate() {
        slice_endpoint(endpoint, kind, &format!("endpoints[{index}]"), errors);
    }
}

fn slice_endpoint(endpoint: &Value, kind: &str, path: &str, errors: &mut ErrorList) {
    let addresses = items(endpoint, "addresses");
    if addresses.is_empty() {
        errors.required(
            &format!("{path}.addresses"),
            "must contain at least 1 address",
        );
    }

    for (index, address) in addresses.iter().filter_map(Value::as_str).enumerate() {
        let path = format!("{path}.addresses[{index}]");
        match (kind, address.parse::<IpAddr>()) {
            ("FQDN", _) => errors.invalid_each(&path, address, &format::subdomain(address)),
            ("IPv4" | "IPv6", Err(_)) => errors.invalid_each(&path, address, &format::ip(address)),
            ("IPv4", Ok(IpAddr::V6(_))) => {
                errors.invalid(&path, address, "must be an IPv4 address");
            }
            ("IPv6", Ok(IpAddr::V4(_))) => {
                errors.invalid(&path, address, "must be an IPv6 address");
            }
            _ => {}
        }
    }

    let node = text(endpoint, "nodeName");
    if !node.is_empty() {
        errors.invalid_each(&format!("{path}.nodeName"), node, &format::subdomain(node));
    }

    let host = text(endpoint, "hostname");
    if !host.is_empty() {
        errors.invalid_each(&format!("{path}.hostname"), host, &format::label(host));
    }
}
