//! JSON as the API server reads it: duplicate fields are found, and errors have Go's words.

use std::{collections::HashMap, fmt};

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A text that was parsed.
#[derive(Debug, Default)]
pub struct Parsed {
    /// The value. The last of several fields with one name counts.
    pub value: Value,
    /// The paths of the fields that occur more than once, in the order of the text.
    pub duplicates: Vec<String>,
}

/// Parses JSON.
///
/// # Errors
///
/// The message that Go's `encoding/json` has for it.
pub fn parse(text: &[u8]) -> Result<Parsed, String> {
    let mut tracker = Tracker::default();
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Seed(&mut tracker)
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| syntax_error(text, &error))?;
    Ok(Parsed { value, duplicates: tracker.duplicates })
}

/// Returns where the field of each path first occurs in a text: numbers that grow along the text.
pub fn positions(text: &[u8]) -> HashMap<String, usize> {
    let mut tracker = Tracker { positions: Some(HashMap::new()), ..Tracker::default() };
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    // The text was parsed before; without an order the messages are in any order.
    let _ = Seed(&mut tracker).deserialize(&mut deserializer);
    tracker.positions.unwrap_or_default()
}

#[derive(Default)]
struct Tracker {
    path: String,
    duplicates: Vec<String>,
    positions: Option<HashMap<String, usize>>,
}

impl Tracker {
    fn enter(&mut self, name: &str) -> usize {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        if let Some(positions) = &mut self.positions {
            let next = positions.len();
            positions.entry(self.path.clone()).or_insert(next);
        }
        length
    }
}

struct Seed<'a>(&'a mut Tracker);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Deserialize::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let tracker = self.0;
        let length = tracker.path.len();
        let mut list = Vec::new();
        loop {
            tracker.path.push_str(&format!("[{}]", list.len()));
            let item = items.next_element_seed(Seed(tracker))?;
            tracker.path.truncate(length);
            match item {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let tracker = self.0;
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let length = tracker.enter(&name);
            if map.contains_key(&name) && !tracker.duplicates.contains(&tracker.path) {
                tracker.duplicates.push(tracker.path.clone());
            }
            let value = members.next_value_seed(Seed(tracker))?;
            tracker.path.truncate(length);
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

/// Returns Go's message for an error of serde_json.
pub fn syntax_error(text: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".into();
    }
    let message = error.to_string();
    let found = character_at(text, error.line(), error.column());
    let contexts = [
        ("trailing characters", "after top-level value"),
        ("key must be a string", "looking for beginning of object key string"),
        ("expected `:`", "after object key"),
        ("expected `,` or `}`", "after object key:value pair"),
        ("expected `,` or `]`", "after array element"),
        ("control character", "in string literal"),
        ("invalid escape", "in string escape code"),
        ("invalid number", "in numeric literal"),
    ];
    let context = contexts.iter().find(|(start, _)| message.starts_with(start)).map(|(_, context)| *context);
    let trailing_comma = message.starts_with("trailing comma") && found == '}';
    let context = match context {
        Some(context) => context,
        None if trailing_comma => "looking for beginning of object key string",
        None => "looking for beginning of value",
    };
    format!("invalid character {} {context}", quote_character(found))
}

fn character_at(text: &[u8], line: usize, column: usize) -> char {
    let line = text.split(|byte| *byte == b'\n').nth(line.saturating_sub(1)).unwrap_or_default();
    line.get(column.saturating_sub(1)).copied().map_or('\n', char::from)
}

fn quote_character(character: char) -> String {
    match character {
        '\'' => r"'\''".into(),
        '\\' => r"'\\'".into(),
        '\n' => r"'\n'".into(),
        '\t' => r"'\t'".into(),
        '\r' => r"'\r'".into(),
        control if control.is_ascii_control() => format!("'\\x{:02x}'", control as u32),
        control if control.is_control() => format!("'\\u{:04x}'", control as u32),
        other => format!("'{other}'"),
    }
}

/// Returns the name that Go has for the type of a value.
#[must_use]
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
