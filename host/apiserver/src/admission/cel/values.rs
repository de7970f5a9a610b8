//! Values of expressions.

use std::{cmp::Ordering, collections::HashMap, sync::Arc};

use kube_cel::cel::objects::{Key, Map, OptionalValue};
use serde_json::Value as Json;

pub use kube_cel::cel::Value;

/// Returns a JSON value as the value of an expression.
pub fn from_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Value::Int(integer),
            (None, float) => Value::Float(float.unwrap_or_default()),
        },
        Json::String(text) => string(text.as_str()),
        Json::Array(items) => Value::List(Arc::new(items.iter().map(from_json).collect())),
        Json::Object(fields) => {
            let entries = fields.iter().map(|(key, value)| (Key::String(Arc::new(key.clone())), from_json(value)));
            Value::Map(Map { map: Arc::new(entries.collect::<HashMap<Key, Value>>()) })
        }
    }
}

/// Returns a string value.
pub(super) fn string(text: impl Into<String>) -> Value {
    Value::String(Arc::new(text.into()))
}

/// Returns the optional that a value is; None if it is none.
pub(super) fn as_optional(value: &Value) -> Option<Option<&Value>> {
    match value {
        Value::Opaque(opaque) => opaque.downcast_ref::<OptionalValue>().map(OptionalValue::value),
        _ => None,
    }
}

/// Returns an optional value.
pub(super) fn optional(value: Option<Value>) -> Value {
    Value::Opaque(Arc::new(value.map_or_else(OptionalValue::none, OptionalValue::of)))
}

/// Reports whether two values are equal. Numbers are compared by what they count, not by their type.
pub(super) fn equal(first: &Value, second: &Value) -> bool {
    match (first, second) {
        (Value::List(first), Value::List(second)) => {
            first.len() == second.len() && first.iter().zip(second.iter()).all(|(first, second)| equal(first, second))
        }
        (Value::Map(first), Value::Map(second)) => {
            first.map.len() == second.map.len()
                && first.map.iter().all(|(key, value)| second.map.get(key).is_some_and(|other| equal(value, other)))
        }
        (first, second) => match number_order(first, second) {
            Some(order) => order == Some(Ordering::Equal),
            None => first == second,
        },
    }
}

/// Compares two numbers: None if one is no number, Some(None) if one is not a number in the sense of IEEE 754.
#[allow(clippy::option_option, reason = "the two absences are different answers")]
pub(super) fn number_order(first: &Value, second: &Value) -> Option<Option<Ordering>> {
    Some(match (integer(first), integer(second)) {
        (Some(first), Some(second)) => Some(first.cmp(&second)),
        (Some(first), None) => float(second)?.partial_cmp(&(first as f64)).map(Ordering::reverse),
        (None, Some(second)) => float(first)?.partial_cmp(&(second as f64)),
        (None, None) => float(first)?.partial_cmp(&float(second)?),
    })
}

fn integer(value: &Value) -> Option<i128> {
    match value {
        Value::Int(value) => Some(i128::from(*value)),
        Value::UInt(value) => Some(i128::from(*value)),
        _ => None,
    }
}

fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Float(value) => Some(*value),
        _ => None,
    }
}

/// Returns a value as the key of a map.
pub(super) fn as_key(value: &Value) -> Option<Key> {
    Some(match value {
        Value::Int(value) => Key::Int(*value),
        Value::UInt(value) => Key::Uint(*value),
        Value::Bool(value) => Key::Bool(*value),
        Value::String(value) => Key::String(value.clone()),
        Value::Float(value) if value.fract() == 0.0 && value.abs() < 9e15 => Key::Int(*value as i64),
        _ => return None,
    })
}

/// Returns the key of a map as a value.
pub(super) fn from_key(key: &Key) -> Value {
    match key {
        Key::Int(value) => Value::Int(*value),
        Key::Uint(value) => Value::UInt(*value),
        Key::Bool(value) => Value::Bool(*value),
        Key::String(value) => Value::String(value.clone()),
    }
}

/// Returns the value of a key. Integers of both kinds are the same key.
pub(super) fn get<'m>(map: &'m Map, key: &Key) -> Option<&'m Value> {
    map.map.get(key).or_else(|| {
        let other = match key {
            Key::Int(value) => Key::Uint(u64::try_from(*value).ok()?),
            Key::Uint(value) => Key::Int(i64::try_from(*value).ok()?),
            _ => return None,
        };
        map.map.get(&other)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_equal_across_types() {
        assert!(equal(&Value::Int(1), &Value::Float(1.0)));
        assert!(equal(&Value::UInt(1), &Value::Int(1)));
        assert!(!equal(&Value::Int(1), &Value::Float(1.5)));
        assert!(!equal(&Value::Float(f64::NAN), &Value::Float(f64::NAN)));
        assert!(!equal(&Value::Int(-1), &Value::UInt(u64::MAX)));
        assert!(!equal(&Value::Int(1), &string("1")));
    }
}
