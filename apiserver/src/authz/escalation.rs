//! Privilege escalation by roles and bindings: nobody may give more rights than they have.

use serde_json::{Map, Value, json};

use crate::{
    apimachinery::{
        attributes::Attributes, field::aggregate, group_resource::GroupResource, status::Status,
    },
    authn::user::{MASTERS, User, quote_list},
    authz::{
        objects::text,
        rbac::{GROUP, Rbac},
        rules::{self, PolicyRule},
    },
    golang::quote,
};

/// A create or update of a role or binding.
pub struct RoleWrite<'a> {
    /// The user that writes.
    pub user: &'a User,
    /// The resource: `roles`, `clusterroles`, `rolebindings` or `clusterrolebindings`. Others are
    /// not checked.
    pub resource: &'a str,
    /// The namespace of the request; empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// The name in the URL; empty for a create.
    pub request_name: &'a str,
    /// The object as it is to be stored.
    pub object: &'a Value,
    /// The stored object, for an update.
    pub old: Option<&'a Value>,
}

/// Checks a write of an object of `rbac.authorization.k8s.io` for privilege escalation. The API
/// server checks before it validates a created object, and before validation and admission of an
/// updated one.
///
/// # Errors
/// `Forbidden` with the missing rules; `NotFound` if the role of a binding does not exist and the
/// user may not bind it.
pub fn check(rbac: &Rbac<'_>, write: &RoleWrite<'_>) -> Result<(), Status> {
    let is_role = matches!(write.resource, "roles" | "clusterroles");
    let is_binding = matches!(write.resource, "rolebindings" | "clusterrolebindings");
    if !is_role && !is_binding || write.user.is_in(MASTERS) {
        return Ok(());
    }

    if is_role && may_escalate(rbac, write)
        || write
            .old
            .is_some_and(|old| only_collection_fields(write.object, old))
    {
        return Ok(());
    }

    if is_role {
        check_role(rbac, write)
    } else {
        check_binding(rbac, write)
    }
}

fn may_escalate(rbac: &Rbac<'_>, write: &RoleWrite<'_>) -> bool {
    let attributes = Attributes {
        name: write.request_name.to_owned(),
        ..attributes(write, "escalate", write.resource)
    };
    rbac.authorize(&attributes).allowed
}

fn attributes(write: &RoleWrite<'_>, verb: &str, resource: &str) -> Attributes {
    Attributes {
        user: write.user.clone(),
        verb: verb.to_owned(),
        namespace: write.namespace.to_owned(),
        group: GROUP.to_owned(),
        version: "*".to_owned(),
        resource: resource.to_owned(),
        is_resource: true,
        ..Attributes::default()
    }
}

fn check_role(rbac: &Rbac<'_>, write: &RoleWrite<'_>) -> Result<(), Status> {
    confirm(rbac, write, &PolicyRule::all_of(write.object))
        .map_err(|cause| forbidden(write, &cause))?;

    let aggregates = |role: &Value| {
        role["aggregationRule"]["clusterRoleSelectors"]
            .as_array()
            .is_some_and(|selectors| !selectors.is_empty())
    };

    if write.resource == "clusterroles"
        && (aggregates(write.object) || write.old.is_some_and(aggregates))
    {
        let all = |urls: bool| {
            let any = vec!["*".to_owned()];
            let verbs = any.clone();
            if urls {
                return PolicyRule {
                    verbs,
                    non_resource_urls: any,
                    ..PolicyRule::default()
                };
            }

            PolicyRule {
                verbs,
                api_groups: any.clone(),
                resources: any,
                ..PolicyRule::default()
            }
        };

        confirm(rbac, write, &[all(false), all(true)]).map_err(|_| {
            forbidden(
                write,
                "must have cluster-admin privileges to use the aggregationRule",
            )
        })?;
    }

    Ok(())
}

fn check_binding(rbac: &Rbac<'_>, write: &RoleWrite<'_>) -> Result<(), Status> {
    let role_ref = &write.object["roleRef"];
    let resource = match text(role_ref, &["kind"]) {
        "Role" => Some("roles"),
        "ClusterRole" => Some("clusterroles"),
        _ => None,
    };
    if let Some(resource) = resource {
        let bind = Attributes {
            group: text(role_ref, &["apiGroup"]).to_owned(),
            name: text(role_ref, &["name"]).to_owned(),
            ..attributes(write, "bind", resource)
        };
        if rbac.authorize(&bind).allowed {
            return Ok(());
        }
    }

    let rules = rbac
        .role_rules(role_ref, write.namespace)
        .map_err(|error| error.in_write_of(write.resource))?;
    confirm(rbac, write, &rules).map_err(|cause| forbidden(write, &cause))
}

fn forbidden(write: &RoleWrite<'_>, cause: &str) -> Status {
    Status::forbidden(
        &GroupResource::new(GROUP, write.resource),
        text(write.object, &["metadata", "name"]),
        cause,
    )
}

/// Checks that the user has all of the `wanted` rights. The message of the refusal lists the
/// missing ones.
fn confirm(rbac: &Rbac<'_>, write: &RoleWrite<'_>, wanted: &[PolicyRule]) -> Result<(), String> {
    let owned = rbac.rules_for(write.user, write.namespace);
    let missing = rules::missing(&owned.rules, wanted);
    if missing.is_empty() {
        return Ok(());
    }

    let User { name, groups, .. } = write.user;
    let mut message = format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        quote(name),
        quote_list(groups),
        missing.join("\n")
    );

    if !owned.errors.is_empty() {
        let errors: Vec<String> = owned
            .errors
            .iter()
            .map(|error| error.in_write_of(write.resource).to_string())
            .collect();
        message.push_str(&format!("; resolution errors: [{}]", aggregate(&errors)));
    }

    Err(message)
}

/// Reports whether an update changes nothing but what the garbage collector does.
fn only_collection_fields(object: &Value, old: &Value) -> bool {
    let stripped = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for field in ["ownerReferences", "finalizers", "selfLink", "managedFields"] {
                metadata.remove(field);
            }
        }
        without_empty(object)
    };

    stripped(object) == stripped(old)
}

/// Drops nulls, empty lists and empty maps, which Kubernetes' semantic comparison takes for absent.
fn without_empty(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields: Map<String, Value> = fields
                .into_iter()
                .map(|(key, value)| (key, without_empty(value)))
                .filter(|(_, value)| !value.is_null() && *value != json!([]) && *value != json!({}))
                .collect();
            Value::Object(fields)
        }
        Value::Array(items) => items.into_iter().map(without_empty).collect(),
        other => other,
    }
}
