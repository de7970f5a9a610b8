//! The quality-of-service class of a Pod.

use serde_json::Value;

use super::{
    codec::Quantity,
    object::{at, fields, items},
};

/// The resources that the class depends on.
const RESOURCES: [&str; 2] = ["cpu", "memory"];

/// Returns the class: `Guaranteed`, `Burstable` or `BestEffort`.
pub(super) fn class(pod: &Value) -> &'static str {
    let spec = at(pod, "spec");
    let containers: Vec<&Value> = items(spec, "containers")
        .iter()
        .chain(items(spec, "initContainers"))
        .collect();
    let positive = |container: &Value, list: &str, resource: &str| {
        let quantity = at(container, "resources")[list][resource]
            .as_str()
            .map(Quantity::parse);
        quantity
            .and_then(Result::ok)
            .filter(|quantity| quantity.sign() > 0)
    };
    let any = containers.iter().any(|container| {
        ["requests", "limits"].iter().any(|list| {
            RESOURCES
                .iter()
                .any(|name| positive(container, list, name).is_some())
        })
    });
    if !any && fields(spec, "resources").is_empty() {
        return "BestEffort";
    }
    let guaranteed = containers.iter().all(|container| {
        RESOURCES.iter().all(|name| {
            let limit = positive(container, "limits", name);
            let request = positive(container, "requests", name);
            match (limit, request) {
                (Some(limit), Some(request)) => limit.compare(&request).is_eq(),
                _ => false,
            }
        })
    });
    if guaranteed {
        "Guaranteed"
    } else {
        "Burstable"
    }
}
