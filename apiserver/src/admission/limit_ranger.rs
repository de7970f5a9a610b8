//! The admission plugin LimitRanger: defaults and limits of the resources of containers and claims.
//!
//! Limits of whole Pods and ratios are refused when the LimitRange is created.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::request::{AdmissionRequest, Operation};
use crate::{
    apimachinery::{field::aggregate, quantity::Quantity, status::Status},
    authz::objects::{Objects, text},
};

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Refuses a LimitRange of what this server does not limit.
///
/// # Errors
/// `Unsupported` for limits of the type `Pod`, for ratios, and for quantities that are too large to
/// compare.
pub fn check_supported(range: &Value) -> Result<(), Status> {
    let unsupported = |what: &str| {
        Err(Status::unsupported(format!(
            "the embedded API server does not support {what}"
        )))
    };

    for limit in limits(range) {
        if !matches!(
            text(limit, &["type"]),
            "Container" | "PersistentVolumeClaim"
        ) {
            return unsupported(&format!(
                "limits of type {} in a LimitRange",
                text(limit, &["type"])
            ));
        }

        if limit["maxLimitRequestRatio"]
            .as_object()
            .is_some_and(|ratios| !ratios.is_empty())
        {
            return unsupported("the field maxLimitRequestRatio of a LimitRange");
        }

        for (_, value) in ["min", "max"]
            .iter()
            .flat_map(|bound| entries(&limit[*bound]))
        {
            if amount(value).is_none() {
                return unsupported(&format!("the quantity {value} in a LimitRange"));
            }
        }
    }

    Ok(())
}

fn limits(range: &Value) -> impl Iterator<Item = &Value> {
    range["spec"]["limits"].as_array().into_iter().flatten()
}

fn entries(list: &Value) -> impl Iterator<Item = (&String, &Value)> {
    list.as_object().into_iter().flatten()
}

fn shown(quantity: &Value) -> String {
    quantity
        .as_str()
        .map_or_else(|| quantity.to_string(), str::to_owned)
}

fn amount(value: &Value) -> Option<i128> {
    Quantity::parse(&shown(value)).ok()?.milli_value()
}

/// Sets the defaults of the containers of a Pod that is to be created.
pub fn complete(request: &AdmissionRequest<'_>, pod: &mut Value, objects: &dyn Objects) {
    if !request.is_for("", "pods") || request.operation != Operation::Create {
        return;
    }

    for range in objects.list("", "limitranges", request.namespace) {
        let of_containers: Vec<&Value> = limits(&range)
            .filter(|limit| text(limit, &["type"]) == "Container")
            .collect();
        let defaults = |field: &str| -> BTreeMap<String, Value> {
            let all = of_containers
                .iter()
                .flat_map(|limit| entries(&limit[field]));
            all.map(|(name, value)| (name.clone(), value.clone()))
                .collect()
        };

        let requests = defaults("defaultRequest");
        let maxima = defaults("default");
        let mut notes = Vec::new();

        for (list, kind) in [
            ("containers", "container"),
            ("initContainers", "init container"),
        ] {
            for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
                let name = text(container, &["name"]).to_owned();
                let mut note = |field: &str, what: &str, defaults: &BTreeMap<String, Value>| {
                    let set = set_defaults(container, field, defaults);
                    if !set.is_empty() {
                        notes.push(format!("{} {what} for {kind} {name}", set.join(", ")));
                    }
                };

                note("requests", "request", &requests);
                note("limits", "limit", &maxima);
            }
        }

        if !notes.is_empty() {
            annotate(
                pod,
                &format!("LimitRanger plugin set: {}", notes.join("; ")),
            );
        }
    }
}

/// Sets the resources that a container does not state; returns their names.
fn set_defaults(
    container: &mut Value,
    field: &str,
    defaults: &BTreeMap<String, Value>,
) -> Vec<String> {
    let missing: Vec<(String, Value)> = defaults
        .iter()
        .filter(|(name, _)| container["resources"][field].get(name.as_str()).is_none())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    for (name, value) in &missing {
        container["resources"][field][name] = value.clone();
    }
    missing.into_iter().map(|(name, _)| name).collect()
}

fn annotate(pod: &mut Value, note: &str) {
    let annotations = &mut pod["metadata"]["annotations"];
    if !annotations.is_object() {
        *annotations = Value::Object(Map::new());
    }
    annotations[ANNOTATION] = json!(note);
}

/// Admits a Pod or a claim that is to be created, after [`complete`].
///
/// # Errors
/// `Forbidden` if it asks for more or less than a LimitRange of its Namespace allows.
pub fn admit(request: &AdmissionRequest<'_>, objects: &dyn Objects) -> Result<(), Status> {
    let is_pod = request.is_for("", "pods") && request.operation == Operation::Create;
    let is_claim = request.is_for("", "persistentvolumeclaims");
    let Some(object) = request.object.filter(|_| is_pod || is_claim) else {
        return Ok(());
    };

    for range in objects.list("", "limitranges", request.namespace) {
        let mut errors = Vec::new();
        for limit in limits(&range) {
            match text(limit, &["type"]) {
                "Container" if is_pod => {
                    for container in ["containers", "initContainers"]
                        .iter()
                        .flat_map(|list| object["spec"][*list].as_array().into_iter().flatten())
                    {
                        container_errors(limit, &container["resources"], &mut errors);
                    }
                }
                "PersistentVolumeClaim" if is_claim => {
                    claim_errors(limit, &object["spec"]["resources"], &mut errors);
                }
                _ => {}
            }
        }

        if !errors.is_empty() {
            return Err(request.forbidden(&aggregate(&errors)));
        }
    }

    Ok(())
}

fn container_errors(limit: &Value, resources: &Value, errors: &mut Vec<String>) {
    for (name, bound) in entries(&limit["min"]) {
        let wanted = [
            ("request", &resources["requests"][name]),
            ("limit", &resources["limits"][name]),
        ];

        errors.extend(bound_error(
            "minimum",
            "Container",
            (name, bound),
            "request",
            &wanted,
        ));
    }

    for (name, bound) in entries(&limit["max"]) {
        let wanted = [
            ("limit", &resources["limits"][name]),
            ("request", &resources["requests"][name]),
        ];

        errors.extend(bound_error(
            "maximum",
            "Container",
            (name, bound),
            "limit",
            &wanted,
        ));
    }
}

fn claim_errors(limit: &Value, resources: &Value, errors: &mut Vec<String>) {
    for (which, field) in [("minimum", "min"), ("maximum", "max")] {
        for (name, bound) in entries(&limit[field]) {
            let wanted = [("request", &resources["requests"][name])];
            errors.extend(bound_error(
                which,
                "PersistentVolumeClaim",
                (name, bound),
                "request",
                &wanted,
            ));
        }
    }
}

/// Returns an error if a required value is absent, or if one of the values is beyond a bound.
fn bound_error(
    which: &str,
    of: &str,
    (name, bound): (&String, &Value),
    required: &str,
    wanted: &[(&str, &Value)],
) -> Option<String> {
    let rule = format!("{which} {name} usage per {of} is {}", shown(bound));
    let limit = amount(bound)?;
    for (what, value) in wanted {
        if value.is_null() {
            if *what == required {
                return Some(format!("{rule}.  No {required} is specified"));
            }
            continue;
        }

        let value_amount = amount(value)?;
        let is_beyond = if which == "minimum" {
            value_amount < limit
        } else {
            value_amount > limit
        };
        if is_beyond {
            return Some(format!("{rule}, but {what} is {}", shown(value)));
        }
    }

    None
}
