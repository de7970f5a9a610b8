//! Values of expressions.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use jiff::Timestamp;
use kube_cel::cel;
use serde_json::Value as Json;

use super::schema_types::{escape, with_metadata};
use crate::crd::golang::{self, Decoded};
use crate::crd::schema::Schema;

/// A value.
#[derive(Clone, Debug)]
pub enum Val {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    Timestamp(Timestamp),
    /// A duration in nanoseconds.
    Duration(i64),
    List(Arc<List>),
    Map(Arc<BTreeMap<Key, Val>>),
    Optional(Option<Arc<Val>>),
    /// A type, by its name.
    Type(Arc<str>),
    /// A value of a library, with the name of its type.
    Foreign(&'static str, cel::Value),
}

/// A list.
#[derive(Clone, Debug)]
pub struct List {
    /// The elements.
    pub items: Vec<Val>,
    /// The kind, by which lists compare and combine.
    pub kind: ListKind,
}

/// The kinds of lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// The order counts.
    Atomic,
    /// The order does not count.
    Set,
    /// Elements with the same keys are the same; the order does not count.
    Map(Arc<[String]>),
}

/// A key of a map.
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

    /// Makes a list whose order counts.
    pub fn list(items: Vec<Self>) -> Self {
        Self::List(Arc::new(List { items, kind: ListKind::Atomic }))
    }

    /// Makes the value of a JSON value, by its schema.
    pub fn from_json(value: &Json, schema: Option<&Schema>, is_resource: bool) -> Self {
        let Some(schema) = schema else { return untyped(value) };
        match value {
            Json::Null => Self::Null,
            Json::Bool(flag) => Self::Bool(*flag),
            Json::Number(number) => number_value(golang::decode_number(number), &schema.kind),
            Json::String(text) => text_value(text, schema),
            Json::Array(items) => {
                let item = schema.item();
                let resource = item.is_some_and(|item| item.embedded_resource);
                let items = items.iter().map(|value| Self::from_json(value, item, resource)).collect();
                let kind = match schema.list_type.as_deref() {
                    Some("set") => ListKind::Set,
                    Some("map") => {
                        ListKind::Map(schema.list_map_keys.iter().map(|key| escape(key).unwrap_or_default()).collect())
                    }
                    _ => ListKind::Atomic,
                };
                Self::List(Arc::new(List { items, kind }))
            }
            Json::Object(fields) => {
                if schema.int_or_string {
                    return untyped(value);
                }
                if let Some(additional) = schema.additional() {
                    let entries = fields.iter().map(|(key, value)| {
                        let value = Self::from_json(value, Some(additional), additional.embedded_resource);
                        (Key::String(key.as_str().into()), value)
                    });
                    return Self::Map(Arc::new(entries.collect()));
                }
                let extended = is_resource.then(|| with_metadata(schema));
                let properties = &extended.as_ref().unwrap_or(schema).properties;
                let known = fields.iter().filter_map(|(name, value)| {
                    let property = properties.get(name)?;
                    let value = Self::from_json(value, Some(property), property.embedded_resource);
                    Some((Key::String(escape(name)?.into()), value))
                });
                Self::Map(Arc::new(known.collect()))
            }
        }
    }

    /// Returns the name of the value's type.
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

    /// Reports whether values are equal. Numbers of different types are equal if they are the same number.
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
                a.len() == b.len() && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| value.equals(other)))
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

    /// Compares values that have an order.
    #[expect(clippy::cast_precision_loss, reason = "as cel-go compares numbers of different types")]
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
}

impl List {
    fn equals(&self, other: &Self) -> bool {
        if self.items.len() != other.items.len() {
            return false;
        }
        match &self.kind {
            ListKind::Atomic if other.kind == ListKind::Atomic => {
                self.items.iter().zip(&other.items).all(|(a, b)| a.equals(b))
            }
            _ => self.items.iter().all(|item| other.items.iter().any(|candidate| item.equals(candidate))),
        }
    }

    /// Appends another list. A set takes each element once; a map takes the other's element for the same keys.
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
        Self { items, kind: self.kind.clone() }
    }
}

fn same_keys(left: &Val, right: &Val, keys: &[String]) -> bool {
    let (Val::Map(left), Val::Map(right)) = (left, right) else { return false };
    keys.iter().all(|key| {
        let key = Key::String(key.as_str().into());
        match (left.get(&key), right.get(&key)) {
            (Some(a), Some(b)) => a.equals(b),
            (None, None) => true,
            _ => false,
        }
    })
}

#[expect(clippy::cast_possible_truncation, reason = "a whole number of an integer field")]
fn number_value(number: Decoded, kind: &str) -> Val {
    match (number, kind) {
        (number, "number") => Val::Double(number.as_f64()),
        (Decoded::Int(int), _) => Val::Int(int),
        (Decoded::Float(float), "integer") => Val::Int(float as i64),
        (Decoded::Float(float), _) => Val::Double(float),
    }
}

/// Makes the value of a string. Texts that do not have their format stay strings; validation reports them.
fn text_value(text: &str, schema: &Schema) -> Val {
    if schema.int_or_string || schema.kind != "string" {
        return Val::text(text);
    }
    let parsed = match schema.format.as_str() {
        "byte" => base64::engine::general_purpose::STANDARD.decode(text).ok().map(|bytes| Val::Bytes(bytes.into())),
        "duration" => super::duration::parse(text).map(Val::Duration),
        "date" => format!("{text}T00:00:00Z").parse().ok().map(Val::Timestamp),
        "date-time" => text.parse().ok().map(Val::Timestamp),
        _ => None,
    };
    parsed.unwrap_or_else(|| Val::text(text))
}

fn untyped(value: &Json) -> Val {
    match value {
        Json::Null => Val::Null,
        Json::Bool(flag) => Val::Bool(*flag),
        Json::Number(number) => number_value(golang::decode_number(number), ""),
        Json::String(text) => Val::text(text),
        Json::Array(items) => Val::list(items.iter().map(untyped).collect()),
        Json::Object(fields) => {
            let entries = fields.iter().map(|(key, value)| (Key::String(key.as_str().into()), untyped(value)));
            Val::Map(Arc::new(entries.collect()))
        }
    }
}
