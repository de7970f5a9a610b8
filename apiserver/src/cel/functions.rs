//! The operators and standard functions of CEL.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;

use super::convert::{self, EvalError};
use super::times;
use super::value::{Key, Val, find};
use super::words;
use crate::golang;
use crate::golang::pattern::Patterns;

type Evaluated = Result<Val, EvalError>;

/// The steps of a call: a tenth of the characters of its arguments, and all of their elements.
pub fn cost(args: &[Val]) -> usize {
    let size = |value: &Val| match value {
        Val::String(text) => text.len() / 10,
        Val::Bytes(bytes) => bytes.len() / 10,
        Val::List(list) => list.items.len(),
        Val::Map(map) => map.len(),
        _ => 0,
    };

    args.iter().map(size).sum()
}

/// Finds a field. One whose name is a reserved word is declared with underscores around it.
pub fn field<'m>(map: &'m BTreeMap<Key, Val>, name: &str) -> Option<&'m Val> {
    let find = |name: &str| map.get(&Key::String(name.into()));
    find(name).or_else(|| find(&words::escaped(name)?))
}

fn no_overload<T>() -> Result<T, EvalError> {
    Err("no such overload".to_owned())
}

fn count(length: usize) -> Val {
    Val::Int(i64::try_from(length).unwrap_or(i64::MAX))
}

/// Reports whether an operator exists at all for values like its first operand: cel-go dispatches
/// on that one and names the operator in the error if there is none.
fn supports(name: &str, first: &Val) -> bool {
    let is_number = matches!(first, Val::Int(_) | Val::Uint(_) | Val::Double(_));
    let is_time = matches!(first, Val::Duration(_) | Val::Timestamp(_));
    let is_text = matches!(first, Val::String(_) | Val::Bytes(_));

    match name {
        "_+_" => is_number || is_time || is_text || matches!(first, Val::List(_)),
        "_-_" => is_number || is_time,
        "_*_" | "_/_" => is_number,
        "_%_" => matches!(first, Val::Int(_) | Val::Uint(_)),
        _ => is_number || is_time || is_text || matches!(first, Val::Bool(_)),
    }
}

/// Calls an operator or a standard function; None if it belongs to a library.
pub fn call(name: &str, is_method: bool, args: &[Val], patterns: &Patterns) -> Option<Evaluated> {
    Some(match (name, args) {
        ("_==_", [a, b]) => Ok(Val::Bool(a.equals(b))),
        ("_!=_", [a, b]) => Ok(Val::Bool(!a.equals(b))),
        ("_<_" | "_<=_" | "_>_" | "_>=_" | "_+_" | "_-_" | "_*_" | "_/_" | "_%_", [a, _])
            if !supports(name, a) =>
        {
            Err(format!("no such overload: {name}"))
        }
        ("_<_" | "_<=_" | "_>_" | "_>=_", [a, b]) => compare(name, a, b),
        ("_+_" | "_-_" | "_*_" | "_/_" | "_%_", [a, b]) => arithmetic(name, a, b),
        ("!_", [Val::Bool(flag)]) => Ok(Val::Bool(!flag)),
        ("-_", [Val::Int(int)]) => int
            .checked_neg()
            .map(Val::Int)
            .ok_or_else(|| "integer overflow".to_owned()),
        ("-_", [Val::Double(double)]) => Ok(Val::Double(-double)),
        ("@in", [value, Val::List(list)]) => {
            Ok(Val::Bool(list.items.iter().any(|item| item.equals(value))))
        }
        ("@in", [value, Val::Map(map)]) => Ok(Val::Bool(find(map, value).is_some())),
        ("_[_]", [container, at]) => index(container, at),
        ("_[?_]", [container, at]) => Ok(optional_index(container, at)),
        ("size", [Val::String(text)]) => Ok(count(text.chars().count())),
        ("size", [Val::Bytes(bytes)]) => Ok(count(bytes.len())),
        ("size", [Val::List(list)]) => Ok(count(list.items.len())),
        ("size", [Val::Map(map)]) => Ok(count(map.len())),
        ("string", [Val::Foreign(..)]) => return None,
        (
            "bool" | "int" | "uint" | "double" | "string" | "bytes" | "timestamp" | "duration"
            | "dyn",
            [value],
        ) if !is_method => convert::convert(name, value),
        ("type", [value]) => Ok(Val::Type(value.type_name().into())),
        ("startsWith", [Val::String(text), Val::String(part)]) => {
            Ok(Val::Bool(text.starts_with(&**part)))
        }
        ("endsWith", [Val::String(text), Val::String(part)]) => {
            Ok(Val::Bool(text.ends_with(&**part)))
        }
        ("contains", [Val::String(text), Val::String(part)]) => {
            Ok(Val::Bool(text.contains(&**part)))
        }
        ("matches", [Val::String(text), Val::String(pattern)]) => {
            patterns.is_match(pattern, text).map(Val::Bool)
        }
        ("first" | "last", [Val::List(list)]) => {
            let item = if name == "first" {
                list.items.first()
            } else {
                list.items.last()
            };

            Ok(Val::Optional(item.cloned().map(Arc::new)))
        }
        (
            "hasValue" | "value" | "optional.of" | "optional.ofNonZeroValue" | "optional.none",
            args,
        ) => optional(name, args),
        (name, args)
            if name.starts_with("get")
                && matches!(args.first(), Some(Val::Timestamp(_) | Val::Duration(_))) =>
        {
            times::part(name, args)
        }
        ("startsWith" | "endsWith" | "contains" | "matches" | "size" | "!_" | "-_" | "@in", _) => {
            no_overload()
        }
        _ => return None,
    })
}

