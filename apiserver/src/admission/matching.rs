//! Which requests a policy or binding is about.

use serde_json::{Value, json};

use super::request::{AdmissionRequest, Endpoint, Operation};
use crate::{
    apimachinery::{
        group_resource::GroupResource, selector::objects as label_selector, status::Status,
    },
    authz::objects::{Objects, text, texts},
};

/// Returns the endpoint by which a request matches `MatchResources`: its own, or an equivalent one.
/// None if it does not match.
///
/// # Errors
/// `NotFound` if a selector needs the request's namespace, and it does not exist.
pub(super) fn matches<'r>(
    resources: &Value,
    request: &'r AdmissionRequest<'_>,
    objects: &dyn Objects,
) -> Result<Option<&'r Endpoint>, Status> {
    let by_namespace = matches_namespace(&resources["namespaceSelector"], request, objects);
    if by_namespace == Ok(false) || !matches_object(&resources["objectSelector"], request) {
        return Ok(None);
    }

    let allows_equivalents = text(resources, &["matchPolicy"]) != "Exact";
    if by_rules(
        &resources["excludeResourceRules"],
        request,
        allows_equivalents,
    )
    .is_some()
    {
        return Ok(None);
    }

    let rules = &resources["resourceRules"];
    let matched = if rules.as_array().is_none_or(Vec::is_empty) {
        Some(request.endpoint)
    } else {
        by_rules(rules, request, allows_equivalents)
    };

    // An error matters only if the policy would apply.
    match matched {
        None => Ok(None),
        matched => by_namespace.map(|_| matched),
    }
}

fn is_empty(selector: &Value) -> bool {
    selector.as_object().is_none_or(|fields| {
        fields
            .values()
            .all(|value| *value == json!({}) || *value == json!([]))
    })
}

fn matches_namespace(
    selector: &Value,
    request: &AdmissionRequest<'_>,
    objects: &dyn Objects,
) -> Result<bool, Status> {
    let is_namespace = request.endpoint.resource == "namespaces";
    if is_empty(selector) || request.namespace.is_empty() && !is_namespace {
        return Ok(true);
    }

    let writes = matches!(request.operation, Operation::Create | Operation::Update);
    if let Some(object) = request
        .object
        .filter(|_| is_namespace && request.subresource.is_empty() && writes)
    {
        return Ok(label_selector::matches(
            selector,
            &object["metadata"]["labels"],
        ));
    }

    let namespace = objects.get("", "namespaces", "", request.namespace);
    let namespace = namespace.ok_or_else(|| {
        Status::not_found(&GroupResource::new("", "namespaces"), request.namespace)
    })?;

    Ok(label_selector::matches(
        selector,
        &namespace["metadata"]["labels"],
    ))
}

fn matches_object(selector: &Value, request: &AdmissionRequest<'_>) -> bool {
    let matches = |object: &Value| label_selector::matches(selector, &object["metadata"]["labels"]);
    is_empty(selector) || request.object.is_some_and(matches) || request.old.is_some_and(matches)
}

fn by_rules<'r>(
    rules: &Value,
    request: &'r AdmissionRequest<'_>,
    allows_equivalents: bool,
) -> Option<&'r Endpoint> {
    let rules = rules.as_array()?;
    let applies = |endpoint: &Endpoint| {
        rules
            .iter()
            .any(|rule| matches_rule(rule, endpoint, request) && matches_name(rule, request.name))
    };
    if applies(request.endpoint) {
        return Some(request.endpoint);
    }

    let equivalents = request
        .equivalents
        .iter()
        .filter(|endpoint| *endpoint != request.endpoint);
    equivalents
        .filter(|_| allows_equivalents)
        .find(|endpoint| applies(endpoint))
}

fn matches_name(rule: &Value, name: &str) -> bool {
    let mut names = texts(&rule["resourceNames"]).peekable();
    names.peek().is_none() || names.any(|allowed| allowed == name)
}

fn matches_rule(rule: &Value, endpoint: &Endpoint, request: &AdmissionRequest<'_>) -> bool {
    let has =
        |field: &str, value: &str| texts(&rule[field]).any(|item| item == "*" || item == value);
    matches_scope(text(rule, &["scope"]), endpoint, request.namespace)
        && has("operations", request.operation.name())
        && has("apiGroups", &endpoint.group)
        && has("apiVersions", &endpoint.version)
        && texts(&rule["resources"]).any(|pattern| {
            let (resource, subresource) = pattern.split_once('/').unwrap_or((pattern, ""));
            (resource == "*" || resource == endpoint.resource)
                && (subresource == "*" || subresource == request.subresource)
        })
}

fn matches_scope(scope: &str, endpoint: &Endpoint, namespace: &str) -> bool {
    // A Namespace is in no namespace, although its requests have one.
    let is_namespace =
        (&*endpoint.group, &*endpoint.version, &*endpoint.resource) == ("", "v1", "namespaces");

    match scope {
        "Namespaced" => !is_namespace && !namespace.is_empty(),
        "Cluster" => is_namespace || namespace.is_empty(),
        _ => true,
    }
}
