//! JSON text in the keys of `fieldsV1`.
//!
//! The API server writes it with jsoniter in its `encoding/json` mode: keys sorted, HTML characters
//! escaped. The text identifies a field, so every escape must match.

use serde_json::{Number, Value};

/// Returns a value's JSON text with HTML characters escaped.
pub fn json_text(value: &Value) -> String {
    let mut text = String::new();
    push_value(&mut text, value);
    text
}

/// Returns a string's JSON text with HTML characters left alone.
pub fn string_text(value: &str) -> String {
    let mut text = String::new();
    push_string(&mut text, value, false);
    text
}

fn push_value(text: &mut String, value: &Value) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        Value::Number(value) => text.push_str(&number(value)),
        Value::String(value) => push_string(text, value, true),
        Value::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                push_separator(text, at);
                push_value(text, item);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(key, _)| *key);

            text.push('{');
            for (at, (key, value)) in fields.into_iter().enumerate() {
                push_separator(text, at);
                push_string(text, key, true);
                text.push(':');
                push_value(text, value);
            }
            text.push('}');
        }
    }
}

fn push_separator(text: &mut String, at: usize) {
    if at > 0 {
        text.push(',');
    }
}

fn push_string(text: &mut String, value: &str, escape_html: bool) {
    text.push('"');
    for character in value.chars() {
        match character {
            '"' | '\\' => text.extend(['\\', character]),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\0'..'\x20' => text.push_str(&format!("\\u{:04x}", u32::from(character))),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if escape_html => {
                text.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            _ => text.push(character),
        }
    }
    text.push('"');
}

/// Formats a number as jsoniter does: with an exponent only for the smallest and largest floats, and
/// without a trailing `.0`.
fn number(value: &Number) -> String {
    let float = match (value.as_i64(), value.as_f64()) {
        (None, Some(float)) => float,
        _ => return value.to_string(),
    };

    let size = float.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return float.to_string();
    }

    let text = format!("{float:e}");
    if size >= 1e21 {
        text.replacen('e', "e+", 1)
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn escapes_html_in_values_only() {
        assert_eq!(
            json_text(&json!({"b": "<&>\u{2028}", "a": "\u{1}\n"})),
            r#"{"a":"\u0001\n","b":"\u003c\u0026\u003e\u2028"}"#
        );
        assert_eq!(string_text("<\">\u{8}"), r#""<\">\u0008""#);
    }

    #[test]
    fn writes_floats_without_fraction_as_integers() {
        let texts = [
            json!(1.0),
            json!(2.5),
            json!(1e21),
            json!(1e-7),
            json!(u64::MAX),
            json!(-3),
        ];

        assert_eq!(
            texts.map(|value| json_text(&value)),
            ["1", "2.5", "1e+21", "1e-7", "18446744073709552000", "-3"]
        );
    }
}