fn compare(name: &str, left: &Val, right: &Val) -> Evaluated {
    let nan = |value: &Val| matches!(value, Val::Double(double) if double.is_nan());
    if nan(left) || nan(right) {
        return Err("NaN values cannot be ordered".to_owned());
    }

    let Some(order) = left.compare(right) else {
        return no_overload();
    };

    Ok(Val::Bool(match name {
        "_<_" => order == Ordering::Less,
        "_<=_" => order != Ordering::Greater,
        "_>_" => order == Ordering::Greater,
        _ => order != Ordering::Less,
    }))
}

fn arithmetic(name: &str, left: &Val, right: &Val) -> Evaluated {
    match (left, right) {
        (Val::Int(a), Val::Int(b)) => integers(name, *a, *b),
        (Val::Uint(a), Val::Uint(b)) => unsigned(name, *a, *b),
        (Val::Double(a), Val::Double(b)) => match name {
            "_+_" => Ok(Val::Double(a + b)),
            "_-_" => Ok(Val::Double(a - b)),
            "_*_" => Ok(Val::Double(a * b)),
            "_/_" => Ok(Val::Double(a / b)),
            _ => no_overload(),
        },
        (Val::String(a), Val::String(b)) if name == "_+_" => Ok(Val::text(&format!("{a}{b}"))),
        (Val::Bytes(a), Val::Bytes(b)) if name == "_+_" => {
            Ok(Val::Bytes([&**a, &**b].concat().into()))
        }
        (Val::List(a), Val::List(b)) if name == "_+_" => Ok(Val::List(Arc::new(a.concat(b)))),
        _ => durations(name, left, right),
    }
}

fn integers(name: &str, a: i64, b: i64) -> Evaluated {
    let result = match name {
        "_/_" if b == 0 => return Err("division by zero".to_owned()),
        "_%_" if b == 0 => return Err("modulus by zero".to_owned()),
        "_+_" => a.checked_add(b),
        "_-_" => a.checked_sub(b),
        "_*_" => a.checked_mul(b),
        "_/_" => a.checked_div(b),
        _ => a.checked_rem(b),
    };

    result
        .map(Val::Int)
        .ok_or_else(|| "integer overflow".to_owned())
}

fn unsigned(name: &str, a: u64, b: u64) -> Evaluated {
    let result = match name {
        "_/_" if b == 0 => return Err("division by zero".to_owned()),
        "_%_" if b == 0 => return Err("modulus by zero".to_owned()),
        "_+_" => a.checked_add(b),
        "_-_" => a.checked_sub(b),
        "_*_" => a.checked_mul(b),
        "_/_" => a.checked_div(b),
        _ => a.checked_rem(b),
    };

    result
        .map(Val::Uint)
        .ok_or_else(|| "unsigned integer overflow".to_owned())
}

