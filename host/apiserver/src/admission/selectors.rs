//! Validation of label selectors.

use serde_json::{Value, json};

use crate::authz::{
    error::Cause,
    names,
    objects::{text, texts},
};

/// Checks a `LabelSelector`.
pub(super) fn validate(at: &str, selector: &Value, causes: &mut Vec<Cause>) {
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        let at = format!("{at}.matchLabels");
        for error in names::qualified_name_errors(key) {
            causes.push(Cause::invalid(at.clone(), &json!(key), &error));
        }
        for error in names::label_value_errors(value.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid(at.clone(), value, &error));
        }
    }
    let expressions = selector["matchExpressions"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (index, expression) in expressions.iter().enumerate() {
        requirement(&format!("{at}.matchExpressions[{index}]"), expression, causes);
    }
}

fn requirement(at: &str, requirement: &Value, causes: &mut Vec<Cause>) {
    let has_values = texts(&requirement["values"]).next().is_some();
    match text(requirement, &["operator"]) {
        "In" | "NotIn" if has_values => {}
        "In" | "NotIn" => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            causes.push(Cause::required(format!("{at}.values"), detail));
        }
        "Exists" | "DoesNotExist" if has_values => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            causes.push(Cause::forbidden(format!("{at}.values"), detail));
        }
        "Exists" | "DoesNotExist" => {}
        other => {
            let field = format!("{at}.operator");
            causes.push(Cause::invalid(field, &json!(other), "not a valid selector operator"));
        }
    }
    let key = text(requirement, &["key"]);
    for error in names::qualified_name_errors(key) {
        causes.push(Cause::invalid(format!("{at}.key"), &json!(key), &error));
    }
    for (index, value) in texts(&requirement["values"]).enumerate() {
        for error in names::label_value_errors(value) {
            causes.push(Cause::invalid(format!("{at}.values[{index}]"), &json!(value), &error));
        }
    }
}
