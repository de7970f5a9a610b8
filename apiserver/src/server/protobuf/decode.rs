//! Decodes a message to what it is in JSON.

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    ProtobufError,
    schema::{FieldType, fields_of},
    wire::{Field, Reader},
};
use crate::apimachinery::json;

/// The depth to which messages may be nested.
const MAX_DEPTH: usize = 64;

/// Decodes a message.
///
/// # Errors
///
/// [`ProtobufError`].
pub(super) fn decode(message: &str, bytes: &[u8]) -> Result<Value, ProtobufError> {
    decode_at(message, bytes, 0)
}

fn decode_at(message: &str, bytes: &[u8], depth: usize) -> Result<Value, ProtobufError> {
    if depth > MAX_DEPTH {
        return Err(ProtobufError::TooDeep);
    }
    if let Some(value) = special(message, bytes)? {
        return Ok(value);
    }

    let fields = fields_of(message).ok_or(ProtobufError::UnknownKind)?;
    let mut members = Map::new();
    let mut reader = Reader::new(bytes);
    while let Some((number, field)) = reader.next()? {
        if let Some(field_type) = fields.get(&number) {
            add(&mut members, field_type, field, depth)?;
        }
    }

    // These messages stand for lists.
    let is_list = matches!(message.rsplit('.').next(), Some("ExtraValue" | "Verbs"));
    if is_list {
        return Ok(members.remove("items").unwrap_or_else(|| json!([])));
    }

    Ok(Value::Object(members))
}

fn add(
    members: &mut Map<String, Value>,
    field_type: &FieldType,
    field: Field<'_>,
    depth: usize,
) -> Result<(), ProtobufError> {
    let name = field_type.name;
    if field_type.map {
        let (key, value) = decode_entry(field_type, field, depth)?;
        if let Some(map) = members
            .entry(name)
            .or_insert_with(|| json!({}))
            .as_object_mut()
        {
            map.insert(key, value);
        }

        return Ok(());
    }

    let value = decode_value(field_type.kind, field, depth)?;
    if field_type.repeated {
        if let Some(list) = members
            .entry(name)
            .or_insert_with(|| json!([]))
            .as_array_mut()
        {
            list.push(value);
        }
    } else if let (true, Value::Object(embedded)) = (field_type.embedded, &value) {
        members.extend(embedded.clone());
    } else if !(value.is_null() || (field_type.omit_empty && is_empty(&value))) {
        members.insert(name.to_owned(), value);
    }

    Ok(())
}

fn is_empty(value: &Value) -> bool {
    matches!(value, Value::Bool(false)) || value == "" || value.as_f64() == Some(0.0)
}

fn decode_entry(
    field_type: &FieldType,
    field: Field<'_>,
    depth: usize,
) -> Result<(String, Value), ProtobufError> {
    let mut reader = Reader::new(field.bytes()?);
    let mut key = String::new();
    let mut value = None;

    while let Some((number, field)) = reader.next()? {
        match number {
            1 => key = field.text()?.to_owned(),
            2 => value = Some(decode_value(field_type.kind, field, depth)?),
            _ => {}
        }
    }

    let value = match value {
        Some(value) => value,
        None => decode_value(field_type.kind, Field::Bytes(&[]), depth)?,
    };
    Ok((key, value))
}

fn decode_value(kind: &str, field: Field<'_>, depth: usize) -> Result<Value, ProtobufError> {
    Ok(match kind {
        "string" => field.text()?.into(),
        "bytes" => STANDARD.encode(field.bytes()?).into(),
        "bool" => (field.varint()? != 0).into(),
        // A negative number of 32 bits is extended to 64.
        "int32" | "int64" => field.varint()?.cast_signed().into(),
        "uint32" | "uint64" => field.varint()?.into(),
        "double" => match field {
            Field::Fixed64(bits) => json!(f64::from_bits(bits)),
            _ => return Err(ProtobufError::WrongType),
        },
        "float" => match field {
            Field::Fixed32(bits) => json!(f32::from_bits(bits)),
            _ => return Err(ProtobufError::WrongType),
        },
        message => decode_at(message, field.bytes()?, depth + 1)?,
    })
}

/// Decodes the messages that are no objects in JSON.
fn special(message: &str, bytes: &[u8]) -> Result<Option<Value>, ProtobufError> {
    let value = match message {
        "meta/v1.Time" | "meta/v1.MicroTime" => time(bytes, message == "meta/v1.MicroTime")?,
        "resource.Quantity" => first_text(bytes)?.into(),
        "intstr.IntOrString" => int_or_string(bytes)?,
        "runtime.RawExtension" | "meta/v1.FieldsV1" => raw_json(bytes)?,
        // Its form in JSON is Go's for durations, and no kind of a stable version has one.
        "meta/v1.Duration" => return Err(ProtobufError::UnknownKind),
        _ => return Ok(None),
    };

    Ok(Some(value))
}

fn time(bytes: &[u8], has_micros: bool) -> Result<Value, ProtobufError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }

    let mut seconds = 0;
    let mut nanos = 0;
    let mut reader = Reader::new(bytes);
    while let Some((number, field)) = reader.next()? {
        match number {
            1 => seconds = field.varint()?.cast_signed(),
            2 => nanos = i32::try_from(field.varint()?).map_err(|_| ProtobufError::Malformed)?,
            _ => {}
        }
    }

    let nanos = if has_micros { nanos / 1_000 * 1_000 } else { 0 };
    let time = Timestamp::new(seconds, nanos).map_err(|_| ProtobufError::Malformed)?;
    let precision = if has_micros { 6 } else { 0 };

    Ok(format!("{time:.precision$}").into())
}

fn first_text(bytes: &[u8]) -> Result<&str, ProtobufError> {
    let mut reader = Reader::new(bytes);
    while let Some((number, field)) = reader.next()? {
        if number == 1 {
            return field.text();
        }
    }

    Ok("")
}

fn int_or_string(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let mut is_text = false;
    let mut number_value = 0;
    let mut text = "";
    let mut reader = Reader::new(bytes);
    while let Some((number, field)) = reader.next()? {
        match number {
            1 => is_text = field.varint()? == 1,
            2 => number_value = field.varint()?.cast_signed(),
            3 => text = field.text()?,
            _ => {}
        }
    }

    Ok(if is_text {
        text.into()
    } else {
        number_value.into()
    })
}

fn raw_json(bytes: &[u8]) -> Result<Value, ProtobufError> {
    match first_text(bytes)? {
        "" => Ok(Value::Null),
        text => json::read(text.as_bytes()).map_err(|_| ProtobufError::Malformed),
    }
}
