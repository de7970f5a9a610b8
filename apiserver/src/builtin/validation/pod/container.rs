//! Validation of containers: names, images, ports, mounts.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::super::super::object::{at, has, int, is_true, items, text};
use super::super::{ErrorList, format};
use super::{env, path::descending_path, resources, security, volume::Volumes};

/// Validates what containers and init containers have in common, in the API server's order.
pub(super) fn common(
    container: &Value,
    volumes: &Volumes<'_>,
    spec: &Value,
    path: &str,
    errors: &mut ErrorList,
) {
    let name = text(container, "name");
    if name.is_empty() {
        errors.required(&format!("{path}.name"), "");
    } else {
        errors.invalid_each(&format!("{path}.name"), name, &format::label(name));
    }

    if text(container, "image").is_empty() {
        errors.required(&format!("{path}.image"), "");
    }

    let policies = ["File", "FallbackToLogsOnError"];
    let field = format!("{path}.terminationMessagePolicy");
    errors.one_of(&field, &container["terminationMessagePolicy"], &policies);

    ports(items(container, "ports"), &format!("{path}.ports"), errors);

    env::variables(items(container, "env"), &format!("{path}.env"), errors);
    env::sources(
        items(container, "envFrom"),
        &format!("{path}.envFrom"),
        errors,
    );

    mounts(container, volumes, &format!("{path}.volumeMounts"), errors);
    devices(container, volumes, &format!("{path}.volumeDevices"), errors);
    let policies = ["Always", "IfNotPresent", "Never"];
    errors.one_of(
        &format!("{path}.imagePullPolicy"),
        &container["imagePullPolicy"],
        &policies,
    );

    resources::requirements(
        at(container, "resources"),
        &format!("{path}.resources"),
        errors,
    );
    resize_policies(container, spec, &format!("{path}.resizePolicy"), errors);

    security::container(
        at(container, "securityContext"),
        &format!("{path}.securityContext"),
        errors,
    );
}

pub(super) fn restart_policy(container: &Value, path: &str, errors: &mut ErrorList) {
    let policies = ["Always", "Never", "OnFailure"];
    errors.one_of(
        &format!("{path}.restartPolicy"),
        &container["restartPolicy"],
        &policies,
    );
}

fn ports(ports: &[Value], path: &str, errors: &mut ErrorList) {
    let mut names = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let name = text(port, "name");

        if !name.is_empty() {
            let messages = format::port_name(name);
            errors.invalid_each(&format!("{path}.name"), name, &messages);
            if messages.is_empty() && !names.insert(name) {
                errors.duplicate(&format!("{path}.name"), name);
            }
        }

        match int(port, "containerPort").unwrap_or(0) {
            0 => errors.required(&format!("{path}.containerPort"), ""),
            number => port_number(number, &format!("{path}.containerPort"), errors),
        }

        if let Some(number) = int(port, "hostPort").filter(|number| *number != 0) {
            port_number(number, &format!("{path}.hostPort"), errors);
        }

        errors.one_of(
            &format!("{path}.protocol"),
            &port["protocol"],
            &["SCTP", "TCP", "UDP"],
        );
    }
}

fn port_number(number: i64, path: &str, errors: &mut ErrorList) {
    if let Some(message) = format::range(number, 1, 65_535) {
        errors.invalid(path, number, &message);
    }
}

/// Checks that no host port is used twice.
pub(super) fn host_ports(containers: &[Value], path: &str, errors: &mut ErrorList) {
    let mut used = HashSet::new();
    for (index, container) in containers.iter().enumerate() {
        for (number, port) in items(container, "ports").iter().enumerate() {
            let Some(host) = int(port, "hostPort").filter(|host| *host != 0) else {
                continue;
            };
            let key = format!("{}/{}/{host}", text(port, "protocol"), text(port, "hostIP"));

            if !used.insert(key.clone()) {
                errors.duplicate(&format!("{path}[{index}].ports[{number}].hostPort"), key);
            }
        }
    }
}

