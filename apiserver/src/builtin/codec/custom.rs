//! Types with their own JSON encoding: times, quantities, int-or-string and raw JSON.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;

use super::{fault::Fault, time::Instant, types::Type};
use crate::apimachinery::{json::Node, quantity::Quantity};

/// Decodes a value of a type with its own encoding; `None` is the zero value. An error ends decoding.
pub(crate) fn decode(of: &Type, node: &Node) -> Result<Option<Value>, Fault> {
    match &*of.name {
        "v1.Time" => time(node, Instant::parse, Instant::to_seconds),
        "v1.MicroTime" => time(node, Instant::parse_micro, Instant::to_micros),
        "resource.Quantity" => quantity(node),
        "intstr.IntOrString" => int_or_string(node),
        _ if *node == Node::Null => Ok(None),
        _ => Ok(Some(node.to_value())),
    }
}

pub(crate) fn zero(of: &Type) -> Value {
    match &*of.name {
        "resource.Quantity" => "0".into(),
        "intstr.IntOrString" => 0.into(),
        _ => Value::Null,
    }
}

fn time(
    node: &Node,
    parse: fn(&str) -> Result<Instant, String>,
    print: fn(Instant) -> String,
) -> Result<Option<Value>, Fault> {
    match node {
        Node::Null => Ok(None),
        Node::String(text) => {
            let instant = parse(text).map_err(Fault::Message)?;
            Ok((!instant.is_zero()).then(|| print(instant).into()))
        }
        other => Err(Fault::Type {
            value: kind_of(other),
            of: "string".to_owned(),
        }),
    }
}

fn quantity(node: &Node) -> Result<Option<Value>, Fault> {
    let text = match node {
        Node::Null => return Ok(None),
        Node::String(text) => text.trim().to_owned(),
        Node::Number(text) => text.clone(),
        other => other.to_value().to_string(),
    };

    let quantity = Quantity::parse(&text).map_err(|error| Fault::Message(error.to_string()))?;
    Ok(Some(quantity.canonical().into()))
}

/// Rounds a quantity up to thousandths.
pub(crate) fn rounded_to_milli(value: Value) -> Value {
    match value.as_str().map(Quantity::parse) {
        Some(Ok(quantity)) if quantity.is_below_milli() => {
            quantity.rounded_to_milli().canonical().into()
        }
        _ => value,
    }
}

fn int_or_string(node: &Node) -> Result<Option<Value>, Fault> {
    match node {
        Node::Null => Ok(None),
        Node::String(text) => Ok(Some(text.as_str().into())),
        Node::Number(text) => match text.parse::<i32>() {
            Ok(value) => Ok(Some(value.into())),
            Err(_) => Err(Fault::Type {
                value: format!("number {text}"),
                of: "int32".to_owned(),
            }),
        },
        other => Err(Fault::Type {
            value: kind_of(other),
            of: "int32".to_owned(),
        }),
    }
}

/// The value's type in Go's error messages.
fn kind_of(node: &Node) -> String {
    let kind = match node {
        Node::Null => "null",
        Node::Bool(_) => "bool",
        Node::Number(_) => "number",
        Node::String(_) => "string",
        Node::Array(_) => "array",
        Node::Object(_) => "object",
    };
    kind.to_owned()
}

/// Decodes base64 like Go, which skips line breaks, and encodes it again. Fails with Go's message and
/// the offset of the first illegal byte.
pub(crate) fn canonical_base64(text: &str) -> Result<String, String> {
    // Nearly every text is canonical, and the strict decoder accepts nothing else.
    if BASE64_STANDARD.decode(text).is_ok() {
        return Ok(text.to_owned());
    }

    let clean: String = text
        .chars()
        .filter(|character| !matches!(character, '\r' | '\n'))
        .collect();

    match go_base64().decode(&clean) {
        Ok(bytes) => Ok(BASE64_STANDARD.encode(bytes)),
        Err(_) => Err(format!(
            "illegal base64 data at input byte {}",
            illegal_offset(text)
        )),
    }
}

/// A decoder as lenient as Go's: padding is required, but the last bits may be set.
fn go_base64() -> base64::engine::GeneralPurpose {
    let config = base64::engine::GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
    base64::engine::GeneralPurpose::new(&base64::alphabet::STANDARD, config)
}

/// The offset that Go's decoder reports for a text it rejects.
fn illegal_offset(text: &str) -> usize {
    let bytes = text.as_bytes();

    let mut at = 0;
    loop {
        let group = at;
        let mut count = 0;
        while count < 4 {
            let Some(byte) = bytes.get(at) else {
                // The text ends within a group.
                return if count == 0 {
                    at
                } else {
                    at - count.min(at - group)
                };
            };

            at += 1;
            if matches!(byte, b'\r' | b'\n') {
                continue;
            }

            if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/') {
                count += 1;
                continue;
            }

            if *byte != b'=' || count < 2 {
                return at - 1;
            }
            return after_padding(bytes, at, count);
        }
    }
}

/// The offset of what is wrong at or after the first padding character.
fn after_padding(bytes: &[u8], mut at: usize, count: usize) -> usize {
    let skip = |mut at: usize| {
        while matches!(bytes.get(at), Some(b'\r' | b'\n')) {
            at += 1;
        }
        at
    };

    if count == 2 {
        at = skip(at);
        match bytes.get(at) {
            None => return bytes.len(),
            Some(b'=') => at += 1,
            Some(_) => return at - 1,
        }
    }

    skip(at)
}
