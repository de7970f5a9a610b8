//! Decodes JSON into the form of a Go type, with its type errors, unknown and duplicate fields, and
//! zero values.
//!
//! The result is what Go's encoding of the typed object yields after a round trip through storage,
//! in which empty lists and maps become nil: fields with `omitempty` are absent if empty, all others
//! are present.

use std::collections::HashSet;

use serde_json::{Map, Value};

pub(crate) use crate::golang::quote;

use super::{
    custom,
    fault::Fault,
    types::{Field, Shape, TYPES, Type, TypeId},
};
use crate::apimachinery::json::{MAX_STRICT_ERRORS, Node, number};

/// The result of decoding.
#[derive(Debug, Default)]
pub(crate) struct Decoded {
    pub(crate) value: Value,
    /// Unknown and duplicate fields, such as `unknown field "spec.foo"`.
    pub(crate) strict: Vec<String>,
}

/// Decodes a JSON value into the form of a type. Fails with Go's message about a value of the wrong
/// type.
pub(crate) fn decode(id: TypeId, node: &Node) -> Result<Decoded, String> {
    let mut decoder = Decoder::default();
    let value = decoder
        .value(id, node)
        .map_err(|fault| decoder.with_context(fault))?;

    if let Some(error) = decoder.saved {
        return Err(error);
    }

    let value = value.unwrap_or_else(|| zero(id));
    Ok(Decoded {
        value,
        strict: decoder.strict,
    })
}

#[derive(Default)]
struct Decoder {
    /// The first type error. As in Go, decoding continues after it.
    saved: Option<String>,
    strict: Vec<String>,
    seen: HashSet<String>,
    /// The path of strict errors.
    path: String,
    /// The struct and the field path that type errors name.
    owner: String,
    fields: Vec<String>,
}

impl Decoder {
    /// Adds the struct and the field path to a message.
    fn with_context(&self, fault: Fault) -> String {
        match fault {
            Fault::Message(message) => message,
            Fault::Type { value, of } if self.fields.is_empty() => {
                format!("json: cannot unmarshal {value} into Go value of type {of}")
            }
            Fault::Type { value, of } => {
                let path = self.fields.join(".");
                format!(
                    "json: cannot unmarshal {value} into Go struct field {}.{path} of type {of}",
                    self.owner
                )
            }
        }
    }

    fn save(&mut self, value: &str, of: &Type) {
        if self.saved.is_none() {
            let fault = Fault::Type {
                value: value.to_owned(),
                of: of.name.to_string(),
            };
            self.saved = Some(self.with_context(fault));
        }
    }

    /// Records an error of strict decoding.
    fn report(&mut self, what: &str, field: &str) {
        let path = if self.path.is_empty() {
            field.to_owned()
        } else {
            format!("{}.{field}", self.path)
        };

        let error = format!("{what} {}", quote(&path));
        if self.strict.len() < MAX_STRICT_ERRORS && self.seen.insert(error.clone()) {
            self.strict.push(error);
        }
    }

    /// Decodes a value; `None` is the zero value. An error ends decoding at once.
    fn value(&mut self, id: TypeId, node: &Node) -> Result<Option<Value>, Fault> {
        let of = TYPES.get(id);
        match (&of.shape, node) {
            (Shape::Pointer(_), Node::Null) => Ok(None),
            (Shape::Pointer(target), node) => {
                let target = *target;
                Ok(Some(
                    self.value(target, node)?.unwrap_or_else(|| zero(target)),
                ))
            }
            (Shape::Custom, node) => custom::decode(of, node),
            (_, Node::Null) => Ok(None),
            (Shape::Struct(fields), Node::Object(items)) => {
                self.object(of, fields, items).map(Some)
            }
            (Shape::Map(element), Node::Object(items)) => self.map(of, *element, items),
            (Shape::Slice(element), Node::Array(items)) => self.list(*element, items),
            (Shape::Bytes, Node::Array(_)) => Ok(None),
            _ => Ok(self.scalar(of, node)),
        }
    }

    fn scalar(&mut self, of: &Type, node: &Node) -> Option<Value> {
        match (&of.shape, node) {
            (Shape::String, Node::String(text)) => return Some(text.as_str().into()),
            (Shape::Bool, Node::Bool(value)) => return Some((*value).into()),
            (Shape::Bytes, Node::String(text)) => match custom::canonical_base64(text) {
                Ok(text) => return Some(text.into()),
                Err(message) => {
                    self.saved.get_or_insert(message);
                }
            },
            (Shape::Int(bits), Node::Number(text)) => match text.parse::<i64>() {
                Ok(value) if *bits == 64 || i32::try_from(value).is_ok() => {
                    return Some(value.into());
                }
                _ => self.save(&format!("number {text}"), of),
            },
            (Shape::Float, Node::Number(text)) => return Some(number(text).unwrap_or_default()),
            (_, Node::Bool(_)) => self.save("bool", of),
            (_, Node::Number(_)) => self.save("number", of),
            (_, Node::String(_)) => self.save("string", of),
            (_, Node::Array(_)) => self.save("array", of),
            (_, Node::Object(_)) => self.save("object", of),
            (_, Node::Null) => {}
        }

        None
    }

