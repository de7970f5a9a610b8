//! Validation of tolerations, affinity and topology spread.

use std::collections::HashSet;

use serde_json::Value;

use super::super::super::object::{at, has, int, items, text};
use super::super::{ErrorList, format, selector};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn tolerations(tolerations: &[Value], path: &str, errors: &mut ErrorList) {
    for (index, toleration) in tolerations.iter().enumerate() {
        let path = format!("{path}[{index}]");

        let key = text(toleration, "key");
        let operator = text(toleration, "operator");

        if !key.is_empty() {
            errors.invalid_each(&format!("{path}.key"), key, &format::qualified_name(key));
        } else if operator != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.invalid(&format!("{path}.operator"), operator, detail);
        }

        let effect = text(toleration, "effect");
        if has(toleration, "tolerationSeconds") && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(&format!("{path}.effect"), effect, detail);
        }

        let value = text(toleration, "value");
        match operator {
            "Equal" | "" => {
                let messages = format::label_value(value);
                if !messages.is_empty() {
                    errors.invalid(&format!("{path}.operator"), value, &messages.join(";"));
                }
            }
            "Exists" if !value.is_empty() => {
                let detail = "value must be empty when `operator` is 'Exists'";
                errors.invalid(&format!("{path}.operator"), value, detail);
            }
            "Exists" => {}
            "Lt" | "Gt" => {
                let allowed = ["Equal", "Exists", "Lt", "Gt"];
                errors.not_supported(&format!("{path}.operator"), operator, &allowed);
            }
            _ => errors.not_supported(&format!("{path}.operator"), operator, &["Equal", "Exists"]),
        }

        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        errors.one_of(&format!("{path}.effect"), &toleration["effect"], &effects);
    }
}

pub(super) fn gates(gates: &[Value], path: &str, errors: &mut ErrorList) {
    let mut names = HashSet::new();
    for (index, gate) in gates.iter().enumerate() {
        let name = text(gate, "name");

        errors.invalid_each(
            &format!("{path}[{index}].name"),
            name,
            &format::qualified_name(name),
        );

        if !names.insert(name) {
            errors.duplicate(&format!("{path}[{index}].name"), name);
        }
    }
}

pub(super) fn spread(constraints: &[Value], path: &str, errors: &mut ErrorList) {
    for (index, constraint) in constraints.iter().enumerate() {
        let own = format!("{path}[{index}]");

        let skew = int(constraint, "maxSkew").unwrap_or(0);
        if skew <= 0 {
            errors.invalid(&format!("{own}.maxSkew"), skew, "must be greater than zero");
        }
        if text(constraint, "topologyKey").is_empty() {
            errors.required(&format!("{own}.topologyKey"), "can not be empty");
        }

        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        let action = text(constraint, "whenUnsatisfiable");
        if !actions.contains(&action) {
            errors.not_supported(&format!("{own}.whenUnsatisfiable"), action, &actions);
        }

        let same = |other: &Value| {
            ["topologyKey", "whenUnsatisfiable"]
                .iter()
                .all(|key| other[key] == constraint[key])
        };

        if constraints[index + 1..].iter().any(same) {
            let value = format!("{{{}, {action}}}", text(constraint, "topologyKey"));
            errors.duplicate(&format!("{own}.{{topologyKey, whenUnsatisfiable}}"), value);
        }

        if let Some(domains) = int(constraint, "minDomains") {
            if domains <= 0 {
                errors.invalid(
                    &format!("{own}.minDomains"),
                    domains,
                    "must be greater than zero",
                );
            }

            if action != "DoNotSchedule" {
                let detail = format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                );
                errors.invalid(&format!("{own}.minDomains"), domains, &detail);
            }
        }

        for key in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            errors.one_of(
                &format!("{own}.{key}"),
                &constraint[key],
                &["Honor", "Ignore"],
            );
        }

        selector::validate(
            at(constraint, "labelSelector"),
            &format!("{own}.labelSelector"),
            errors,
        );
    }
}