fn mounts(container: &Value, volumes: &Volumes<'_>, path: &str, errors: &mut ErrorList) {
    let devices: HashMap<&str, &str> = pairs(container, "volumeDevices", "devicePath");
    let mut paths = HashSet::new();

    for (index, mount) in items(container, "volumeMounts").iter().enumerate() {
        let own = format!("{path}[{index}]");
        let name = text(mount, "name");

        if name.is_empty() {
            errors.required(&format!("{own}.name"), "");
        }
        if !volumes.contains_key(name) {
            errors.not_found(&format!("{own}.name"), name);
        }

        let place = text(mount, "mountPath");
        if place.is_empty() {
            errors.required(&format!("{own}.mountPath"), "");
        }
        if !paths.insert(place) {
            errors.invalid(&format!("{own}.mountPath"), place, "must be unique");
        }
        if devices.contains_key(name) {
            errors.invalid(
                &format!("{own}.name"),
                name,
                "must not already exist in volumeDevices",
            );
        }
        if devices.values().any(|device| *device == place) {
            let detail = "must not already exist as a path in volumeDevices";
            errors.invalid(&format!("{own}.mountPath"), place, detail);
        }
        for key in ["subPath", "subPathExpr"] {
            descending_path(text(mount, key), &format!("{path}.{key}"), errors);
        }

        propagation(
            mount,
            container,
            &format!("{path}.mountPropagation"),
            errors,
        );
    }
}

fn pairs<'a>(container: &'a Value, list: &str, key: &str) -> HashMap<&'a str, &'a str> {
    items(container, list)
        .iter()
        .map(|item| (text(item, "name"), text(item, key)))
        .collect()
}

fn propagation(mount: &Value, container: &Value, path: &str, errors: &mut ErrorList) {
    errors.one_of(
        path,
        &mount["mountPropagation"],
        &["Bidirectional", "HostToContainer", "None"],
    );

    if text(mount, "mountPropagation") == "Bidirectional"
        && !is_true(container, "securityContext.privileged")
    {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        errors.forbidden(path, detail);
    }
}

fn devices(container: &Value, volumes: &Volumes<'_>, path: &str, errors: &mut ErrorList) {
    let mut names = HashSet::new();
    let mut paths = HashSet::new();
    for (index, device) in items(container, "volumeDevices").iter().enumerate() {
        let own = format!("{path}[{index}]");
        let name = text(device, "name");

        if name.is_empty() {
            errors.required(&format!("{own}.name"), "");
        }
        if names.contains(name) {
            errors.invalid(&format!("{own}.name"), name, "must be unique");
        }

        match volumes.get(name) {
            None => errors.not_found(&format!("{own}.name"), name),
            Some(volume) if !has(volume, "persistentVolumeClaim") && !has(volume, "ephemeral") => {
                let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.invalid(&format!("{own}.name"), name, detail);
            }
            Some(_) => {}
        }

        let place = text(device, "devicePath");
        if place.is_empty() {
            errors.required(&format!("{own}.devicePath"), "");
        }
        if !paths.insert(place) {
            errors.invalid(&format!("{own}.devicePath"), place, "must be unique");
        }

        if !name.is_empty() {
            names.insert(name);
        }
    }
}

fn resize_policies(container: &Value, spec: &Value, path: &str, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for (index, policy) in items(container, "resizePolicy").iter().enumerate() {
        let resource = text(policy, "resourceName");
        if !seen.insert(resource) {
            errors.duplicate(&format!("{path}[{index}]"), resource);
        }

        errors.one_of(
            &format!("{path}[{index}]"),
            &policy["resourceName"],
            &["cpu", "memory"],
        );

        let policies = ["NotRequired", "RestartContainer"];
        errors.one_of(
            &format!("{path}[{index}]"),
            &policy["restartPolicy"],
            &policies,
        );

        if text(spec, "restartPolicy") == "Never" && text(policy, "restartPolicy") != "NotRequired"
        {
            let detail = "must be 'NotRequired' when `restartPolicy` is 'Never'";
            errors.invalid(
                &format!("{path}[{index}]"),
                policy["restartPolicy"].clone(),
                detail,
            );
        }
    }
}
