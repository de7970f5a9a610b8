//! The types of the variables of policies.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use crate::cel::types::Object;
pub use crate::cel::types::Type;

/// The name of the type of `variables`.
pub(super) const VARIABLES: &str = "kubernetes.variables";

pub(super) const AUTHORIZER: Type = Type::Opaque("kubernetes.authorization.Authorizer");
pub(super) const RESOURCE_CHECK: Type = Type::Opaque("kubernetes.authorization.ResourceCheck");

static REQUEST: LazyLock<Type> = LazyLock::new(|| {
    let version_and =
        |kind: &str, last: &str| record(kind, &[(&["group", "version", last], Type::String)]);
    let kind = version_and("GroupVersionKind", "kind");
    let resource = version_and("GroupVersionResource", "resource");
    let strings = Type::List(Arc::new(Type::String));
    let extra = Type::Map(Arc::new(Type::String), Arc::new(strings.clone()));
    let user = record(
        "UserInfo",
        &[
            (&["username", "uid"], Type::String),
            (&["groups"], strings),
            (&["extra"], extra),
        ],
    );
    record(
        "AdmissionRequest",
        &[
            (&["kind", "requestKind"], kind),
            (&["resource", "requestResource"], resource),
            (
                &[
                    "subResource",
                    "requestSubResource",
                    "name",
                    "namespace",
                    "operation",
                ],
                Type::String,
            ),
            (&["userInfo"], user),
            (&["dryRun"], Type::Bool),
            (&["options"], Type::Dyn),
        ],
    )
});

static NAMESPACE: LazyLock<Type> = LazyLock::new(|| {
    let strings = || Type::List(Arc::new(Type::String));
    let texts = Type::Map(Arc::new(Type::String), Arc::new(Type::String));
    let metadata = record(
        "NamespaceMetadata",
        &[
            (
                &[
                    "name",
                    "generateName",
                    "namespace",
                    "UID",
                    "resourceVersion",
                ],
                Type::String,
            ),
            (&["labels", "annotations"], texts),
            (&["creationTimestamp", "deletionTimestamp"], Type::Timestamp),
            (&["deletionGracePeriodSeconds", "generation"], Type::Int),
            (&["finalizers"], strings()),
        ],
    );
    let condition = record(
        "NamespaceCondition",
        &[
            (&["status", "type", "message", "reason"], Type::String),
            (&["lastTransitionTime"], Type::Timestamp),
        ],
    );
    let conditions = Type::List(Arc::new(condition));
    let status = record(
        "NamespaceStatus",
        &[(&["phase"], Type::String), (&["conditions"], conditions)],
    );
    let spec = record("NamespaceSpec", &[(&["finalizers"], strings())]);
    record(
        "Namespace",
        &[
            (&["metadata"], metadata),
            (&["spec"], spec),
            (&["status"], status),
        ],
    )
});

pub(super) fn request() -> Type {
    REQUEST.clone()
}

pub(super) fn namespace() -> Type {
    NAMESPACE.clone()
}

/// Returns the type of an object with fields.
pub(super) fn object(name: &str, fields: BTreeMap<String, Type>) -> Type {
    Type::Object(Arc::new(Object {
        name: name.to_owned(),
        fields,
    }))
}

fn record(name: &str, fields: &[(&[&str], Type)]) -> Type {
    let fields = fields
        .iter()
        .flat_map(|(names, ty)| names.iter().map(|name| ((*name).to_owned(), ty.clone())));
    object(&format!("kubernetes.{name}"), fields.collect())
}

/// Returns the type of a variable whose expression is of a type. The fields of objects, and the
/// values of optionals and of libraries, are known only when an expression is evaluated.
pub fn of_variable(expression: &Type) -> Type {
    match expression {
        Type::List(element) => Type::List(Arc::new(of_variable(element))),
        Type::Map(key, value) => {
            Type::Map(Arc::new(of_variable(key)), Arc::new(of_variable(value)))
        }
        Type::Bool
        | Type::Bytes
        | Type::Double
        | Type::Duration
        | Type::Int
        | Type::Null
        | Type::String
        | Type::Timestamp
        | Type::Uint => expression.clone(),
        _ => Type::Dyn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_forget_what_policies_cannot_declare() {
        let optional = Type::Optional(Arc::new(Type::Int));
        let list = |element: Type| Type::List(Arc::new(element));
        assert_eq!(of_variable(&optional), Type::Dyn);
        assert_eq!(of_variable(&list(request())), list(Type::Dyn));
        assert_eq!(of_variable(&list(Type::Timestamp)), list(Type::Timestamp));
    }
}
