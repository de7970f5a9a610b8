//! Validation of probes and lifecycle handlers.

use serde_json::Value;

use super::super::super::object::{at, has, int, items, text};
use super::super::{ErrorList, format};

pub(super) fn all(container: &Value, path: &str, errors: &mut ErrorList) {
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = at(container, key);
        if probe.is_null() {
            continue;
        }

        let path = format!("{path}.{key}");
        one(probe, &path, errors);

        let successes = int(probe, "successThreshold").unwrap_or(0);
        if key != "readinessProbe" && successes != 1 {
            errors.invalid(&format!("{path}.successThreshold"), successes, "must be 1");
        }

        if key == "readinessProbe" && has(probe, "terminationGracePeriodSeconds") {
            let seconds = probe["terminationGracePeriodSeconds"].clone();
            let path = format!("{path}.terminationGracePeriodSeconds");
            errors.invalid(&path, seconds, "must not be set for readinessProbes");
        }
    }
}

fn one(probe: &Value, path: &str, errors: &mut ErrorList) {
    handler(probe, None, path, errors);

    let counts = [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ];

    for key in counts {
        errors.non_negative(&format!("{path}.{key}"), &probe[key]);
    }

    if let Some(seconds) =
        int(probe, "terminationGracePeriodSeconds").filter(|seconds| *seconds <= 0)
    {
        errors.invalid(
            &format!("{path}.terminationGracePeriodSeconds"),
            seconds,
            "must be greater than 0",
        );
    }
}

pub(super) fn lifecycle(container: &Value, spec: &Value, path: &str, errors: &mut ErrorList) {
    let grace = int(spec, "terminationGracePeriodSeconds");
    for key in ["postStart", "preStop"] {
        let action = at(container, "lifecycle").get(key).unwrap_or(&Value::Null);
        if !action.is_null() {
            handler(action, grace, &format!("{path}.lifecycle.{key}"), errors);
        }
    }
}

fn handler(handler: &Value, grace: Option<i64>, path: &str, errors: &mut ErrorList) {
    let mut count = 0;

    for key in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let action = at(handler, key);
        if action.is_null() {
            continue;
        }
        let path = format!("{path}.{key}");

        if count > 0 {
            errors.forbidden(&path, "may not specify more than 1 handler type");
            continue;
        }

        count += 1;
        match key {
            "exec" if items(action, "command").is_empty() => {
                errors.required(&format!("{path}.command"), "");
            }
            "httpGet" => http_get(action, &path, errors),
            "tcpSocket" | "grpc" => port(at(action, "port"), &format!("{path}.port"), errors),
            "sleep" => sleep(action, grace, &path, errors),
            _ => {}
        }
    }

    if count == 0 {
        errors.required(path, "must specify a handler type");
    }
}

fn http_get(action: &Value, path: &str, errors: &mut ErrorList) {
    if text(action, "path").is_empty() {
        errors.required(&format!("{path}.path"), "");
    }

    port(at(action, "port"), &format!("{path}.port"), errors);
    errors.one_of(
        &format!("{path}.scheme"),
        &action["scheme"],
        &["HTTP", "HTTPS"],
    );

    for header in items(action, "httpHeaders") {
        let name = text(header, "name");
        if name.is_empty()
            || !name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        {
            let detail = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', \
                regex used for validation is '[-A-Za-z0-9]+')";
            errors.invalid(&format!("{path}.httpHeaders"), name, detail);
        }
    }
}

pub(super) fn port(port: &Value, path: &str, errors: &mut ErrorList) {
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

fn sleep(action: &Value, grace: Option<i64>, path: &str, errors: &mut ErrorList) {
    let seconds = int(action, "seconds").unwrap_or(0);
    let Some(grace) = grace else { return };

    if seconds < 0 || seconds > grace {
        let detail =
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.invalid(path, seconds, &detail);
    }
}
