//! The total order and the equality of JSON values.
//!
//! Numbers compare by value: `1` equals `1.0`. One that does not fit Go's `int64` is a float.

use std::{cmp::Ordering, collections::BTreeSet};

use serde_json::{Map, Value};

/// Orders two values: numbers, strings, booleans, lists, maps, null.
pub fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => compare_floats(left.as_f64(), right.as_f64()),
        },
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => compare_lists(left, right),
        (Value::Object(left), Value::Object(right)) => compare_maps(left, right),
        _ => rank(left).cmp(&rank(right)),
    }
}

/// Reports whether two values are equal.
pub fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(key, left)| right.get(key).is_some_and(|right| equal(left, right)))
        }
        _ => compare(left, right).is_eq(),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_floats(left: Option<f64>, right: Option<f64>) -> Ordering {
    left.partial_cmp(&right).unwrap_or(Ordering::Equal)
}

fn compare_lists(left: &[Value], right: &[Value]) -> Ordering {
    let differing = left
        .iter()
        .zip(right)
        .map(|(left, right)| compare(left, right))
        .find(|order| order.is_ne());
    differing.unwrap_or_else(|| left.len().cmp(&right.len()))
}

/// Compares maps key by key. A map that ends first is less; one that lacks the next key is greater.
fn compare_maps(left: &Map<String, Value>, right: &Map<String, Value>) -> Ordering {
    let keys: BTreeSet<&String> = left.keys().chain(right.keys()).collect();

    for (at, key) in keys.into_iter().enumerate() {
        let order = match (left.get(key), right.get(key)) {
            _ if at == left.len() => Ordering::Less,
            _ if at == right.len() => Ordering::Greater,
            (None, _) => Ordering::Greater,
            (_, None) => Ordering::Less,
            (Some(left), Some(right)) => compare(left, right),
        };

        if order.is_ne() {
            return order;
        }
    }

    Ordering::Equal
}
