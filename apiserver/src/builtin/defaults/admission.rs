//! Defaults of webhooks and admission policies.

use serde_json::{Value, json};

use super::super::object::{at_mut, items_mut, set_default};

pub(super) fn registration(kind: &str, object: &mut Value) {
    match kind {
        "ValidatingWebhookConfiguration" => items_mut(object, "webhooks").for_each(webhook),
        "MutatingWebhookConfiguration" => items_mut(object, "webhooks").for_each(|hook| {
            set_default(hook, "reinvocationPolicy", "Never");
            webhook(hook);
        }),
        "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" => {
            let Some(spec) = at_mut(object, "spec") else {
                return;
            };
            set_default(spec, "failurePolicy", "Fail");
            match_resources(spec, "matchConstraints");
        }
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => {
            let Some(spec) = at_mut(object, "spec") else {
                return;
            };
            match_resources(spec, "matchResources");
        }
        _ => {}
    }
}

fn webhook(hook: &mut Value) {
    set_default(hook, "failurePolicy", "Fail");
    set_default(hook, "matchPolicy", "Equivalent");
    set_default(hook, "namespaceSelector", json!({}));
    set_default(hook, "objectSelector", json!({}));
    set_default(hook, "timeoutSeconds", 10);
    if let Some(service) = at_mut(hook, "clientConfig.service") {
        set_default(service, "port", 443);
    }

    items_mut(hook, "rules").for_each(|rule| set_default(rule, "scope", "*"));
}

fn match_resources(spec: &mut Value, key: &str) {
    let Some(resources) = at_mut(spec, key) else {
        return;
    };

    set_default(resources, "matchPolicy", "Equivalent");
    set_default(resources, "namespaceSelector", json!({}));
    set_default(resources, "objectSelector", json!({}));

    for list in ["resourceRules", "excludeResourceRules"] {
        items_mut(resources, list).for_each(|rule| set_default(rule, "scope", "*"));
    }
}
