//! The functions that expressions may call.

use super::types::{self, Type};

/// The result of a function.
pub(super) enum Output {
    /// This type.
    Is(Type),
    /// The type of the elements of the list that it is called on or with.
    Element,
    /// The type of the value that it is called on or with.
    Same,
    /// An optional of the type of the argument.
    OptionalOfArgument,
    /// The type of the value in the optional that it is called on.
    Unwrapped,
}

/// Reports whether a prefix is a namespace of functions, such as `sets` in `sets.contains`.
pub(super) fn is_namespace(prefix: &str) -> bool {
    matches!(prefix, "sets" | "optional" | "strings" | "lists" | "ip" | "format")
}

/// Returns the result of a function, or None if this server does not know it. `name` has its namespace.
pub(super) fn output(name: &str, is_member: bool) -> Option<Output> {
    let output = if is_member { member_output(name)? } else { global_output(name)? };
    Some(output)
}

fn global_output(name: &str) -> Option<Output> {
    Some(Output::Is(match name {
        "size" | "int" => Type::Int,
        "string" | "strings.quote" => Type::String,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "bytes" => Type::Bytes,
        "bool" | "matches" | "isURL" | "isIP" | "isCIDR" | "isQuantity" | "isSemver" | "ip.isCanonical"
        | "sets.contains" | "sets.equivalent" | "sets.intersects" => Type::Bool,
        "dyn" => Type::Dyn,
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        "url" => Type::Object("kubernetes.URL"),
        "ip" => Type::Object("net.IP"),
        "cidr" => Type::Object("net.CIDR"),
        "quantity" => Type::Object("kubernetes.Quantity"),
        "semver" => Type::Object("kubernetes.Semver"),
        "lists.range" => Type::list(Type::Int),
        "format.named" => Type::Optional(Box::new(Type::Object("kubernetes.NamedFormat"))),
        "optional.none" => Type::Optional(Box::new(Type::Dyn)),
        "optional.of" | "optional.ofNonZeroValue" => return Some(Output::OptionalOfArgument),
        "format.dns1123Label"
        | "format.dns1123Subdomain"
        | "format.dns1035Label"
        | "format.qualifiedName"
        | "format.dns1123LabelPrefix"
        | "format.dns1123SubdomainPrefix"
        | "format.dns1035LabelPrefix"
        | "format.labelValue"
        | "format.uri"
        | "format.uuid"
        | "format.byte"
        | "format.date"
        | "format.datetime" => Type::Object("kubernetes.NamedFormat"),
        _ => return None,
    }))
}

fn member_output(name: &str) -> Option<Output> {
    Some(Output::Is(match name {
        "size" | "indexOf" | "lastIndexOf" | "compareTo" | "sign" | "asInteger" | "prefixLength" | "major"
        | "minor" | "patch" | "getFullYear" | "getMonth" | "getDayOfYear" | "getDayOfMonth" | "getDate"
        | "getDayOfWeek" | "getHours" | "getMinutes" | "getSeconds" | "getMilliseconds" => Type::Int,
        "contains"
        | "startsWith"
        | "endsWith"
        | "matches"
        | "isSorted"
        | "isGreaterThan"
        | "isLessThan"
        | "isInteger"
        | "containsIP"
        | "containsCIDR"
        | "isLoopback"
        | "isUnspecified"
        | "isLinkLocalMulticast"
        | "isLinkLocalUnicast"
        | "isGlobalUnicast"
        | "hasValue" => Type::Bool,
        "charAt" | "lowerAscii" | "upperAscii" | "replace" | "substring" | "trim" | "join" | "find" | "format"
        | "getScheme" | "getHost" | "getHostname" | "getPort" | "getEscapedPath" | "string" => Type::String,
        "flatten" => Type::list(Type::Dyn),
        "split" | "findAll" => Type::list(Type::String),
        "getQuery" => Type::map(Type::String, Type::list(Type::String)),
        "family" => Type::Int,
        "asApproximateFloat" => Type::Double,
        "ip" => Type::Object("net.IP"),
        "sum" | "min" | "max" | "first" | "last" => return Some(Output::Element),
        "slice" | "sort" | "distinct" | "add" | "sub" | "masked" | "reverse" => return Some(Output::Same),
        "value" | "orValue" => return Some(Output::Unwrapped),
        "or" => return Some(Output::Same),
        "validate" => Type::Optional(Box::new(Type::list(Type::String))),
        _ => return None,
    }))
}

/// Returns the result of a member function of the authorizer library, by the type that it is called on.
pub(super) fn authorizer_output(target: &Type, name: &str) -> Option<Type> {
    Some(match (target, name) {
        (Type::Object("kubernetes.authorization.Authorizer"), "path") => types::PATH_CHECK,
        (Type::Object("kubernetes.authorization.Authorizer"), "group") => types::GROUP_CHECK,
        (Type::Object("kubernetes.authorization.Authorizer"), "serviceAccount") => types::AUTHORIZER,
        (Type::Object("kubernetes.authorization.GroupCheck"), "resource") => types::RESOURCE_CHECK,
        (
            Type::Object("kubernetes.authorization.ResourceCheck"),
            "subresource" | "namespace" | "name" | "fieldSelector" | "labelSelector",
        ) => types::RESOURCE_CHECK,
        (Type::Object("kubernetes.authorization.ResourceCheck" | "kubernetes.authorization.PathCheck"), "check") => {
            types::DECISION
        }
        (Type::Object("kubernetes.authorization.Decision"), "allowed" | "errored") => Type::Bool,
        (Type::Object("kubernetes.authorization.Decision"), "reason" | "error") => Type::String,
        _ => return None,
    })
}

/// Reports whether a name is that of a function of the authorizer library.
pub(super) fn is_authorizer_function(name: &str) -> bool {
    matches!(
        name,
        "path"
            | "group"
            | "serviceAccount"
            | "resource"
            | "subresource"
            | "namespace"
            | "name"
            | "fieldSelector"
            | "labelSelector"
            | "check"
            | "allowed"
            | "reason"
            | "errored"
            | "error"
    )
}

/// Reports whether a name is that of a type, which is a value, too.
pub(super) fn is_type_name(name: &str) -> bool {
    matches!(name, "bool" | "int" | "uint" | "double" | "string" | "bytes" | "list" | "map" | "null_type" | "type")
}

/// Reports whether kube-apiserver knows a function or macro that this server does not.
pub(super) fn is_known_elsewhere(name: &str) -> bool {
    matches!(
        name,
        "type"
            | "sortBy"
            | "transformList"
            | "transformMap"
            | "transformMapEntry"
            | "existsOne"
            | "exists_one"
            | "all"
            | "exists"
            | "map"
            | "filter"
            | "optMap"
            | "optFlatMap"
    )
}
