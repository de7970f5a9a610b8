//! Validation of Pods and pod templates, as in
//! <https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/apis/core/validation/validation.go>.

mod container;
mod env;
mod path;
mod probe;
mod resources;
mod scheduling;
mod security;
mod update;
mod volume;

pub(super) use resources::quantity;
pub(super) use update::pod as pod_update;

use std::collections::HashSet;

use serde_json::Value;

use super::super::object::{at, fields, has, int, is_true, items, text};
use super::{ErrorList, format, selector};
use crate::apimachinery::{field::Path, metadata::validate_annotations};

/// Validates a Pod's spec. Its metadata has been validated before.
pub(super) fn pod(object: &Value, errors: &mut ErrorList) {
    let spec = at(object, "spec");
    pod_spec(spec, &[], "spec", true, errors);

    if text(spec, "serviceAccountName").is_empty() {
        for (index, volume) in items(spec, "volumes").iter().enumerate() {
            for (source, part) in items(volume, "projected.sources").iter().enumerate() {
                if has(part, "serviceAccountToken") {
                    let path = format!(
                        "spec.volumes[{index}].projected.sources[{source}].serviceAccountToken"
                    );
                    errors.forbidden(
                        &path,
                        "must not be specified when serviceAccountName is not set",
                    );
                }
            }
        }
    }

    for list in ["containers", "initContainers"] {
        for (index, container) in items(spec, list).iter().enumerate() {
            let image = text(container, "image");
            if image != image.trim() {
                let path = format!("spec.{list}[{index}].image");
                errors.invalid(&path, image, "must not have leading or trailing whitespace");
            }
        }
    }
}

/// Validates what is only forbidden for new Pods.
pub(super) fn new_pod(object: &Value, errors: &mut ErrorList) {
    if !items(object, "spec.ephemeralContainers").is_empty() {
        errors.forbidden("spec.ephemeralContainers", "cannot be set on create");
    }
}

pub(super) fn template(template: &Value, path: &str, errors: &mut ErrorList) {
    template_with_claims(template, &[], path, errors);
}

/// Validates a template whose containers may also mount claims' volumes.
pub(super) fn template_with_claims(
    template: &Value,
    claims: &[Value],
    path: &str,
    errors: &mut ErrorList,
) {
    selector::validate_labels(
        at(template, "metadata.labels"),
        &format!("{path}.labels"),
        errors,
    );
    errors.extend(validate_annotations(
        at(template, "metadata.annotations"),
        &Path::new(path).child("annotations"),
    ));

    let spec = at(template, "spec");
    pod_spec(spec, claims, &format!("{path}.spec"), false, errors);

    if !items(spec, "ephemeralContainers").is_empty() {
        let path = format!("{path}.spec.ephemeralContainers");
        errors.forbidden(&path, "ephemeral containers not allowed in pod template");
    }
}

/// Validates the spec of a Pod or a template, in the API server's order.
fn pod_spec(spec: &Value, claims: &[Value], path: &str, is_pod: bool, errors: &mut ErrorList) {
    let mut volumes = volume::all(items(spec, "volumes"), &format!("{path}.volumes"), errors);
    volumes.extend(
        claims
            .iter()
            .map(|claim| (text(claim, "metadata.name"), claim)),
    );

    containers(spec, &volumes, &format!("{path}.containers"), errors);
    init_containers(spec, &volumes, &format!("{path}.initContainers"), errors);
    host_network(spec, path, is_pod, errors);

    errors.one_of(
        &format!("{path}.restartPolicy"),
        &spec["restartPolicy"],
        &["Always", "OnFailure", "Never"],
    );
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    errors.one_of(&format!("{path}.dnsPolicy"), &spec["dnsPolicy"], &policies);

    selector::validate_labels(
        at(spec, "nodeSelector"),
        &format!("{path}.nodeSelector"),
        errors,
    );
    security::pod(spec, &format!("{path}.securityContext"), errors);
    scheduling::affinity(at(spec, "affinity"), &format!("{path}.affinity"), errors);
    dns_config(spec, &format!("{path}.dnsConfig"), errors);

    for (index, gate) in items(spec, "readinessGates").iter().enumerate() {
        let name = text(gate, "conditionType");
        let path = format!("{path}.readinessGates[{index}].conditionType");
        errors.invalid_each(&path, name, &format::qualified_name(name));
    }

    scheduling::gates(
        items(spec, "schedulingGates"),
        &format!("{path}.schedulingGates"),
        errors,
    );
    scheduling::spread(
        items(spec, "topologySpreadConstraints"),
        &format!("{path}.topologySpreadConstraints"),
        errors,
    );

    names(spec, path, errors);
    scheduling::tolerations(
        items(spec, "tolerations"),
        &format!("{path}.tolerations"),
        errors,
    );

    host_aliases(spec, &format!("{path}.hostAliases"), errors);
    for key in ["priorityClassName", "runtimeClassName"] {
        let name = text(spec, key);
        if !name.is_empty() {
            errors.invalid_each(&format!("{path}.{key}"), name, &format::subdomain(name));
        }
    }

    let policies = ["Never", "PreemptLowerPriority"];
    errors.one_of(
        &format!("{path}.preemptionPolicy"),
        &spec["preemptionPolicy"],
        &policies,
    );

    for (name, amount) in fields(spec, "overhead") {
        quantity(name, amount, &format!("{path}.overhead.{name}"), errors);
    }
}

