//! Operators on values.

use std::{cmp::Ordering, sync::Arc};

use kube_cel::cel::common::ast::operators;

use super::{
    error::EvalError,
    values::{self, Value},
};

/// Applies an operator of one or two operands; None if the name is no such operator.
pub(super) fn apply(name: &str, operands: &[Value]) -> Option<Result<Value, EvalError>> {
    if let [first, _] = operands
        && !supports(name, first)
    {
        return Some(Err(EvalError::Message(format!("no such overload: {name}"))));
    }
    Some(match operands {
        [only] => match name {
            operators::LOGICAL_NOT => match only {
                Value::Bool(value) => Ok(Value::Bool(!value)),
                _ => Err(EvalError::NoSuchOverload),
            },
            operators::NEGATE => negate(only),
            _ => return None,
        },
        [first, second] => match name {
            operators::EQUALS => Ok(Value::Bool(values::equal(first, second))),
            operators::NOT_EQUALS => Ok(Value::Bool(!values::equal(first, second))),
            operators::LESS => compare(first, second, Ordering::is_lt),
            operators::LESS_EQUALS => compare(first, second, Ordering::is_le),
            operators::GREATER => compare(first, second, Ordering::is_gt),
            operators::GREATER_EQUALS => compare(first, second, Ordering::is_ge),
            operators::IN => contains(second, first),
            operators::INDEX => index(first, second),
            operators::OPT_INDEX => Ok(optional_index(first, second)),
            operators::ADD => add(first, second),
            operators::SUBSTRACT => arithmetic(first, second, Arithmetic::Subtract),
            operators::MULTIPLY => arithmetic(first, second, Arithmetic::Multiply),
            operators::DIVIDE => arithmetic(first, second, Arithmetic::Divide),
            operators::MODULO => arithmetic(first, second, Arithmetic::Modulo),
            _ => return None,
        },
        _ => return None,
    })
}

/// Reports whether an operator exists at all for values like the first operand.
fn supports(name: &str, first: &Value) -> bool {
    let is_number = matches!(first, Value::Int(_) | Value::UInt(_) | Value::Float(_));
    let is_time = matches!(first, Value::Duration(_) | Value::Timestamp(_));
    let is_text = matches!(first, Value::String(_) | Value::Bytes(_));
    match name {
        operators::ADD => is_number || is_time || is_text || matches!(first, Value::List(_)),
        operators::SUBSTRACT => is_number || is_time,
        operators::MULTIPLY | operators::DIVIDE => is_number,
        operators::MODULO => matches!(first, Value::Int(_) | Value::UInt(_)),
        operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS => {
            is_number || is_time || is_text || matches!(first, Value::Bool(_))
        }
        _ => true,
    }
}

