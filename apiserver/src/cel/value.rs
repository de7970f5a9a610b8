//! Values of expressions.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kube_cel::cel;
pub use kube_cel::cel::objects::Opaque;
use serde_json::Value as Json;

use crate::golang::{self, Decoded};

/// A value of an expression.
#[derive(Clone, Debug)]
pub enum Val {
    /// `null`.
    Null,
    /// `bool`.
    Bool(bool),
    /// `int`.
    Int(i64),
    /// `uint`.
    Uint(u64),
    /// `double`.
    Double(f64),
    /// `string`.
    String(Arc<str>),
    /// `bytes`.
    Bytes(Arc<[u8]>),
    /// A point in time.
    Timestamp(Timestamp),
    /// A duration in nanoseconds.
    Duration(i64),
    /// A list.
    List(Arc<List>),
    /// A map.
    Map(Arc<BTreeMap<Key, Val>>),
    /// A value that may be absent.
    Optional(Option<Arc<Val>>),
    /// A type, by its name.
    Type(Arc<str>),
    /// A value of a library, with the name of its type.
    Foreign(&'static str, cel::Value),
}

#[derive(Clone, Debug)]
pub struct List {
    pub items: Vec<Val>,
    /// Decides how lists compare and combine: the `x-kubernetes-list-type` of their schema.
    pub kind: ListKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// The order matters.
    Atomic,
    /// The order does not matter.
    Set,
    /// Elements with the same values of these fields are the same; the order does not matter.
    Map(Arc<[String]>),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(Arc<str>),
}

impl Val {
    /// Makes a string.
    pub fn text(text: &str) -> Self {
        Self::String(text.into())
    }

    /// Makes a list of which the order matters.
    pub fn list(items: Vec<Self>) -> Self {
        Self::List(Arc::new(List {
            items,
            kind: ListKind::Atomic,
        }))
    }

    /// Converts a JSON value.
    pub fn from_json(value: &Json) -> Self {
        match value {
            Json::Null => Self::Null,
            Json::Bool(flag) => Self::Bool(*flag),
            Json::Number(number) => match golang::decode_number(number) {
                Decoded::Int(int) => Self::Int(int),
                Decoded::Float(float) => Self::Double(float),
            },
            Json::String(text) => Self::text(text),
            Json::Array(items) => Self::list(items.iter().map(Self::from_json).collect()),
            Json::Object(fields) => {
                let entries = fields
                    .iter()
                    .map(|(key, value)| (Key::String(key.as_str().into()), Self::from_json(value)));
                Self::Map(Arc::new(entries.collect()))
            }
        }
    }

    /// Wraps a value of a type that the caller of the evaluation defines.
    pub fn opaque<T: Opaque>(type_name: &'static str, value: T) -> Self {
        Self::Foreign(type_name, cel::Value::Opaque(Arc::new(value)))
    }

    /// The value that [`Self::opaque`] wrapped.
    pub fn as_opaque<T: Opaque>(&self) -> Option<&T> {
        match self {
            Self::Foreign(_, cel::Value::Opaque(value)) => value.downcast_ref(),
            _ => None,
        }
    }

    /// The CEL name of the value's type.
    pub fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Foreign(name, _) => name,
        }
    }

    /// The name of the Go type in cel-go, which some of its messages print.
    pub fn go_type(&self) -> &'static str {
        match self {
            Self::Null => "types.Null",
            Self::Bool(_) => "types.Bool",
            Self::Int(_) => "types.Int",
            Self::Uint(_) => "types.Uint",
            Self::Double(_) => "types.Double",
            Self::String(_) => "types.String",
            Self::Bytes(_) => "types.Bytes",
            Self::Timestamp(_) => "types.Timestamp",
            Self::Duration(_) => "types.Duration",
            _ => "*types.Optional",
        }
    }

    /// Reports whether values are equal. Numbers compare across types.
    pub fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::String(a), Self::String(b)) | (Self::Type(a), Self::Type(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Timestamp(a), Self::Timestamp(b)) => a == b,
            (Self::Duration(a), Self::Duration(b)) => a == b,
            (Self::List(a), Self::List(b)) => a.equals(b),
            (Self::Map(a), Self::Map(b)) => {
                a.len() == b.len()
                    && a.iter()
                        .all(|(key, value)| b.get(key).is_some_and(|other| value.equals(other)))
            }
            (Self::Optional(a), Self::Optional(b)) => match (a, b) {
                (Some(a), Some(b)) => a.equals(b),
                (None, None) => true,
                _ => false,
            },
            (Self::Foreign(a, left), Self::Foreign(b, right)) => a == b && left == right,
            (a, b) => a.compare(b) == Some(Ordering::Equal),
        }
    }

    /// Compares values that have an order; numbers compare across types.
    #[expect(
        clippy::cast_precision_loss,
        reason = "as cel-go compares numbers of different types"
    )]
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::Int(a), Self::Int(b)) | (Self::Duration(a), Self::Duration(b)) => Some(a.cmp(b)),
            (Self::Uint(a), Self::Uint(b)) => Some(a.cmp(b)),
            (Self::Double(a), Self::Double(b)) => a.partial_cmp(b),
            (Self::Int(a), Self::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Self::Uint(a), Self::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Self::Int(a), Self::Double(b)) => (*a as f64).partial_cmp(b),
            (Self::Double(a), Self::Int(b)) => a.partial_cmp(&(*b as f64)),
            (Self::Uint(a), Self::Double(b)) => (*a as f64).partial_cmp(b),
            (Self::Double(a), Self::Uint(b)) => a.partial_cmp(&(*b as f64)),
            (Self::String(a), Self::String(b)) => Some(a.cmp(b)),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            (Self::Timestamp(a), Self::Timestamp(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }

    /// The value as a map key, if its type allows that.
    pub fn as_key(&self) -> Option<Key> {
        Some(match self {
            Self::Bool(flag) => Key::Bool(*flag),
            Self::Int(int) => Key::Int(*int),
            Self::Uint(uint) => Key::Uint(*uint),
            Self::String(text) => Key::String(text.clone()),
            _ => return None,
        })
    }
}