/// Validates the names in a spec, and its deadline.
fn names(spec: &Value, path: &str, errors: &mut ErrorList) {
    for key in ["serviceAccountName", "nodeName"] {
        let name = text(spec, key);
        if !name.is_empty() {
            errors.invalid_each(&format!("{path}.{key}"), name, &format::subdomain(name));
        }
    }

    if let Some(seconds) = int(spec, "activeDeadlineSeconds")
        && let Some(message) = format::range(seconds, 1, i64::from(i32::MAX))
    {
        errors.invalid(&format!("{path}.activeDeadlineSeconds"), seconds, &message);
    }

    for key in ["hostname", "subdomain"] {
        let name = text(spec, key);
        if !name.is_empty() {
            errors.invalid_each(&format!("{path}.{key}"), name, &format::label(name));
        }
    }
}

fn containers(spec: &Value, volumes: &volume::Volumes<'_>, path: &str, errors: &mut ErrorList) {
    let list = items(spec, "containers");
    if list.is_empty() {
        errors.required(path, "");
        return;
    }

    let mut names = HashSet::new();
    for (index, item) in list.iter().enumerate() {
        let path = format!("{path}[{index}]");
        container::common(item, volumes, spec, &path, errors);

        if !names.insert(text(item, "name")) {
            errors.duplicate(&format!("{path}.name"), text(item, "name"));
        }

        probe::lifecycle(item, spec, &path, errors);
        probe::all(item, &path, errors);
        container::restart_policy(item, &path, errors);
    }

    container::host_ports(list, path, errors);
}

fn init_containers(
    spec: &Value,
    volumes: &volume::Volumes<'_>,
    path: &str,
    errors: &mut ErrorList,
) {
    let mut names: HashSet<&str> = items(spec, "containers")
        .iter()
        .map(|item| text(item, "name"))
        .collect();

    for (index, item) in items(spec, "initContainers").iter().enumerate() {
        let own = format!("{path}[{index}]");
        container::common(item, volumes, spec, &own, errors);

        if text(item, "restartPolicy") != "Always" {
            container::restart_policy(item, &own, errors);
        }

        let name = text(item, "name");
        if names.contains(name) {
            errors.duplicate(&format!("{own}.name"), name);
        } else if !name.is_empty() {
            names.insert(name);
        }

        container::host_ports(std::slice::from_ref(item), path, errors);

        if text(item, "restartPolicy") == "Always" {
            probe::lifecycle(item, spec, &own, errors);
            probe::all(item, &own, errors);
            continue;
        }

        for key in [
            "lifecycle",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
        ] {
            if has(item, key) {
                let detail = "may not be set for init containers without restartPolicy=Always";
                errors.forbidden(&format!("{own}.{key}"), detail);
            }
        }
    }
}

fn host_network(spec: &Value, path: &str, is_pod: bool, errors: &mut ErrorList) {
    if !is_true(spec, "hostNetwork") {
        return;
    }

    for (index, container) in items(spec, "containers").iter().enumerate() {
        for (number, port) in items(container, "ports").iter().enumerate() {
            let host = int(port, "hostPort").unwrap_or(0);
            if (is_pod || host != 0) && host != int(port, "containerPort").unwrap_or(0) {
                let path = format!("{path}.containers[{index}].ports[{number}].hostPort");
                errors.invalid(
                    &path,
                    host,
                    "must match `containerPort` when `hostNetwork` is true",
                );
            }
        }
    }
}

fn dns_config(spec: &Value, path: &str, errors: &mut ErrorList) {
    let config = at(spec, "dnsConfig");

    if text(spec, "dnsPolicy") == "None" {
        if config.is_null() {
            errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
            return;
        }
        if items(config, "nameservers").is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            errors.required(&format!("{path}.nameservers"), detail);
            return;
        }
    }

    let servers = items(config, "nameservers");
    if servers.len() > 3 {
        let detail = "must not have more than 3 nameservers";
        errors.invalid(&format!("{path}.nameservers"), servers.to_vec(), detail);
    }

    for (index, server) in servers.iter().filter_map(Value::as_str).enumerate() {
        errors.invalid_each(
            &format!("{path}.nameservers[{index}]"),
            server,
            &format::ip(server),
        );
    }

    for (index, option) in items(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            errors.required(&format!("{path}.options[{index}]"), "must not be empty");
        }
    }
}

fn host_aliases(spec: &Value, path: &str, errors: &mut ErrorList) {
    for (index, alias) in items(spec, "hostAliases").iter().enumerate() {
        let address = text(alias, "ip");

        errors.invalid_each(
            &format!("{path}[{index}].ip"),
            address,
            &format::ip(address),
        );

        for (number, name) in items(alias, "hostnames")
            .iter()
            .filter_map(Value::as_str)
            .enumerate()
        {
            errors.invalid_each(
                &format!("{path}[{index}].hostnames[{number}]"),
                name,
                &format::subdomain(name),
            );
        }
    }
}
