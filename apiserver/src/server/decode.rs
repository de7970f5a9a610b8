//! Reads an object of a kind without a schema: its metadata is checked, everything else is kept.

use serde_json::{Map, Value};

use super::object_meta;
use crate::{apimachinery::json, golang::quote};

/// An object that was read from a request.
#[derive(Clone, Debug, Default)]
pub struct Decoded {
    /// The object, without fields that its kind does not have.
    pub object: Value,
    /// Unknown and duplicate fields, such as `unknown field "spec.x"`.
    pub problems: Vec<String>,
}

/// An object that a kind has completed and validated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Admitted {
    /// The object.
    pub object: Value,
    /// The warnings that the client gets.
    pub warnings: Vec<String>,
}

/// Reads an object from JSON.
///
/// # Errors
///
/// The message of Go's decoder.
pub fn decode_object(kind: &str, text: &[u8]) -> Result<Decoded, String> {
    let parsed = json::parse_value(text).map_err(|error| error.to_string())?;
    let mut object = match parsed.value {
        Value::Null => Value::Object(Map::new()),
        value => value,
    };
    let unknown = object_meta::decode(kind, &mut object["metadata"])?;
    let problems = in_order(text, &parsed.duplicates, &unknown);

    Ok(Decoded { object, problems })
}

/// Returns the messages for duplicate and unknown fields, in the order of the text.
#[must_use]
pub fn in_order(text: &[u8], duplicates: &[String], unknown: &[String]) -> Vec<String> {
    let duplicate_messages = duplicates
        .iter()
        .map(|path| (path, json::duplicate_field(path)));
    let unknown_messages = unknown
        .iter()
        .map(|path| (path, format!("unknown field {}", quote(path))));
    let mut messages: Vec<_> = duplicate_messages.chain(unknown_messages).collect();

    if messages.len() > 1 {
        let positions = json::positions(text);
        messages.sort_by_key(|(path, _)| positions.get(*path).copied().unwrap_or(usize::MAX));
    }

    messages.into_iter().map(|(_, message)| message).collect()
}