fn durations(name: &str, left: &Val, right: &Val) -> Evaluated {
    let overflow = || "timestamp overflow".to_owned();

    match (name, left, right) {
        ("_+_", Val::Duration(a), Val::Duration(b)) => a
            .checked_add(*b)
            .map(Val::Duration)
            .ok_or_else(|| "duration overflow".to_owned()),
        ("_-_", Val::Duration(a), Val::Duration(b)) => a
            .checked_sub(*b)
            .map(Val::Duration)
            .ok_or_else(|| "duration overflow".to_owned()),
        ("_+_", Val::Timestamp(time), Val::Duration(nanos))
        | ("_+_", Val::Duration(nanos), Val::Timestamp(time)) => time
            .checked_add(SignedDuration::from_nanos(*nanos))
            .map(Val::Timestamp)
            .map_err(|_| overflow()),
        ("_-_", Val::Timestamp(time), Val::Duration(nanos)) => time
            .checked_sub(SignedDuration::from_nanos(*nanos))
            .map(Val::Timestamp)
            .map_err(|_| overflow()),
        ("_-_", Val::Timestamp(a), Val::Timestamp(b)) => {
            let nanos = a.as_nanosecond() - b.as_nanosecond();

            i64::try_from(nanos)
                .map(Val::Duration)
                .map_err(|_| "duration overflow".to_owned())
        }
        _ => no_overload(),
    }
}

fn position(at: &Val) -> Option<i64> {
    match at {
        Val::Int(int) => Some(*int),
        Val::Uint(uint) => Some(i64::try_from(*uint).unwrap_or(i64::MAX)),
        Val::Double(double) if double.fract() == 0.0 => Some(*double as i64),
        _ => None,
    }
}

fn index(container: &Val, at: &Val) -> Evaluated {
    match container {
        Val::List(list) => {
            let Some(place) = position(at) else {
                return no_overload();
            };

            let item = usize::try_from(place)
                .ok()
                .and_then(|place| list.items.get(place));

            item.cloned()
                .ok_or_else(|| format!("index out of bounds: {place}"))
        }
        Val::Map(map) => find(map, at)
            .cloned()
            .ok_or_else(|| format!("no such key: {}", shown_key(at))),
        Val::Optional(_) => Ok(optional_index(container, at)),
        _ => Err(format!("no such key: {}", shown_key(at))),
    }
}

fn shown_key(key: &Val) -> String {
    match key {
        Val::String(text) => text.to_string(),
        Val::Int(int) => int.to_string(),
        Val::Uint(uint) => uint.to_string(),
        Val::Double(double) => golang::float(*double),
        Val::Bool(flag) => flag.to_string(),
        other => other.type_name().to_owned(),
    }
}

/// An optional with the element of a list, of a map, or of an optional one of these.
fn optional_index(container: &Val, at: &Val) -> Val {
    match container {
        Val::Optional(None) => Val::Optional(None),
        Val::Optional(Some(inner)) => optional_index(inner, at),
        container => Val::Optional(index(container, at).ok().map(Arc::new)),
    }
}

fn optional(name: &str, args: &[Val]) -> Evaluated {
    match (name, args) {
        ("hasValue", [Val::Optional(inner)]) => Ok(Val::Bool(inner.is_some())),
        ("value", [Val::Optional(inner)]) => inner
            .as_deref()
            .cloned()
            .ok_or_else(|| "optional.none() dereference".to_owned()),
        ("optional.of", [value]) => Ok(Val::Optional(Some(Arc::new(value.clone())))),
        ("optional.ofNonZeroValue", [value]) => {
            let some = !is_zero(value);
            Ok(Val::Optional(some.then(|| Arc::new(value.clone()))))
        }
        ("optional.none", []) => Ok(Val::Optional(None)),
        _ => no_overload(),
    }
}

fn is_zero(value: &Val) -> bool {
    match value {
        Val::Null | Val::Optional(None) => true,
        Val::Bool(flag) => !flag,
        Val::Int(int) | Val::Duration(int) => *int == 0,
        Val::Uint(uint) => *uint == 0,
        Val::Double(double) => *double == 0.0,
        Val::String(text) => text.is_empty(),
        Val::Bytes(bytes) => bytes.is_empty(),
        Val::List(list) => list.items.is_empty(),
        Val::Map(map) => map.is_empty(),
        _ => false,
    }
}