    fn list(&mut self, element: TypeId, items: &[Node]) -> Result<Option<Value>, Fault> {
        let length = self.path.len();
        let mut list = Vec::with_capacity(items.len());

        for (index, item) in items.iter().enumerate() {
            self.path.push_str(&format!("[{index}]"));
            list.push(self.value(element, item)?.unwrap_or_else(|| zero(element)));
            self.path.truncate(length);
        }

        Ok((!list.is_empty()).then_some(Value::Array(list)))
    }

    fn map(
        &mut self,
        of: &Type,
        element: TypeId,
        items: &[(String, Node)],
    ) -> Result<Option<Value>, Fault> {
        let length = self.path.len();
        let mut map = Map::new();

        for (key, item) in items {
            if map.contains_key(key) {
                self.report("duplicate field", key);
            }

            self.enter(key);
            let value = self.value(element, item)?.unwrap_or_else(|| zero(element));
            self.path.truncate(length);
            let value = if value.is_null() && TYPES.get(element).shape == Shape::Bytes {
                "".into()
            } else {
                value
            };

            // `SetDefaults_ResourceList` rounds all resources up to thousandths.
            let value = if &*of.name == "v1.ResourceList" {
                custom::rounded_to_milli(value)
            } else {
                value
            };

            map.insert(key.clone(), value);
        }

        Ok((!map.is_empty()).then_some(Value::Object(map)))
    }

    fn enter(&mut self, key: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(key);
    }

    fn object(
        &mut self,
        of: &Type,
        fields: &[Field],
        items: &[(String, Node)],
    ) -> Result<Value, Fault> {
        let length = self.path.len();
        let mut map = Map::new();
        let mut seen = HashSet::new();

        for (key, item) in items {
            let Some(field) = fields.iter().find(|field| *field.name == **key) else {
                self.report("unknown field", key);
                continue;
            };

            if !seen.insert(key.as_str()) {
                self.report("duplicate field", key);
            }

            let depth = self.fields.len();
            let owner = std::mem::replace(&mut self.owner, of.bare_name().to_owned());
            self.fields
                .extend(field.embedded.iter().map(ToString::to_string));
            self.fields.push(key.clone());
            self.enter(key);

            let value = self.value(field.of, item)?;
            self.path.truncate(length);
            self.fields.truncate(depth);
            self.owner = owner;

            store(&mut map, field, value);
        }

        for field in fields {
            complete(&mut map, field);
        }

        Ok(Value::Object(map))
    }
}

/// Stores a field's value. As in Go, a repeated struct or map is merged into the earlier one.
fn store(map: &mut Map<String, Value>, field: &Field, value: Option<Value>) {
    let shape = &TYPES.get(TYPES.target(field.of)).shape;

    match (value, map.get_mut(&*field.name)) {
        (None, _)
            if matches!(
                TYPES.get(field.of).shape,
                Shape::Pointer(_) | Shape::Map(_) | Shape::Slice(_)
            ) =>
        {
            map.remove(&*field.name);
        }
        (None, _) => {}
        (Some(Value::Object(new)), Some(Value::Object(old)))
            if matches!(shape, Shape::Struct(_) | Shape::Map(_)) =>
        {
            old.extend(new);
        }
        (Some(value), _) => {
            map.insert(field.name.to_string(), value);
        }
    }
}

/// Removes a field that Go leaves out, or adds its zero value.
fn complete(map: &mut Map<String, Value>, field: &Field) {
    let leaves_out = field.omit_empty && is_empty(field.of) || field.omit_zero;

    match map.get(&*field.name) {
        None if field.omit_empty && is_empty(field.of) || field.omit_zero => {}
        None => {
            map.insert(field.name.to_string(), zero(field.of));
        }
        Some(value) => {
            let pointer = matches!(TYPES.get(field.of).shape, Shape::Pointer(_));
            if leaves_out && !pointer && *value == zero_or_empty(field.of, value) {
                map.remove(&*field.name);
            }
        }
    }
}

/// What to compare a value with to see whether it is empty.
fn zero_or_empty(id: TypeId, value: &Value) -> Value {
    match (&TYPES.get(id).shape, value) {
        (Shape::Bytes, Value::String(_)) => "".into(),
        _ => zero(id),
    }
}

/// Reports whether Go's `omitempty` affects values of a type. It never does for structs.
fn is_empty(id: TypeId) -> bool {
    !matches!(TYPES.get(id).shape, Shape::Struct(_) | Shape::Custom)
}

pub(crate) fn zero(id: TypeId) -> Value {
    let of = TYPES.get(id);
    match &of.shape {
        Shape::Struct(fields) => {
            let mut map = Map::new();
            for field in fields {
                complete(&mut map, field);
            }
            Value::Object(map)
        }
        Shape::String => "".into(),
        Shape::Bool => false.into(),
        Shape::Int(_) | Shape::Float => 0.into(),
        Shape::Custom => custom::zero(of),
        Shape::Pointer(_) | Shape::Slice(_) | Shape::Map(_) | Shape::Bytes => Value::Null,
    }
}
