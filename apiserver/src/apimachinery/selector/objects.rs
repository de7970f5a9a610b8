//! `metav1.LabelSelector`: label selectors as objects have them.

use serde_json::{Map, Value};

use crate::apimachinery::{field::ErrorList, names};

/// Validates labels, such as `matchLabels`.
pub fn validate_labels(labels: &Value, path: &str, errors: &mut ErrorList) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        errors.invalid_each(path, key, &names::qualified_name(key));
        let value = value.as_str().unwrap_or_default();
        errors.invalid_each(path, value, &names::label_value(value));
    }
}

/// Validates a label selector.
pub fn validate(selector: &Value, path: &str, errors: &mut ErrorList) {
    validate_labels(
        &selector["matchLabels"],
        &format!("{path}.matchLabels"),
        errors,
    );
    for (index, requirement) in items(selector, "matchExpressions").iter().enumerate() {
        validate_requirement(
            requirement,
            &format!("{path}.matchExpressions[{index}]"),
            errors,
        );
    }
}

fn validate_requirement(requirement: &Value, path: &str, errors: &mut ErrorList) {
    let values = items(requirement, "values");
    match text(requirement, "operator") {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.required(&format!("{path}.values"), detail);
        }
        "In" | "NotIn" => {}
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(&format!("{path}.values"), detail);
        }
        "Exists" | "DoesNotExist" => {}
        operator => {
            let detail = "not a valid selector operator";
            errors.invalid(&format!("{path}.operator"), operator, detail);
        }
    }

    let key = text(requirement, "key");
    errors.invalid_each(&format!("{path}.key"), key, &names::qualified_name(key));
    for (index, value) in values.iter().filter_map(Value::as_str).enumerate() {
        errors.invalid_each(
            &format!("{path}.values[{index}]"),
            value,
            &names::label_value(value),
        );
    }
}

/// Reports whether a selector has no requirement.
pub fn is_empty(selector: &Value) -> bool {
    let has_labels = selector["matchLabels"]
        .as_object()
        .is_some_and(|labels| !labels.is_empty());
    !has_labels && items(selector, "matchExpressions").is_empty()
}

/// Reports whether a selector matches labels; `None` if it is invalid.
pub fn matches_if_valid(selector: &Value, labels: &Map<String, Value>) -> Option<bool> {
    let mut errors = ErrorList::default();
    validate(selector, "", &mut errors);
    errors
        .is_empty()
        .then(|| matches_all(selector, |key| labels.get(key)))
}

/// Reports whether a selector matches labels. An empty selector matches everything, null nothing; so
/// does a requirement with an unknown operator.
pub fn matches(selector: &Value, labels: &Value) -> bool {
    selector.is_object() && matches_all(selector, |key| labels.get(key))
}

fn matches_all<'a>(selector: &Value, label: impl Fn(&str) -> Option<&'a Value>) -> bool {
    let is_equal = |(key, value): (&String, &Value)| label(key) == Some(value);
    let is_met = |requirement: &Value| {
        let value = label(text(requirement, "key"));
        let is_listed = value.is_some_and(|value| items(requirement, "values").contains(value));
        match text(requirement, "operator") {
            "In" => is_listed,
            "NotIn" => !is_listed,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    };

    let labels = selector["matchLabels"].as_object();
    labels.into_iter().flatten().all(is_equal)
        && items(selector, "matchExpressions").iter().all(is_met)
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

fn items<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object[field]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selector_matches_as_kubernetes_does() {
        let labels = json!({"a": "1", "b": "2"});
        for (selector, expected) in [
            (json!({}), true),
            (Value::Null, false),
            (json!({"matchLabels": {"a": "1"}}), true),
            (json!({"matchLabels": {"a": "2"}}), false),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "3"]}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}),
                false,
            ),
            (
                json!({"matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["1"]}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "c", "operator": "Exists"}]}),
                false,
            ),
            (
                json!({"matchExpressions": [{"key": "c", "operator": "DoesNotExist"}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "Foo"}]}),
                false,
            ),
        ] {
            assert_eq!(matches(&selector, &labels), expected, "{selector}");
        }
    }
}
