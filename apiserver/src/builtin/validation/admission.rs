//! Validation of webhooks and admission policies, without their CEL expressions.

use serde_json::Value;

use super::{
    super::object::{at, has, int, items, text},
    ErrorList, format, selector,
};

pub(super) fn webhooks(mutating: bool, object: &Value, errors: &mut ErrorList) {
    for (index, hook) in items(object, "webhooks").iter().enumerate() {
        webhook(hook, mutating, &format!("webhooks[{index}]"), errors);
    }
}

fn webhook(hook: &Value, mutating: bool, path: &str, errors: &mut ErrorList) {
    qualified_domain(text(hook, "name"), &format!("{path}.name"), errors);
    for (index, rule) in items(hook, "rules").iter().enumerate() {
        rule_of(rule, &format!("{path}.rules[{index}]"), errors);
    }

    errors.one_of(
        &format!("{path}.failurePolicy"),
        &hook["failurePolicy"],
        &["Fail", "Ignore"],
    );

    errors.one_of(
        &format!("{path}.matchPolicy"),
        &hook["matchPolicy"],
        &["Equivalent", "Exact"],
    );

    let effects = ["None", "NoneOnDryRun"];
    if text(hook, "sideEffects").is_empty() {
        errors.required(
            &format!("{path}.sideEffects"),
            "must specify one of None, NoneOnDryRun",
        );
    } else {
        errors.one_of(
            &format!("{path}.sideEffects"),
            &hook["sideEffects"],
            &effects,
        );
    }

    if let Some(seconds) = int(hook, "timeoutSeconds").filter(|seconds| !(1..=30).contains(seconds))
    {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.invalid(&format!("{path}.timeoutSeconds"), seconds, detail);
    }

    for key in ["namespaceSelector", "objectSelector"] {
        selector::validate(at(hook, key), &format!("{path}.{key}"), errors);
    }

    if mutating {
        let policies = ["IfNeeded", "Never"];
        errors.one_of(
            &format!("{path}.reinvocationPolicy"),
            &hook["reinvocationPolicy"],
            &policies,
        );
    }

    client(
        at(hook, "clientConfig"),
        &format!("{path}.clientConfig"),
        errors,
    );

    versions(hook, &format!("{path}.admissionReviewVersions"), errors);
}

fn qualified_domain(name: &str, path: &str, errors: &mut ErrorList) {
    let messages = format::subdomain(name);
    if name.is_empty() {
        errors.required(path, "");
    } else if !messages.is_empty() {
        errors.invalid(path, name, &messages.join(","));
    } else if name.split('.').count() < 3 {
        errors.invalid(
            path,
            name,
            "should be a domain with at least three segments separated by dots",
        );
    }
}

fn versions(hook: &Value, path: &str, errors: &mut ErrorList) {
    let list = items(hook, "admissionReviewVersions");
    if list.is_empty() {
        errors.required(path, "must specify one of v1, v1beta1");
        return;
    }

    for (index, version) in list.iter().filter_map(Value::as_str).enumerate() {
        errors.invalid_each(
            &format!("{path}[{index}]"),
            version,
            &format::label_1035(version),
        );
    }

    if !list
        .iter()
        .any(|version| version == "v1" || version == "v1beta1")
    {
        errors.invalid(
            path,
            list.to_vec(),
            "must include at least one of v1, v1beta1",
        );
    }
}

fn client(client: &Value, path: &str, errors: &mut ErrorList) {
    match (has(client, "url"), has(client, "service")) {
        (true, true) | (false, false) => {
            errors.required(path, "exactly one of url or service is required");
        }
        (true, false) => {
            let url = text(client, "url");
            if !url.starts_with("https://") {
                let detail =
                    "'https' is the only allowed URL scheme; desired format: https://host[/path]";
                errors.invalid(&format!("{path}.url"), url, detail);
            }
        }
        (false, true) => {
            // The real server exchanges the two in its messages.
            for (key, shown) in [("namespace", "name"), ("name", "namespace")] {
                if text(client, &format!("service.{key}")).is_empty() {
                    errors.required(&format!("{path}.service.{shown}"), "");
                }
            }

            let port = int(client, "service.port").unwrap_or(0);
            if let Some(message) = format::range(port, 1, 65_535) {
                errors.invalid(
                    &format!("{path}.service.port"),
                    port,
                    &format!("port is not valid: {message}"),
                );
            }
        }
    }
}

