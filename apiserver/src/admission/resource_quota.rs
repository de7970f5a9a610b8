//! The admission plugin ResourceQuota, for counts of objects.
//!
//! It counts the objects that exist, as if the controller that keeps `status.used` were never late.
//! Quotas of computing resources and of storage, and scopes, are refused when the quota is created.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::request::{AdmissionRequest, Operation};
use crate::{
    apimachinery::status::Status,
    authz::objects::{Objects, text},
};

/// The resources of the core group that can be counted by their plain name.
const PLAIN: [&str; 7] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];

/// Refuses a quota of what this server does not count.
///
/// # Errors
/// `Unsupported` if the quota has scopes, or limits anything but counts of objects.
pub fn check_supported(quota: &Value) -> Result<(), Status> {
    let spec = &quota["spec"];
    let unsupported = |what: &str| {
        Err(Status::unsupported(format!(
            "the embedded API server does not support {what}"
        )))
    };

    if ["scopes", "scopeSelector"]
        .iter()
        .any(|field| !spec[*field].is_null())
    {
        return unsupported("scopes of a ResourceQuota");
    }

    for (name, limit) in spec["hard"].as_object().into_iter().flatten() {
        if counted_resource(name).is_none() {
            return unsupported(&format!("a ResourceQuota of {name}"));
        }
        if number(limit).is_none() {
            return unsupported(&format!("the quantity {limit} in a ResourceQuota"));
        }
    }

    Ok(())
}

/// Returns the group and resource that a name in a quota counts.
fn counted_resource(name: &str) -> Option<(&str, &str)> {
    match name.strip_prefix("count/") {
        Some(counted) => {
            let (resource, group) = counted.split_once('.').unwrap_or((counted, ""));
            Some((group, resource))
        }
        None => PLAIN.contains(&name).then_some(("", name)),
    }
}

fn number(limit: &Value) -> Option<i64> {
    limit.as_i64().or_else(|| limit.as_str()?.parse().ok())
}

/// Admits a request to create an object.
///
/// # Errors
/// `Forbidden` if the object is one more than a quota of its Namespace allows.
pub fn admit(request: &AdmissionRequest<'_>, objects: &dyn Objects) -> Result<(), Status> {
    if request.operation != Operation::Create
        || !request.subresource.is_empty()
        || request.namespace.is_empty()
    {
        return Ok(());
    }

    for quota in objects.list("", "resourcequotas", request.namespace) {
        let exceeded: BTreeMap<&str, (i64, i64)> = usage(&quota, objects)
            .filter(|(name, _)| {
                counted_resource(name)
                    == Some((&request.endpoint.group, &request.endpoint.resource))
            })
            .filter(|(_, (used, hard))| used + 1 > *hard)
            .collect();
        if !exceeded.is_empty() {
            return Err(request.forbidden(&message(text(&quota, &["metadata", "name"]), &exceeded)));
        }
    }

    Ok(())
}

fn message(quota: &str, exceeded: &BTreeMap<&str, (i64, i64)>) -> String {
    let list = |of: fn(&(i64, i64)) -> i64| {
        let parts: Vec<String> = exceeded
            .iter()
            .map(|(name, counts)| format!("{name}={}", of(counts)))
            .collect();
        parts.join(",")
    };
    let requested = list(|_| 1);
    let used = list(|counts| counts.0);

    let limited = list(|counts| counts.1);
    format!("exceeded quota: {quota}, requested: {requested}, used: {used}, limited: {limited}")
}

/// Returns how many objects there are and may be, by the names in a quota.
fn usage<'q>(
    quota: &'q Value,
    objects: &dyn Objects,
) -> impl Iterator<Item = (&'q str, (i64, i64))> {
    let namespace = text(quota, &["metadata", "namespace"]);
    let hard = quota["spec"]["hard"].as_object().into_iter().flatten();
    hard.filter_map(move |(name, limit)| {
        let (group, resource) = counted_resource(name)?;
        let counts =
            |object: &Value| resource != "pods" || !has_ended(object) || name.starts_with("count/");
        let used = objects
            .list(group, resource, namespace)
            .iter()
            .filter(|object| counts(object))
            .count();

        Some((
            name.as_str(),
            (i64::try_from(used).unwrap_or(i64::MAX), number(limit)?),
        ))
    })
}

/// Reports whether a Pod has ended, and so takes no place in the quota `pods`.
fn has_ended(pod: &Value) -> bool {
    matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed")
}

/// Returns the status of a quota, which a controller keeps.
pub fn status(quota: &Value, objects: &dyn Objects) -> Value {
    let mut hard = Map::new();
    let mut used = Map::new();
    for (name, (count, limit)) in usage(quota, objects) {
        hard.insert(name.to_owned(), json!(limit.to_string()));
        used.insert(name.to_owned(), json!(count.to_string()));
    }

    json!({"hard": hard, "used": used})
}
