//! Values as Go prints them, which the API server's messages contain, and texts that Go parses.

pub mod duration;
pub mod pattern;
pub mod time;

use serde_json::{Number, Value};

/// Quotes a string like Go's `strconv.Quote`.
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

/// Reports whether Go's `unicode.IsPrint` accepts a character: a letter, mark, number, punctuation,
/// symbol or the space.
pub fn is_printable(c: char) -> bool {
    // Behind another character `escape_debug` leaves marks alone, and only Rust escapes the
    // apostrophe.
    c == '\'' || String::from_iter(['a', c]).escape_debug().nth(1) != Some('\\')
}

/// Formats a number like `%v` of a float64: with an exponent below 1e-4 and from 1e21 on.
pub fn float(value: f64) -> String {
    exponent_form(value, 1e-4, 1e21, 2)
}

/// Formats a number like `encoding/json` a float64: with an exponent below 1e-6 and from 1e21 on.
pub fn json_float(value: f64) -> String {
    exponent_form(value, 1e-6, 1e21, 1)
}

/// Formats a number like `strconv.FormatFloat` with the format `g` and all its digits: with an
/// exponent below 1e-4 and from 1e6 on. Takes the number as Rust writes it with and without an
/// exponent, because that depends on its size in memory.
pub fn general(scientific: &str, plain: &str) -> String {
    let exponent = scientific.split_once('e').map(|(_, exponent)| exponent);
    match exponent.and_then(|exponent| exponent.parse::<i32>().ok()) {
        Some(exponent) if !(-4..6).contains(&exponent) => with_exponent(scientific, 2),
        _ => plain.to_owned(),
    }
}

fn exponent_form(value: f64, low: f64, high: f64, digits: usize) -> String {
    let size = value.abs();
    if size == 0.0 || (size >= low && size < high) {
        return format!("{value}");
    }

    with_exponent(&format!("{value:e}"), digits)
}

/// Writes the exponent of a number as Go does: with a sign and at least so many digits.
fn with_exponent(text: &str, digits: usize) -> String {
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return text.to_owned();
    };

    let (sign, exponent) = exponent
        .strip_prefix('-')
        .map_or(('+', exponent), |rest| ('-', rest));

    format!("{mantissa}e{sign}{exponent:0>digits$}")
}

/// Parses an integer like `strconv.ParseInt` with the base 0: with a sign, and in base 2, 8 or 16
/// after `0b`, `0o` or `0`, and `0x`.
pub fn parse_int(text: &str) -> Option<i64> {
    let (sign, magnitude) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    i64::try_from(sign * i128::from(parse_uint(magnitude)?)).ok()
}

/// Parses an integer like `strconv.ParseUint` with the base 0.
pub fn parse_uint(text: &str) -> Option<u64> {
    let prefixed = |prefixes: [&str; 2]| {
        let mut found = prefixes
            .iter()
            .filter_map(|prefix| text.strip_prefix(prefix));
        found.next().filter(|digits| !digits.is_empty())
    };

    let (base, digits) = if let Some(digits) = prefixed(["0b", "0B"]) {
        (2, digits)
    } else if let Some(digits) = prefixed(["0o", "0O"]) {
        (8, digits)
    } else if let Some(digits) = prefixed(["0x", "0X"]) {
        (16, digits)
    } else if let Some(digits) = prefixed(["0", "0"]) {
        (8, digits)
    } else {
        (10, text)
    };

    // Rust takes a sign here, Go doesn't.
    let is_signed = digits.starts_with(['+', '-']);
    (!is_signed).then(|| u64::from_str_radix(digits, base).ok())?
}

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

/// Converts bytes to a string as Go does where it needs UTF-8: each byte that belongs to no
/// character becomes U+FFFD.
///
/// `String::from_utf8_lossy` has a single U+FFFD for the bytes of a character that is cut off.
pub fn string(bytes: Vec<u8>) -> String {
    let bytes = match String::from_utf8(bytes) {
        Ok(text) => return text,
        Err(error) => error.into_bytes(),
    };

    let mut out = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn quotes_control_and_hidden_characters_as_go_does() {
        assert_eq!(
            quote("a\"b\\\n\u{1}é\u{200b}😀\u{7f}"),
            r#""a\"b\\\n\x01é\u200b😀\x7f""#
        );
    }

    #[test]
    fn writes_floats_as_go_does() {
        let cases = [
            (1.0, "1"),
            (0.5, "0.5"),
            (1e21, "1e+21"),
            (1e-5, "1e-05"),
            (123456789.0, "123456789"),
        ];

        for (value, text) in cases {
            assert_eq!(float(value), text);
        }

        assert_eq!(
            (json_float(1e-7), json_float(1e-5)),
            ("1e-7".to_owned(), "0.00001".to_owned())
        );
    }

    #[test]
    fn writes_plain_values_as_percent_v_does() {
        assert_eq!(
            plain(&json!({"b": [1, "x"], "a": null})),
            "map[a:<nil> b:[1 x]]"
        );
    }
}
