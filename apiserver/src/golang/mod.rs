//! Values as Go prints them, which the API server's messages contain, and texts that Go parses.

pub mod duration;
pub mod pattern;
pub mod time;

pub use operetta_golang::{float, is_printable, json::float as json_float, quote, string};
use serde_json::{Number, Value};

/// A JSON number as the API server decodes it: an int64 if possible, else a float64.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decoded {
    /// A whole number without fraction or exponent that fits 64 bits.
    Int(i64),
    /// Any other number.
    Float(f64),
}

impl Decoded {
    /// The number as a float64, which loses digits if it has too many.
    #[expect(
        clippy::cast_precision_loss,
        reason = "the real server converts the same way"
    )]
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Int(int) => int as f64,
            Self::Float(float) => float,
        }
    }
}

pub fn decode_number(number: &Number) -> Decoded {
    number.as_i64().map_or_else(
        || Decoded::Float(number.as_f64().unwrap_or(f64::NAN)),
        Decoded::Int,
    )
}

/// The Go type of a decoded JSON value.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) => match decode_number(number) {
            Decoded::Int(_) => "int64",
            Decoded::Float(_) => "float64",
        },
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Formats a value like `%v`, as in `map[a:1 b:[x y]]`.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => match decode_number(number) {
            Decoded::Int(int) => int.to_string(),
            Decoded::Float(value) => float(value),
        },
        Value::String(text) => text.clone(),
        Value::Array(items) => format!(
            "[{}]",
            items.iter().map(plain).collect::<Vec<_>>().join(" ")
        ),
        Value::Object(fields) => {
            let mut keys: Vec<_> = fields.iter().collect();
            keys.sort_unstable_by_key(|(key, _)| *key);
            let entries: Vec<_> = keys
                .into_iter()
                .map(|(key, item)| format!("{key}:{}", plain(item)))
                .collect();
            format!("map[{}]", entries.join(" "))
        }
    }
}

/// Returns a value as it is after Go has written and read it as JSON: whole floats become integers
/// if their text fits 64 bits, which is how the real server reads objects back from etcd.
pub fn normalize(value: Value) -> Value {
    match value {
        Value::Number(number) => match decode_number(&number) {
            Decoded::Int(int) => int.into(),
            // The text counts, not the value: 2^62 is written, and read, as 4611686018427388000.
            Decoded::Float(float) => match json_float(float).parse::<i64>() {
                Ok(int) => int.into(),
                Err(_) => float.into(),
            },
        },
        Value::Array(items) => Value::Array(items.into_iter().map(normalize).collect()),
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .map(|(key, item)| (key, normalize(item)))
                .collect(),
        ),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn writes_plain_values_as_percent_v_does() {
        assert_eq!(
            plain(&json!({"b": [1, "x"], "a": null})),
            "map[a:<nil> b:[1 x]]"
        );
    }
}
