//! The types that operators take and give.

use kube_cel::cel::common::ast::operators;

use super::types::Type;

/// Returns the type of an element.
pub(super) fn index(container: &Type, is_optional: bool) -> Type {
    let (container, was_optional) = match container {
        Type::Optional(container) => (&**container, true),
        container => (container, false),
    };
    let element = match container {
        Type::List(element) => (**element).clone(),
        Type::Map(_, value) => (**value).clone(),
        other if other.is_open() => other.clone(),
        _ => Type::Unknown,
    };
    if is_optional || was_optional { Type::Optional(Box::new(element)) } else { element }
}

/// A kind of operators.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operator {
    /// On booleans.
    Logic,
    /// A comparison of two values.
    Compare,
    /// One of two values by a boolean.
    Choose,
    /// An element of a value.
    Index,
    /// On numbers, times, strings and lists.
    Arithmetic,
}

/// Returns the kind of an operator; None if a function has no such name.
pub(super) fn operator(name: &str) -> Option<Operator> {
    Some(match name {
        operators::LOGICAL_AND | operators::LOGICAL_OR | operators::LOGICAL_NOT | operators::NOT_STRICTLY_FALSE => {
            Operator::Logic
        }
        operators::EQUALS
        | operators::NOT_EQUALS
        | operators::LESS
        | operators::LESS_EQUALS
        | operators::GREATER
        | operators::GREATER_EQUALS
        | operators::IN => Operator::Compare,
        operators::CONDITIONAL => Operator::Choose,
        operators::INDEX | operators::OPT_INDEX | operators::OPT_SELECT => Operator::Index,
        operators::ADD
        | operators::SUBSTRACT
        | operators::MULTIPLY
        | operators::DIVIDE
        | operators::MODULO
        | operators::NEGATE => Operator::Arithmetic,
        _ => return None,
    })
}

/// Reports whether values of two types can never be compared by an operator.
pub(super) fn is_wrong_comparison(name: &str, first: &Type, second: &Type) -> bool {
    let is_number = |of: &Type| matches!(of, Type::Int | Type::Double | Type::Uint);
    match name {
        operators::EQUALS | operators::NOT_EQUALS => first.excludes(second),
        operators::IN => match second {
            Type::List(element) => first.excludes(element),
            Type::Map(key, _) => first.excludes(key),
            other => !other.is_open(),
        },
        _ => first.excludes(second) && !(is_number(first) && is_number(second)),
    }
}

/// Returns the type of the result of an operator on numbers, times, strings and lists; None if there is none.
pub(super) fn arithmetic(first: &Type, second: &Type) -> Option<Type> {
    let is_time = |of: &Type| matches!(of, Type::Timestamp | Type::Duration);
    Some(match (first, second) {
        (Type::Timestamp, Type::Timestamp) => Type::Duration,
        (Type::Timestamp, Type::Duration) | (Type::Duration, Type::Timestamp) => Type::Timestamp,
        (first, second) if is_time(first) || is_time(second) => first.clone().join(second.clone()),
        (Type::List(_), Type::List(_)) => first.clone().join(second.clone()),
        (first, second) if first.is_open() => second.clone(),
        (first, second) if second.is_open() || first == second => first.clone(),
        _ => return None,
    })
}