fn negate(value: &Value) -> Result<Value, EvalError> {
    match value {
        Value::Int(value) => value.checked_neg().map(Value::Int).ok_or_else(EvalError::overflow),
        Value::Float(value) => Ok(Value::Float(-value)),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn compare(first: &Value, second: &Value, holds: fn(Ordering) -> bool) -> Result<Value, EvalError> {
    let order = match values::number_order(first, second) {
        Some(Some(order)) => order,
        Some(None) => return Err(EvalError::Message("NaN values cannot be ordered".to_owned())),
        None => match (first, second) {
            (Value::String(first), Value::String(second)) => first.cmp(second),
            (Value::Bool(first), Value::Bool(second)) => first.cmp(second),
            (Value::Bytes(first), Value::Bytes(second)) => first.cmp(second),
            (Value::Duration(first), Value::Duration(second)) => first.cmp(second),
            (Value::Timestamp(first), Value::Timestamp(second)) => first.cmp(second),
            _ => return Err(EvalError::NoSuchOverload),
        },
    };
    Ok(Value::Bool(holds(order)))
}

fn contains(container: &Value, element: &Value) -> Result<Value, EvalError> {
    match container {
        Value::List(items) => Ok(Value::Bool(items.iter().any(|item| values::equal(item, element)))),
        Value::Map(map) => {
            let key = values::as_key(element);
            Ok(Value::Bool(key.is_some_and(|key| values::get(map, &key).is_some())))
        }
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// Returns an element of a list or map; of an optional, the optional element.
pub(super) fn index(container: &Value, at: &Value) -> Result<Value, EvalError> {
    if values::as_optional(container).is_some() {
        return Ok(optional_index(container, at));
    }
    match (container, at) {
        (Value::List(items), at) => {
            let position = match at {
                Value::Int(position) => *position,
                Value::UInt(position) => i64::try_from(*position).unwrap_or(i64::MAX),
                Value::Float(position) if position.fract() == 0.0 => *position as i64,
                _ => return Err(EvalError::NoSuchOverload),
            };
            let item = usize::try_from(position).ok().and_then(|position| items.get(position));
            item.cloned().ok_or_else(|| EvalError::Message(format!("index out of bounds: {position}")))
        }
        (Value::Map(map), at) => {
            let key = values::as_key(at).ok_or(EvalError::NoSuchOverload)?;
            values::get(map, &key).cloned().ok_or_else(|| EvalError::NoSuchKey(key_text(at)))
        }
        (_, at) => Err(EvalError::NoSuchKey(key_text(at))),
    }
}

fn key_text(key: &Value) -> String {
    match key {
        Value::String(text) => text.to_string(),
        Value::Int(value) => value.to_string(),
        Value::UInt(value) => value.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        _ => String::new(),
    }
}

/// Returns the optional element of a list, map or optional of these.
pub(super) fn optional_index(container: &Value, at: &Value) -> Value {
    let container = match values::as_optional(container) {
        Some(None) => return values::optional(None),
        Some(Some(inner)) => inner,
        None => container,
    };
    values::optional(index(container, at).ok())
}

fn add(first: &Value, second: &Value) -> Result<Value, EvalError> {
    match (first, second) {
        (Value::String(first), Value::String(second)) => Ok(values::string(format!("{first}{second}"))),
        (Value::List(first), Value::List(second)) => {
            Ok(Value::List(Arc::new(first.iter().chain(second.iter()).cloned().collect())))
        }
        (Value::Bytes(first), Value::Bytes(second)) => {
            Ok(Value::Bytes(Arc::new(first.iter().chain(second.iter()).copied().collect())))
        }
        _ => arithmetic(first, second, Arithmetic::Add),
    }
}

#[derive(Clone, Copy)]
enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

fn arithmetic(first: &Value, second: &Value, operation: Arithmetic) -> Result<Value, EvalError> {
    let zero = || match operation {
        Arithmetic::Divide => Some(EvalError::Message("division by zero".to_owned())),
        Arithmetic::Modulo => Some(EvalError::Message("modulus by zero".to_owned())),
        _ => None,
    };
    match (first, second) {
        (Value::Int(_), Value::Int(0)) | (Value::UInt(_), Value::UInt(0)) if zero().is_some() => {
            Err(zero().unwrap_or(EvalError::NoSuchOverload))
        }
        (Value::Int(first), Value::Int(second)) => {
            let result = match operation {
                Arithmetic::Add => first.checked_add(*second),
                Arithmetic::Subtract => first.checked_sub(*second),
                Arithmetic::Multiply => first.checked_mul(*second),
                Arithmetic::Divide => first.checked_div(*second),
                Arithmetic::Modulo => first.checked_rem(*second),
            };
            result.map(Value::Int).ok_or_else(EvalError::overflow)
        }
        (Value::UInt(first), Value::UInt(second)) => {
            let result = match operation {
                Arithmetic::Add => first.checked_add(*second),
                Arithmetic::Subtract => first.checked_sub(*second),
                Arithmetic::Multiply => first.checked_mul(*second),
                Arithmetic::Divide => first.checked_div(*second),
                Arithmetic::Modulo => first.checked_rem(*second),
            };
            let overflow = || EvalError::Message("unsigned integer overflow".to_owned());
            result.map(Value::UInt).ok_or_else(overflow)
        }
        (Value::Float(first), Value::Float(second)) => match operation {
            Arithmetic::Add => Ok(Value::Float(first + second)),
            Arithmetic::Subtract => Ok(Value::Float(first - second)),
            Arithmetic::Multiply => Ok(Value::Float(first * second)),
            Arithmetic::Divide => Ok(Value::Float(first / second)),
            Arithmetic::Modulo => Err(EvalError::NoSuchOverload),
        },
        _ => times(first, second, operation),
    }
}

/// Adds and subtracts points and lengths of time.
fn times(first: &Value, second: &Value, operation: Arithmetic) -> Result<Value, EvalError> {
    let overflow = || EvalError::Message("timestamp overflow".to_owned());
    match (first, second, operation) {
        (Value::Duration(first), Value::Duration(second), Arithmetic::Add) => {
            first.checked_add(second).map(Value::Duration).ok_or_else(overflow)
        }
        (Value::Duration(first), Value::Duration(second), Arithmetic::Subtract) => {
            first.checked_sub(second).map(Value::Duration).ok_or_else(overflow)
        }
        (Value::Timestamp(time), Value::Duration(length), Arithmetic::Add)
        | (Value::Duration(length), Value::Timestamp(time), Arithmetic::Add) => {
            time.checked_add_signed(*length).map(Value::Timestamp).ok_or_else(overflow)
        }
        (Value::Timestamp(time), Value::Duration(length), Arithmetic::Subtract) => {
            time.checked_sub_signed(*length).map(Value::Timestamp).ok_or_else(overflow)
        }
        (Value::Timestamp(first), Value::Timestamp(second), Arithmetic::Subtract) => {
            Ok(Value::Duration(first.signed_duration_since(*second)))
        }
        _ => Err(EvalError::NoSuchOverload),
    }
}