impl Key {
    pub fn value(&self) -> Val {
        match self {
            Self::Bool(flag) => Val::Bool(*flag),
            Self::Int(int) => Val::Int(*int),
            Self::Uint(uint) => Val::Uint(*uint),
            Self::String(text) => Val::String(text.clone()),
        }
    }
}

/// Finds the value of a key. As in cel-go, a number finds an equal key of another numeric type.
pub fn find<'m>(map: &'m BTreeMap<Key, Val>, at: &Val) -> Option<&'m Val> {
    let whole = match at {
        Val::Int(int) => i128::from(*int),
        Val::Uint(uint) => i128::from(*uint),
        Val::Double(double) if double.fract() == 0.0 && double.abs() < 1e19 => *double as i128,
        _ => return map.get(&at.as_key()?),
    };

    let signed = i64::try_from(whole)
        .ok()
        .and_then(|int| map.get(&Key::Int(int)));

    signed.or_else(|| map.get(&Key::Uint(u64::try_from(whole).ok()?)))
}

impl List {
    fn equals(&self, other: &Self) -> bool {
        if self.items.len() != other.items.len() {
            return false;
        }

        match &self.kind {
            ListKind::Atomic if other.kind == ListKind::Atomic => self
                .items
                .iter()
                .zip(&other.items)
                .all(|(a, b)| a.equals(b)),
            _ => self
                .items
                .iter()
                .all(|item| other.items.iter().any(|candidate| item.equals(candidate))),
        }
    }

    /// Appends another list. A set drops duplicates; a map replaces elements that have the same
    /// keys.
    pub fn concat(&self, other: &Self) -> Self {
        let mut items = self.items.clone();

        for item in &other.items {
            let existing = match &self.kind {
                ListKind::Atomic => None,
                ListKind::Set => items.iter().position(|own| own.equals(item)),
                ListKind::Map(keys) => items.iter().position(|own| same_keys(own, item, keys)),
            };

            match existing {
                Some(at) => items[at] = item.clone(),
                None => items.push(item.clone()),
            }
        }

        Self {
            items,
            kind: self.kind.clone(),
        }
    }
}

fn same_keys(left: &Val, right: &Val, keys: &[String]) -> bool {
    let (Val::Map(left), Val::Map(right)) = (left, right) else {
        return false;
    };

    keys.iter().all(|key| {
        let key = Key::String(key.as_str().into());

        match (left.get(&key), right.get(&key)) {
            (Some(a), Some(b)) => a.equals(b),
            (None, None) => true,
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_numbers_across_types() {
        assert!(Val::Int(1).equals(&Val::Double(1.0)) && Val::Uint(1).equals(&Val::Int(1)));

        assert!(
            !Val::Int(1).equals(&Val::Double(1.5)) && !Val::Int(-1).equals(&Val::Uint(u64::MAX))
        );

        assert!(
            !Val::Double(f64::NAN).equals(&Val::Double(f64::NAN))
                && !Val::Int(1).equals(&Val::text("1"))
        );
    }

    #[test]
    fn finds_keys_across_types_of_numbers() {
        let map = BTreeMap::from([
            (Key::Int(1), Val::Bool(true)),
            (Key::Uint(2), Val::Bool(true)),
        ]);

        for at in [Val::Uint(1), Val::Double(1.0), Val::Int(2)] {
            assert!(find(&map, &at).is_some(), "{at:?}");
        }

        assert!(find(&map, &Val::Double(1.5)).is_none() && find(&map, &Val::text("1")).is_none());
    }
}