/// Validates the operations, groups, versions and resources of a rule.
fn rule_of(rule: &Value, path: &str, errors: &mut ErrorList) {
    let operations = items(rule, "operations");
    let field = format!("{path}.operations");
    if operations.is_empty() {
        errors.required(&field, "");
    }

    let any = operations.iter().any(|operation| operation == "*");
    if operations.len() > 1 && any {
        errors.invalid(
            &field,
            operations.to_vec(),
            "if '*' is present, must not specify other operations",
        );
    }

    for (index, operation) in operations.iter().enumerate() {
        let known = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
        errors.required_one_of(&format!("{field}[{index}]"), operation, &known);
    }

    for (key, words) in [("apiGroups", "groups"), ("apiVersions", "versions")] {
        let list = items(rule, key);
        let field = format!("{path}.{key}");
        if list.is_empty() {
            errors.required(&field, "");
        }

        for index in list
            .iter()
            .enumerate()
            .filter(|(_, item)| *item == "")
            .map(|(index, _)| index)
        {
            if key == "apiVersions" {
                errors.required(&format!("{field}[{index}]"), "");
            }
        }

        if list.len() > 1 && list.iter().any(|item| item == "*") {
            let detail = format!("if '*' is present, must not specify other API {words}");
            errors.invalid(&field, list.to_vec(), &detail);
        }
    }

    if items(rule, "resources").is_empty() {
        errors.required(&format!("{path}.resources"), "");
    }

    errors.one_of(
        &format!("{path}.scope"),
        &rule["scope"],
        &["*", "Cluster", "Namespaced"],
    );
}

pub(super) fn policy(object: &Value, errors: &mut ErrorList) {
    let spec = at(object, "spec");
    errors.one_of(
        "spec.failurePolicy",
        &spec["failurePolicy"],
        &["Fail", "Ignore"],
    );

    if has(spec, "matchConstraints") {
        match_resources(
            at(spec, "matchConstraints"),
            "spec.matchConstraints",
            errors,
        );

        if items(spec, "matchConstraints.resourceRules").is_empty() {
            errors.required("spec.matchConstraints.resourceRules", "");
        }
    } else {
        errors.required("spec.matchConstraints", "");
    }

    if items(spec, "validations").is_empty() && items(spec, "auditAnnotations").is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        errors.required("spec.validations", detail);
        errors.required("spec.auditAnnotations", detail);
    }

    for (index, validation) in items(spec, "validations").iter().enumerate() {
        if text(validation, "expression").trim().is_empty() {
            errors.required(
                &format!("spec.validations[{index}].expression"),
                "expression is not specified",
            );
        }
    }
}

fn match_resources(resources: &Value, path: &str, errors: &mut ErrorList) {
    errors.one_of(
        &format!("{path}.matchPolicy"),
        &resources["matchPolicy"],
        &["Equivalent", "Exact"],
    );

    for key in ["namespaceSelector", "objectSelector"] {
        selector::validate(at(resources, key), &format!("{path}.{key}"), errors);
    }

    for list in ["resourceRules", "excludeResourceRules"] {
        for (index, rule) in items(resources, list).iter().enumerate() {
            rule_of(rule, &format!("{path}.{list}[{index}]"), errors);
        }
    }
}

pub(super) fn binding(object: &Value, errors: &mut ErrorList) {
    let spec = at(object, "spec");
    let name = text(spec, "policyName");
    if name.is_empty() {
        errors.required("spec.policyName", "");
    } else {
        errors.invalid_each("spec.policyName", name, &format::subdomain(name));
    }

    if has(spec, "matchResources") {
        match_resources(at(spec, "matchResources"), "spec.matchResources", errors);
    }

    let actions = items(spec, "validationActions");
    if actions.is_empty() {
        errors.required(
            "spec.validationActions",
            "at least one validation action is required",
        );
    }

    for (index, action) in actions.iter().enumerate() {
        let path = format!("spec.validationActions[{index}]");
        errors.required_one_of(&path, action, &["Audit", "Deny", "Warn"]);
        if actions[..index].contains(action) {
            errors.duplicate(&path, action.as_str().unwrap_or_default());
        }
    }

    let both = ["Deny", "Warn"]
        .iter()
        .all(|name| actions.iter().any(|action| action == name));
    if both {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the \
            API response and headers serves no purpose)";
        errors.invalid("spec.validationActions", actions.to_vec(), detail);
    }
}
