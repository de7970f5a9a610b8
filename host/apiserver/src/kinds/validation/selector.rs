//! Validation of label selectors, and whether they match labels.

use serde_json::{Map, Value};

use super::super::object::{fields, items, text};
use super::{errors::Errors, format, metadata};

/// Validates a label selector.
pub(crate) fn validate(selector: &Value, path: &str, errors: &mut Errors) {
    metadata::labels(selector, "matchLabels", &format!("{path}.matchLabels"), errors);
    for (index, requirement) in items(selector, "matchExpressions").iter().enumerate() {
        expression(requirement, &format!("{path}.matchExpressions[{index}]"), errors);
    }
}

fn expression(requirement: &Value, path: &str, errors: &mut Errors) {
    let values = items(requirement, "values");
    match text(requirement, "operator") {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(&format!("{path}.values"), "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "In" | "NotIn" => {}
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(&format!("{path}.values"), detail);
        }
        "Exists" | "DoesNotExist" => {}
        operator => errors.invalid(&format!("{path}.operator"), operator, "not a valid selector operator"),
    }
    let key = text(requirement, "key");
    errors.invalid_each(&format!("{path}.key"), key, &format::qualified_name(key));
    for (index, value) in values.iter().filter_map(Value::as_str).enumerate() {
        errors.invalid_each(&format!("{path}.values[{index}]"), value, &format::label_value(value));
    }
}

/// Reports whether a selector has no requirement.
pub(crate) fn is_empty(selector: &Value) -> bool {
    fields(selector, "matchLabels").is_empty() && items(selector, "matchExpressions").is_empty()
}

/// Reports whether a selector matches labels; `None` if it cannot be converted.
pub(crate) fn matches(selector: &Value, labels: &Map<String, Value>) -> Option<bool> {
    let mut scratch = Errors::default();
    validate(selector, "", &mut scratch);
    if scratch.len() > 0 {
        return None;
    }
    let equal = fields(selector, "matchLabels").iter().all(|(key, value)| labels.get(key) == Some(value));
    let expressions = items(selector, "matchExpressions").iter().all(|requirement| {
        let value = labels.get(text(requirement, "key"));
        let listed = value.is_some_and(|value| items(requirement, "values").contains(value));
        match text(requirement, "operator") {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => value.is_some(),
            _ => value.is_none(),
        }
    });
    Some(equal && expressions)
}