pub(super) fn affinity(affinity: &Value, path: &str, errors: &mut ErrorList) {
    node_affinity(
        at(affinity, "nodeAffinity"),
        &format!("{path}.nodeAffinity"),
        errors,
    );

    for kind in ["podAffinity", "podAntiAffinity"] {
        let part = at(affinity, kind);
        for (index, term) in items(part, REQUIRED).iter().enumerate() {
            pod_term(term, &format!("{path}.{kind}.{REQUIRED}[{index}]"), errors);
        }

        for (index, term) in items(part, PREFERRED).iter().enumerate() {
            let path = format!("{path}.{kind}.{PREFERRED}[{index}]");
            weight(term, &path, errors);
            pod_term(
                at(term, "podAffinityTerm"),
                &format!("{path}.podAffinityTerm"),
                errors,
            );
        }
    }
}

fn weight(term: &Value, path: &str, errors: &mut ErrorList) {
    let weight = int(term, "weight").unwrap_or(0);
    if !(1..=100).contains(&weight) {
        errors.invalid(
            &format!("{path}.weight"),
            weight,
            "must be in the range 1-100",
        );
    }
}

fn pod_term(term: &Value, path: &str, errors: &mut ErrorList) {
    for key in ["labelSelector", "namespaceSelector"] {
        selector::validate(at(term, key), &format!("{path}.{key}"), errors);
    }
    for name in items(term, "namespaces").iter().filter_map(Value::as_str) {
        errors.invalid_each(&format!("{path}.namespace"), name, &format::label(name));
    }

    let key = text(term, "topologyKey");
    if key.is_empty() {
        errors.required(&format!("{path}.topologyKey"), "can not be empty");
    }
    errors.invalid_each(
        &format!("{path}.topologyKey"),
        key,
        &format::qualified_name(key),
    );
}

fn node_affinity(affinity: &Value, path: &str, errors: &mut ErrorList) {
    if has(affinity, REQUIRED) {
        let terms = items(at(affinity, REQUIRED), "nodeSelectorTerms");
        let path = format!("{path}.{REQUIRED}.nodeSelectorTerms");
        if terms.is_empty() {
            errors.required(&path, "must have at least one node selector term");
        }
        for (index, term) in terms.iter().enumerate() {
            node_term(term, &format!("{path}[{index}]"), errors);
        }
    }

    for (index, term) in items(affinity, PREFERRED).iter().enumerate() {
        let path = format!("{path}.{PREFERRED}[{index}]");
        weight(term, &path, errors);
        node_term(
            at(term, "preference"),
            &format!("{path}.preference"),
            errors,
        );
    }
}

fn node_term(term: &Value, path: &str, errors: &mut ErrorList) {
    for list in ["matchExpressions", "matchFields"] {
        for (index, requirement) in items(term, list).iter().enumerate() {
            node_requirement(
                requirement,
                list == "matchFields",
                &format!("{path}.{list}[{index}]"),
                errors,
            );
        }
    }
}

fn node_requirement(requirement: &Value, is_field: bool, path: &str, errors: &mut ErrorList) {
    let values = items(requirement, "values");
    let operator = text(requirement, "operator");

    match operator {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(
                &format!("{path}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            );
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(&format!("{path}.values"), detail);
        }
        "Gt" | "Lt" if values.len() != 1 => {
            errors.required(
                &format!("{path}.values"),
                "must be specified single value when `operator` is 'Lt' or 'Gt'",
            );
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        _ => errors.invalid(
            &format!("{path}.operator"),
            operator,
            "not a valid selector operator",
        ),
    }

    let key = text(requirement, "key");
    if !is_field {
        errors.invalid_each(&format!("{path}.key"), key, &format::qualified_name(key));
    } else if key != "metadata.name" {
        errors.invalid(
            &format!("{path}.key"),
            key,
            "not a valid field selector key",
        );
    }
}
