//! Defaults of Pods and pod templates.

use serde_json::{Value, json};

use super::super::object::{
    at, at_mut, fields, has, int, is_true, items_mut, set, set_default, text,
};
use super::{image::image_pull_policy, volumes};

/// The lists of a pod's containers.
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Sets the defaults of a Pod: those of a template, and those that only Pods have.
pub(super) fn pod(object: &mut Value) {
    let Some(spec) = at_mut(object, "spec") else {
        return;
    };

    if spec["enableServiceLinks"].is_null() {
        set(spec, "enableServiceLinks", true);
    }

    for list in ["containers", "initContainers"] {
        items_mut(spec, list).for_each(requests_from_limits);
    }

    pod_spec(spec);
    if int(spec, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        // A negative period stands for the shortest one. Templates keep it.
        set(spec, "terminationGracePeriodSeconds", 1);
    }

    if has(object, "status") {
        let status = &mut object["status"];
        set_default(status, "phase", "Pending");
    }
}

pub(super) fn template(object: &mut Value, path: &str) {
    if let Some(spec) = at_mut(object, path).and_then(|template| at_mut(template, "spec")) {
        pod_spec(spec);
    }
}

/// Requests default to the limits.
fn requests_from_limits(container: &mut Value) {
    let limits = fields(container, "resources.limits").clone();
    let Some(resources) = at_mut(container, "resources").filter(|_| !limits.is_empty()) else {
        return;
    };

    set_default(resources, "requests", json!({}));
    let requests = &mut resources["requests"];
    for (name, limit) in limits {
        if requests[&name].is_null() {
            set(requests, &name, limit);
        }
    }
}

fn pod_spec(spec: &mut Value) {
    set_default(spec, "dnsPolicy", "ClusterFirst");
    set_default(spec, "restartPolicy", "Always");
    set_default(spec, "securityContext", json!({}));
    set_default(spec, "terminationGracePeriodSeconds", 30);
    set_default(spec, "schedulerName", "default-scheduler");
    service_account(spec);

    let host_network = is_true(spec, "hostNetwork");
    for list in CONTAINERS {
        items_mut(spec, list).for_each(|item| container(item, host_network));
    }

    items_mut(spec, "volumes").for_each(volumes::volume);
}

/// Keeps the deprecated `serviceAccount` equal to `serviceAccountName`, like the conversion to the
/// internal type.
fn service_account(spec: &mut Value) {
    let name = match (
        text(spec, "serviceAccountName"),
        text(spec, "serviceAccount"),
    ) {
        ("", old) => old,
        (name, _) => name,
    };

    if !name.is_empty() {
        let name = name.to_owned();
        set(spec, "serviceAccountName", name.as_str());
        set(spec, "serviceAccount", name);
    }
}

fn container(container: &mut Value, host_network: bool) {
    let policy = image_pull_policy(text(container, "image"));
    set_default(container, "imagePullPolicy", policy);
    set_default(container, "terminationMessagePath", "/dev/termination-log");
    set_default(container, "terminationMessagePolicy", "File");

    for port in items_mut(container, "ports") {
        set_default(port, "protocol", "TCP");

        if host_network && port["hostPort"].is_null() {
            let number = port["containerPort"].clone();
            if number != 0 {
                set(port, "hostPort", number);
            }
        }
    }

    for variable in items_mut(container, "env") {
        if let Some(reference) = at_mut(variable, "valueFrom.fieldRef") {
            set_default(reference, "apiVersion", "v1");
        }
        if let Some(reference) = at_mut(variable, "valueFrom.resourceFieldRef") {
            set_default(reference, "divisor", "0");
        }
        if let Some(reference) = at_mut(variable, "valueFrom.fileKeyRef") {
            set_default(reference, "optional", false);
        }
    }

    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = at_mut(container, name) {
            self::probe(probe);
        }
    }

    for path in ["lifecycle.postStart.httpGet", "lifecycle.preStop.httpGet"] {
        if let Some(action) = at_mut(container, path) {
            http_get(action);
        }
    }
}

fn probe(probe: &mut Value) {
    for (key, number) in [
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ] {
        set_default(probe, key, number);
    }
    if let Some(action) = at_mut(probe, "httpGet") {
        http_get(action);
    }

    if at(probe, "grpc").is_object() && probe["grpc"]["service"].is_null() {
        set(&mut probe["grpc"], "service", "");
    }
}

fn http_get(action: &mut Value) {
    set_default(action, "path", "/");
    set_default(action, "scheme", "HTTP");
}
