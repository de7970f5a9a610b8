//! The text forms that Go gives to values, which the messages of the real server contain, and those that it reads.

pub mod duration;
pub mod pattern;
pub mod time;

use serde_json::{Number, Value};

/// Returns a string in double quotes as Go's `strconv.Quote` writes it.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            c if is_printable(c) => out.push(c),
            c if (c as u32) < 0x80 => out.push_str(&format!("\\x{:02x}", c as u32)),
            c if (c as u32) < 0x1_0000 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push_str(&format!("\\U{:08x}", c as u32)),
        }
    }
    out.push('"');
    out
}

/// Reports whether Go's `unicode.IsPrint` accepts a character: a letter, mark, number, punctuation, symbol or the space.
pub fn is_printable(c: char) -> bool {
    // Within a string, marks are not escaped, and the apostrophe is in Rust only.
    c == '\'' || String::from_iter(['a', c]).escape_debug().nth(1) != Some('\\')
}

/// Returns a number as Go's `%v` writes a float64: with an exponent below 1e-4 and from 1e21 on.
pub fn float(value: f64) -> String {
    exponent_form(value, 1e-4, 1e21, 2)
}

/// Returns a number as `encoding/json` writes a float64: with an exponent below 1e-6 and from 1e21 on.
pub fn json_float(value: f64) -> String {
    exponent_form(value, 1e-6, 1e21, 1)
}

fn exponent_form(value: f64, low: f64, high: f64, digits: usize) -> String {
    let size = value.abs();
    if size == 0.0 || (size >= low && size < high) {
        return format!("{value}");
    }
    let text = format!("{value:e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
    format!("{mantissa}e{sign}{exponent:0>digits$}")
}

/// A JSON number as the real server decodes it: an int64, or else a float64.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decoded {
    /// A whole number without fraction or exponent that fits 64 bits.
    Int(i64),
    /// Any other number.
    Float(f64),
}

impl Decoded {
    /// Returns the number as a float64, with loss of digits where it has too many.
    #[expect(clippy::cast_precision_loss, reason = "the real server converts the same way")]
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Int(int) => int as f64,
            Self::Float(float) => float,
        }
    }
}

/// Decodes a JSON number as the real server does.
pub fn decode_number(number: &Number) -> Decoded {
    number.as_i64().map_or_else(|| Decoded::Float(number.as_f64().unwrap_or(f64::NAN)), Decoded::Int)
}

/// Returns a value as Go's `encoding/json` writes it: keys sorted, and `<`, `>` and `&` escaped.
pub fn json(value: &Value) -> String {
    let mut out = String::new();
    write_json(value, &mut out);
    out
}

fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => match decode_number(number) {
            Decoded::Int(int) => out.push_str(&int.to_string()),
            Decoded::Float(float) => out.push_str(&json_float(float)),
        },
        Value::String(text) => write_json_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_json(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut keys: Vec<_> = fields.iter().collect();
            keys.sort_unstable_by_key(|(key, _)| *key);
            out.push('{');
            for (at, (key, item)) in keys.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_json_string(key, out);
                out.push(':');
                write_json(item, out);
            }
            out.push('}');
        }
    }
}

/// Writes a string as `encoding/json` does.
pub fn write_json_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c if (c as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Returns the name of the Go type that a decoded JSON value has.
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

/// Returns a value as Go's `%v` writes it, as in `map[a:1 b:[x y]]`.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => match decode_number(number) {
            Decoded::Int(int) => int.to_string(),
            Decoded::Float(value) => float(value),
        },
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let mut keys: Vec<_> = fields.iter().collect();
            keys.sort_unstable_by_key(|(key, _)| *key);
            let entries: Vec<_> = keys.into_iter().map(|(key, item)| format!("{key}:{}", plain(item))).collect();
            format!("map[{}]", entries.join(" "))
        }
    }
}

/// Returns a value with its numbers as Go writes them: whole ones without a fraction.
pub fn normalize(value: Value) -> Value {
    match value {
        Value::Number(number) => Value::Number(match decode_number(&number) {
            Decoded::Float(float) if float.abs() < 1e15 => whole(float).map_or(number, Number::from),
            _ => number,
        }),
        Value::Array(items) => Value::Array(items.into_iter().map(normalize).collect()),
        Value::Object(fields) => Value::Object(fields.into_iter().map(|(key, item)| (key, normalize(item))).collect()),
        other => other,
    }
}

#[expect(clippy::cast_possible_truncation, clippy::float_cmp, reason = "checked to be whole and in range")]
fn whole(float: f64) -> Option<i64> {
    (float == float.trunc()).then_some(float as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn quotes_control_and_hidden_characters_as_go_does() {
        assert_eq!(quote("a\"b\\\n\u{1}é\u{200b}😀\u{7f}"), r#""a\"b\\\n\x01é\u200b😀\x7f""#);
    }

    #[test]
    fn writes_floats_as_go_does() {
        let cases = [(1.0, "1"), (0.5, "0.5"), (1e21, "1e+21"), (1e-5, "1e-05"), (123456789.0, "123456789")];
        for (value, text) in cases {
            assert_eq!(float(value), text);
        }
        assert_eq!((json_float(1e-7), json_float(1e-5)), ("1e-7".to_owned(), "0.00001".to_owned()));
    }

    #[test]
    fn writes_json_with_sorted_keys_and_escaped_html() {
        assert_eq!(json(&json!({"b": [1, 2.5, null], "a": "<&>"})), r#"{"a":"\u003c\u0026\u003e","b":[1,2.5,null]}"#);
    }

    #[test]
    fn writes_plain_values_as_percent_v_does() {
        assert_eq!(plain(&json!({"b": [1, "x"], "a": null})), "map[a:<nil> b:[1 x]]");
    }
}
