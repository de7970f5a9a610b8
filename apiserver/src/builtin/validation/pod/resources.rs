//! Validation of the resources of containers.

use serde_json::Value;

use super::super::super::{codec::Quantity, object::fields};
use super::super::{ErrorList, format};

/// Whether a resource may be requested without a limit, or below it.
fn allows_overcommit(name: &str) -> bool {
    is_native(name) && !name.contains("hugepages-")
}

/// Whether a resource is one of Kubernetes' own.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn parse(value: &Value) -> Option<Quantity> {
    value.as_str().and_then(|text| Quantity::parse(text).ok())
}

pub(super) fn requirements(resources: &Value, path: &str, errors: &mut ErrorList) {
    let limits = fields(resources, "limits");
    let mut huge = false;

    for (name, amount) in limits {
        let path = format!("{path}.limits[{name}]");
        resource_name(name, &path, errors);
        quantity(name, amount, &path, errors);
        huge |= name.starts_with("hugepages-");
    }

    let requests = fields(resources, "requests");
    for (name, amount) in requests {
        let own = format!("{path}.requests[{name}]");
        resource_name(name, &own, errors);
        quantity(name, amount, &own, errors);
        huge |= name.starts_with("hugepages-");

        match limits.get(name) {
            Some(limit) => {
                let Some((request, most)) = parse(amount).zip(parse(limit)) else {
                    continue;
                };

                let order = request.compare(&most);
                let path = format!("{path}.requests");

                if order.is_ne() && !allows_overcommit(name) {
                    let detail = format!("must be equal to {name} limit of {}", most.canonical());
                    errors.invalid(&path, request.canonical(), &detail);
                } else if order.is_gt() {
                    let detail = format!(
                        "must be less than or equal to {name} limit of {}",
                        most.canonical()
                    );
                    errors.invalid(&path, request.canonical(), &detail);
                }
            }
            None if !allows_overcommit(name) => {
                errors.required(
                    &format!("{path}.limits"),
                    "Limit must be set for non overcommitable resources",
                );
            }
            None => {}
        }
    }

    let computes = ["cpu", "memory"]
        .iter()
        .any(|name| limits.contains_key(*name) || requests.contains_key(*name));

    if huge && !computes {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
}

fn resource_name(name: &str, path: &str, errors: &mut ErrorList) {
    let before = errors.len();
    errors.invalid_each(path, name, &format::qualified_name(name));

    if errors.len() > before {
        return;
    }

    let standard =
        matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    let known = standard || matches!(name, "storage" | "pods" | "services");

    if !name.contains('/') {
        if !known {
            errors.invalid(
                path,
                name,
                "must be a standard resource type or fully qualified",
            );
        }

        if !standard {
            errors.invalid(path, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && name.starts_with("requests.") {
        errors.invalid(path, name, "doesn't follow extended resource name standard");
    }
}

/// Validates an amount: not negative, and whole if the resource is countable.
pub(in super::super) fn quantity(name: &str, amount: &Value, path: &str, errors: &mut ErrorList) {
    let Some(amount) = parse(amount) else { return };

    if amount.sign() < 0 {
        errors.invalid(
            path,
            amount.canonical(),
            "must be greater than or equal to 0",
        );
    }

    let counted =
        !is_native(name) || matches!(name, "pods" | "services" | "secrets" | "configmaps");
    if counted && !amount.is_integer() {
        errors.invalid(path, amount.canonical(), "must be an integer");
    }
}
