//! The types of expressions, as far as policies need them.

use std::fmt::{self, Display, Formatter};

use kube_cel::cel::common::ast::LiteralValue;

/// The type of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// Known only when the expression is evaluated.
    Dyn,
    /// Not determined by this checker, which then accepts everything.
    Unknown,
    /// A boolean.
    Bool,
    /// A signed integer.
    Int,
    /// An unsigned integer.
    Uint,
    /// A floating-point number.
    Double,
    /// A string.
    String,
    /// Bytes.
    Bytes,
    /// Null.
    Null,
    /// A point in time.
    Timestamp,
    /// A length of time.
    Duration,
    /// A list.
    List(Box<Type>),
    /// A map.
    Map(Box<Type>, Box<Type>),
    /// A value that may be absent.
    Optional(Box<Type>),
    /// An object with known fields.
    Object(&'static str),
}

impl Type {
    /// Returns a list type.
    pub fn list(element: Self) -> Self {
        Self::List(Box::new(element))
    }

    /// Returns a map type.
    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Box::new(key), Box::new(value))
    }

    /// Reports whether a value of this type may be of any type.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Dyn | Self::Unknown)
    }

    /// Reports whether no value is of both types, as far as they are known.
    pub(super) fn excludes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn | Self::Unknown, _) | (_, Self::Dyn | Self::Unknown) => false,
            (Self::List(first), Self::List(second)) | (Self::Optional(first), Self::Optional(second)) => {
                first.excludes(second)
            }
            (Self::Map(first_key, first), Self::Map(second_key, second)) => {
                first_key.excludes(second_key) || first.excludes(second)
            }
            // Null stands for an absent object, time or optional.
            (Self::Null, other) | (other, Self::Null) => matches!(
                other,
                Self::Bool
                    | Self::Int
                    | Self::Uint
                    | Self::Double
                    | Self::String
                    | Self::Bytes
                    | Self::List(_)
                    | Self::Map(..)
            ),
            (first, second) => first != second,
        }
    }

    /// Returns the type as messages about overloads show it.
    pub(super) fn in_overload(&self) -> String {
        self.to_string().replace("null_type", "null")
    }

    /// Returns the type of values that are of this or that type: this one if they are the same.
    pub(super) fn join(self, other: Self) -> Self {
        match (self, other) {
            (first, second) if first == second => first,
            (Self::List(element), list @ Self::List(_)) | (list @ Self::List(_), Self::List(element))
                if *element == Self::Unknown =>
            {
                list
            }
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            _ => Self::Dyn,
        }
    }
}

impl Display for Type {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Dyn | Self::Unknown => "dyn",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Null => "null_type",
            Self::Timestamp => "timestamp",
            Self::Duration => "duration",
            Self::Object(name) => name,
            Self::List(element) => return write!(formatter, "list({element})"),
            Self::Map(key, value) => return write!(formatter, "map({key}, {value})"),
            Self::Optional(value) => return write!(formatter, "optional_type({value})"),
        };
        formatter.write_str(name)
    }
}

pub(super) const AUTHORIZER: Type = Type::Object("kubernetes.authorization.Authorizer");
pub(super) const PATH_CHECK: Type = Type::Object("kubernetes.authorization.PathCheck");
pub(super) const GROUP_CHECK: Type = Type::Object("kubernetes.authorization.GroupCheck");
pub(super) const RESOURCE_CHECK: Type = Type::Object("kubernetes.authorization.ResourceCheck");
pub(super) const DECISION: Type = Type::Object("kubernetes.authorization.Decision");
pub(super) const REQUEST: Type = Type::Object("kubernetes.AdmissionRequest");
pub(super) const NAMESPACE: Type = Type::Object("kubernetes.Namespace");
pub(super) const VARIABLES: Type = Type::Object("kubernetes.variables");

/// Returns the type of a field of an object with known fields; None if it has no such field.
pub(super) fn field(object: &str, name: &str) -> Option<Type> {
    let group_version_kind = || Type::Object("kubernetes.GroupVersionKind");
    let group_version_resource = || Type::Object("kubernetes.GroupVersionResource");
    let texts = || Type::map(Type::String, Type::String);
    Some(match (object, name) {
        ("kubernetes.AdmissionRequest", "kind" | "requestKind") => group_version_kind(),
        ("kubernetes.AdmissionRequest", "resource" | "requestResource") => group_version_resource(),
        ("kubernetes.AdmissionRequest", "subResource" | "requestSubResource" | "name" | "namespace" | "operation") => {
            Type::String
        }
        ("kubernetes.AdmissionRequest", "userInfo") => Type::Object("kubernetes.UserInfo"),
        ("kubernetes.AdmissionRequest", "dryRun") => Type::Bool,
        ("kubernetes.AdmissionRequest", "options") => Type::Dyn,
        ("kubernetes.GroupVersionKind", "group" | "version" | "kind")
        | ("kubernetes.GroupVersionResource", "group" | "version" | "resource")
        | ("kubernetes.UserInfo", "username" | "uid")
        | ("kubernetes.NamespaceStatus", "phase")
        | ("kubernetes.NamespaceCondition", "status" | "type" | "message" | "reason")
        | ("kubernetes.NamespaceMetadata", "name" | "generateName" | "namespace" | "UID" | "resourceVersion") => {
            Type::String
        }
        ("kubernetes.UserInfo", "groups")
        | ("kubernetes.NamespaceSpec", "finalizers")
        | ("kubernetes.NamespaceMetadata", "finalizers") => Type::list(Type::String),
        ("kubernetes.UserInfo", "extra") => Type::map(Type::String, Type::list(Type::String)),
        ("kubernetes.Namespace", "metadata") => Type::Object("kubernetes.NamespaceMetadata"),
        ("kubernetes.Namespace", "spec") => Type::Object("kubernetes.NamespaceSpec"),
        ("kubernetes.Namespace", "status") => Type::Object("kubernetes.NamespaceStatus"),
        ("kubernetes.NamespaceStatus", "conditions") => Type::list(Type::Object("kubernetes.NamespaceCondition")),
        ("kubernetes.NamespaceMetadata", "labels" | "annotations") => texts(),
        ("kubernetes.NamespaceMetadata", "creationTimestamp" | "deletionTimestamp")
        | ("kubernetes.NamespaceCondition", "lastTransitionTime") => Type::Timestamp,
        ("kubernetes.NamespaceMetadata", "deletionGracePeriodSeconds" | "generation") => Type::Int,
        _ => return None,
    })
}

/// Reports whether an object has fields at all; others have functions only.
pub(super) fn has_fields(object: &str) -> bool {
    matches!(object.strip_prefix("kubernetes."), Some(name) if name == "variables" || name == "AdmissionRequest"
        || name == "UserInfo" || name.starts_with("GroupVersion") || name.starts_with("Namespace"))
}

/// Returns the type of a literal.
pub(super) fn literal(literal: &LiteralValue) -> Type {
    match literal {
        LiteralValue::Boolean(_) => Type::Bool,
        LiteralValue::Bytes(_) => Type::Bytes,
        LiteralValue::Double(_) => Type::Double,
        LiteralValue::Int(_) => Type::Int,
        LiteralValue::Null => Type::Null,
        LiteralValue::String(_) => Type::String,
        LiteralValue::UInt(_) => Type::Uint,
    }
}
