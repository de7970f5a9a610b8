//! Decoding of JSON into typed objects, as Go's decoder does it with the struct types of an API.
//!
//! A table of types takes the place of the Go structs. It gives the fields that exist, the errors
//! of values of the wrong type in Go's words, and the fields that stay away from the encoded object
//! when they are empty.

use serde_json::{Map, Value};

use crate::{apimachinery::json, golang};

/// The type of a field.
#[derive(Debug)]
pub enum Type {
    /// A string.
    Text,
    /// A boolean.
    Bool,
    /// An integer of 32 bits.
    Int32,
    /// An integer of 64 bits.
    Int64,
    /// A floating point number.
    Float,
    /// A time stamp, or null.
    Time,
    /// Any JSON value.
    Json,
    /// A list with items of a type.
    List(&'static Type),
    /// A map with values of a type.
    Map(&'static Type),
    /// A struct.
    Struct(&'static Struct),
    /// A boolean or a schema.
    SchemaOrBool(&'static Struct),
    /// A schema or a list of schemas; anything else is ignored.
    SchemaOrList(&'static Struct),
    /// A schema or a list of strings; anything else is ignored.
    SchemaOrTexts(&'static Struct),
}

/// A struct type.
#[derive(Debug)]
pub struct Struct {
    /// The name without the package.
    pub name: &'static str,
    /// The fields, in the order of the internal Go type.
    pub fields: &'static [Field],
}

/// The condition under which an encoded object contains a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Not the zero value (`omitempty`).
    Filled,
    /// Given, that is, not a nil pointer.
    Given,
    /// Always present.
    Always,
}

/// A field of a struct.
#[derive(Debug)]
pub struct Field {
    /// The name in JSON.
    pub json: &'static str,
    /// The name of the internal Go field, which messages show.
    pub go: &'static str,
    /// The type.
    pub ty: Type,
    /// The condition under which the encoded object contains it.
    pub presence: Presence,
}

impl Type {
    fn go_name(&self) -> String {
        match self {
            Self::Text => "string".into(),
            Self::Bool => "bool".into(),
            Self::Int32 => "int32".into(),
            Self::Int64 => "int64".into(),
            Self::Float => "float64".into(),
            Self::Time => "v1.Time".into(),
            Self::Json => "v1.JSON".into(),
            Self::List(item) => format!("[]{}", item.go_name()),
            Self::Map(item) => format!("map[string]{}", item.go_name()),
            Self::Struct(s) => format!("v1.{}", s.name),
            Self::SchemaOrBool(_) => "v1.JSONSchemaPropsOrBool".into(),
            Self::SchemaOrList(_) => "v1.JSONSchemaPropsOrArray".into(),
            Self::SchemaOrTexts(_) => "v1.JSONSchemaPropsOrStringArray".into(),
        }
    }

    fn zero(&self) -> Value {
        match self {
            Self::Text => Value::from(""),
            Self::Bool => Value::Bool(false),
            Self::Int32 | Self::Int64 | Self::Float => Value::from(0),
            Self::Struct(s) => encode_struct(Map::new(), s),
            _ => Value::Null,
        }
    }
}

/// A decoded object, and the fields that its type does not have.
#[derive(Debug, Default)]
pub struct Decoded {
    /// The object with the fields of its type only, as the real server encodes it.
    pub object: Value,
    /// The paths of unknown fields, sorted as they were met.
    pub unknown: Vec<String>,
}

/// Decodes an object of a struct type.
///
/// # Errors
/// Returns Go's message if a value has the wrong type.
pub fn decode(value: &Value, ty: &'static Struct) -> Result<Decoded, String> {
    let mut decoder = Decoder::default();
    let object = decoder.structure(value, ty)?;
    Ok(Decoded {
        object,
        unknown: decoder.unknown,
    })
}

#[derive(Default)]
struct Decoder {
    /// The path with indices, for unknown fields.
    path: String,
    /// The path of struct fields, and the struct that is being decoded, for type errors.
    fields: Vec<&'static str>,
    within: &'static str,
    unknown: Vec<String>,
}

impl Decoder {
    fn mismatch(&self, value: &Value, ty: &str) -> String {
        let what = match value {
            Value::Null => "null".into(),
            Value::Bool(_) => "bool".into(),
            Value::Number(number) if ty.starts_with("int") => format!("number {number}"),
            Value::Number(_) => "number".into(),
            Value::String(_) => "string".to_owned(),
            Value::Array(_) => "array".into(),
            Value::Object(_) => "object".into(),
        };

        if self.fields.is_empty() {
            return format!("json: cannot unmarshal {what} into Go value of type {ty}");
        }

        let path = self.fields.join(".");
        format!(
            "json: cannot unmarshal {what} into Go struct field {}.{path} of type {ty}",
            self.within
        )
    }

    fn structure(&mut self, value: &Value, ty: &'static Struct) -> Result<Value, String> {
        let Value::Object(given) = value else {
            if value.is_null() {
                return Ok(encode_struct(Map::new(), ty));
            }
            return Err(self.mismatch(value, &format!("v1.{}", ty.name)));
        };

        let outer = std::mem::replace(&mut self.within, ty.name);
        let mut out = Map::new();
        for (key, item) in given {
            let length = self.path.len();
            if length > 0 {
                self.path.push('.');
            }

            self.path.push_str(key);
            match ty.fields.iter().find(|field| field.json == key) {
                None => self.unknown.push(self.path.clone()),
                Some(field) => {
                    self.fields.push(field.json);
                    if let Some(item) = self.value(item, &field.ty)? {
                        out.insert(key.clone(), item);
                    }
                    self.fields.pop();
                }
            }

            self.path.truncate(length);
        }

        self.within = outer;

        Ok(encode_struct(out, ty))
    }

    /// Decodes a value; null leaves the zero value.
    fn value(&mut self, value: &Value, ty: &'static Type) -> Result<Option<Value>, String> {
        if value.is_null() {
            return Ok(None);
        }

        let decoded = match (ty, value) {
            (Type::Struct(s), _) => self.structure(value, s)?,
            (Type::List(item), Value::Array(items)) => self.list(items, item)?,
            (Type::Map(item), Value::Object(entries)) => self.map(entries, item)?,
            (Type::SchemaOrBool(s), Value::Object(_)) => self.structure(value, s)?,
            (Type::SchemaOrBool(_), Value::Bool(_)) | (Type::Json, _) => value.clone(),
            (Type::SchemaOrBool(_), _) => return Err("boolean or JSON schema expected".into()),
            (Type::SchemaOrList(s) | Type::SchemaOrTexts(s), Value::Object(_)) => {
                self.structure(value, s)?
            }
            (Type::SchemaOrList(s), Value::Array(items)) => self.schemas(items, s)?,
            (Type::SchemaOrTexts(_), Value::Array(items)) => self.list(items, &Type::Text)?,
            (Type::SchemaOrList(_) | Type::SchemaOrTexts(_), _) => return Ok(None),
            (Type::Text, Value::String(_)) | (Type::Bool, Value::Bool(_)) => value.clone(),
            (Type::Float, Value::Number(_)) => value.clone(),
            (Type::Time, Value::String(text)) if is_time(text) => value.clone(),
            (Type::Time, Value::String(text)) => return Err(time_error(text)),
            (Type::Int64, Value::Number(number)) if number.is_i64() => value.clone(),
            (Type::Int32, Value::Number(number))
                if number
                    .as_i64()
                    .is_some_and(|int| i32::try_from(int).is_ok()) =>
            {
                value.clone()
            }
            _ => return Err(self.mismatch(value, &ty.go_name())),
        };

        Ok(Some(decoded))
    }

    fn list(&mut self, items: &[Value], ty: &'static Type) -> Result<Value, String> {
        let mut out = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            let length = self.path.len();
            self.path.push_str(&format!("[{at}]"));
            out.push(self.value(item, ty)?.unwrap_or_else(|| ty.zero()));
            self.path.truncate(length);
        }

        Ok(Value::Array(out))
    }

    fn schemas(&mut self, items: &[Value], ty: &'static Struct) -> Result<Value, String> {
        let mut out = Vec::with_capacity(items.len());
        for item in items {
            out.push(self.structure(item, ty)?);
        }
        Ok(Value::Array(out))
    }

    fn map(&mut self, entries: &Map<String, Value>, ty: &'static Type) -> Result<Value, String> {
        let mut out = Map::new();
        for (key, item) in entries {
            let length = self.path.len();
            self.path.push('.');
            self.path.push_str(key);
            let item = self.value(item, ty)?.unwrap_or_else(|| ty.zero());
            out.insert(key.clone(), item);
            self.path.truncate(length);
        }

        Ok(Value::Object(out))
    }
}

/// Reports whether a text is an RFC 3339 time, as metav1.Time requires it.
pub fn is_time(text: &str) -> bool {
    golang::time::is_rfc3339(text)
}

fn time_error(text: &str) -> String {
    let quoted = golang::quote(text);
    format!(
        "parsing time {quoted} as \"2006-01-02T15:04:05Z07:00\": cannot parse {quoted} as \"2006\""
    )
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// Encodes the fields of a struct: leaves out empty ones, and adds those that are never left out.
fn encode_struct(mut fields: Map<String, Value>, ty: &'static Struct) -> Value {
    for field in ty.fields {
        let empty = fields.get(field.json).is_none_or(is_empty);
        match field.presence {
            Presence::Filled if empty && !matches!(field.ty, Type::Struct(_)) => {
                fields.remove(field.json);
            }
            Presence::Always if !fields.contains_key(field.json) => {
                fields.insert(field.json.to_owned(), field.ty.zero());
            }
            _ => {}
        }
    }

    Value::Object(fields)
}

/// Returns a value in the form of the internal Go type, as `encoding/json` writes it: each field by
/// its Go name.
pub fn internal_json(value: &Value, ty: &'static Type) -> String {
    let mut out = String::new();
    write_internal(Some(value), ty, &mut out);
    out
}

fn write_internal(value: Option<&Value>, ty: &'static Type, out: &mut String) {
    match (ty, value) {
        (Type::Struct(s), Some(Value::Object(fields))) => write_internal_struct(fields, s, out),
        (Type::List(item), Some(Value::Array(items))) => {
            write_joined(items.iter(), ['[', ']'], out, |item_value, out| {
                write_internal(Some(item_value), item, out);
            });
        }
        (Type::Map(item), Some(Value::Object(entries))) => {
            let mut sorted: Vec<_> = entries.iter().collect();
            sorted.sort_unstable_by_key(|(key, _)| *key);
            write_joined(sorted.into_iter(), ['{', '}'], out, |(key, value), out| {
                out.push_str(&json::quote(key));
                out.push(':');
                write_internal(Some(value), item, out);
            });
        }
        (Type::SchemaOrBool(s), Some(value)) => {
            let allows = value.as_bool().unwrap_or(true);
            out.push_str(&format!("{{\"Allows\":{allows},\"Schema\":"));
            write_schema_or_null(value, s, out);
            out.push('}');
        }
        (Type::SchemaOrList(s), Some(value)) => {
            out.push_str("{\"Schema\":");
            write_schema_or_null(value, s, out);
            out.push_str(",\"JSONSchemas\":");

            match value.as_array() {
                Some(items) => write_joined(items.iter(), ['[', ']'], out, |v, out| {
                    write_schema_or_null(v, s, out);
                }),
                None => out.push_str("null"),
            }

            out.push('}');
        }
        (_, Some(value)) => out.push_str(&json::to_string(value)),
        (_, None) => out.push_str(&json::to_string(&ty.zero())),
    }
}

fn write_joined<T>(
    items: impl Iterator<Item = T>,
    brackets: [char; 2],
    out: &mut String,
    write: impl Fn(T, &mut String),
) {
    out.push(brackets[0]);
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.push(',');
        }
        write(item, out);
    }

    out.push(brackets[1]);
}

fn write_schema_or_null(value: &Value, ty: &'static Struct, out: &mut String) {
    match value {
        Value::Object(fields) => write_internal_struct(fields, ty, out),
        _ => out.push_str("null"),
    }
}

fn write_internal_struct(fields: &Map<String, Value>, ty: &'static Struct, out: &mut String) {
    write_joined(ty.fields.iter(), ['{', '}'], out, |field, out| {
        out.push_str(&json::quote(field.go));
        out.push(':');
        match fields.get(field.json) {
            None if field.presence == Presence::Given => out.push_str("null"),
            value => write_internal(value, &field.ty, out),
        }
    });
}
