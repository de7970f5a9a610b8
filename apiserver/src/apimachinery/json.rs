//! JSON as the API server reads and writes it: every body, every answer and every stored object.
//!
//! Reading follows <https://github.com/kubernetes-sigs/json>, a fork of Go's `encoding/json`:
//!
//! - `parse` keeps the order of fields, duplicate fields and the text of numbers in a `Node`,
//!   from which the built-in kinds are decoded.
//! - `parse_value` reads a plain value, for what has no Go type: custom resources, patches and
//!   options.
//! - `read` does so where nobody asks for duplicate fields.
//!
//! Writing follows `encoding/json`: `to_vec` and `write`.

use std::{
    collections::{HashMap, HashSet},
    io::Write as _,
};

pub(crate) use operetta_golang::json::write_string;
use serde_json::{Map, Number, Value};
use thiserror::Error;

use crate::golang::{self, Decoded};

/// The deepest nesting of arrays and objects. The real server allows 10,000, on stacks that grow.
pub const MAX_DEPTH: usize = 127;

/// How many unknown and duplicate fields Go's decoder reports.
pub(crate) const MAX_STRICT_ERRORS: usize = 100;

/// A parsed JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Null,
    Bool(bool),
    /// The literal as it was written.
    Number(String),
    String(String),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
}

/// A syntax error in Go's words.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum SyntaxError {
    /// A character in the wrong place.
    #[error("invalid character {character} {context}")]
    Character {
        /// The character, quoted.
        character: String,
        /// The place, as in "looking for beginning of value".
        context: String,
    },
    /// The text ends within a value.
    #[error("unexpected end of JSON input")]
    End,
    /// Arrays and objects are nested too deeply.
    #[error("exceeded max depth")]
    Depth,
    /// A number is too large for a float64.
    #[error("json: cannot unmarshal number {0} into Go value of type float64")]
    Number(String),
}

/// A text that was parsed.
#[derive(Debug, Default)]
pub struct Parsed {
    /// The value. The last of several fields with one name counts.
    pub value: Value,
    /// The paths of the first hundred fields that occur more than once, in the order of the text.
    pub duplicates: Vec<String>,
}

/// Parses a JSON document.
///
/// # Errors
///
/// Where and why Go's `encoding/json` doesn't accept the text.
pub(crate) fn parse(text: &[u8]) -> Result<Node, SyntaxError> {
    Parser::document(text)
}

/// Reads a JSON document. The last of several fields with one name counts.
///
/// # Errors
///
/// As [`parse_value`].
pub fn read(text: &[u8]) -> Result<Value, SyntaxError> {
    Parser::document(text).map_err(|error| match error {
        // Go looks at the numbers of texts without a syntax error.
        SyntaxError::Number(_) => parse(text).err().unwrap_or(error),
        error => error,
    })
}

/// Parses a JSON document as a plain value.
///
/// # Errors
///
/// The message that Go's `encoding/json` has for it.
pub fn parse_value(text: &[u8]) -> Result<Parsed, SyntaxError> {
    let node = parse(text)?;

    let mut duplicates: Vec<String> = Vec::new();
    node.visit_fields(None, &mut |path, is_repeated| {
        let is_new = || {
            duplicates.len() < MAX_STRICT_ERRORS && !duplicates.iter().any(|known| known == path)
        };
        if is_repeated && is_new() {
            duplicates.push(path.to_owned());
        }
    });

    Ok(Parsed {
        value: node.into_value()?,
        duplicates,
    })
}

/// Returns what strict field validation says about a field that occurs more than once.
#[must_use]
pub fn duplicate_field(path: &str) -> String {
    format!("duplicate field {}", golang::quote(path))
}

/// Returns where the field of each path first occurs in a text: numbers that grow along the text.
pub(crate) fn positions(text: &[u8]) -> HashMap<String, usize> {
    let mut positions = HashMap::new();

    // The text was parsed before; without an order the messages are in any order.
    if let Ok(node) = parse(text) {
        node.visit_fields(None, &mut |path, _| {
            let next = positions.len();
            positions.entry(path.to_owned()).or_insert(next);
        });
    }

    positions
}

impl Node {
    /// Converts a value, keeping the order of its fields.
    pub(crate) fn from_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => Self::Number(number.to_string()),
            Value::String(text) => Self::String(text.clone()),
            Value::Array(items) => Self::Array(items.iter().map(Self::from_value).collect()),
            Value::Object(map) => Self::Object(
                map.iter()
                    .map(|(key, value)| (key.clone(), Self::from_value(value)))
                    .collect(),
            ),
        }
    }

    /// Converts to a value. The last of duplicate fields wins. A number that is too large becomes
    /// null.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => (*value).into(),
            Self::Number(text) => number(text).unwrap_or_default(),
            Self::String(text) => text.as_str().into(),
            Self::Array(items) => items.iter().map(Self::to_value).collect(),
            Self::Object(fields) => fields
                .iter()
                .map(|(key, value)| (key.clone(), value.to_value()))
                .collect(),
        }
    }

    /// Converts to a value. The last of duplicate fields wins.
    ///
    /// # Errors
    ///
    /// Go's message for a number that is too large.
    fn into_value(self) -> Result<Value, SyntaxError> {
        Ok(match self {
            Self::Null => Value::Null,
            Self::Bool(value) => value.into(),
            Self::Number(text) => Value::from_number(&text)?,
            Self::String(text) => text.into(),
            Self::Array(items) => {
                let items: Result<Vec<Value>, SyntaxError> =
                    items.into_iter().map(Self::into_value).collect();
                items?.into()
            }
            Self::Object(fields) => {
                let mut map = Map::new();
                for (name, value) in fields {
                    map.insert(name, value.into_value()?);
                }
                map.into()
            }
        })
    }

    /// Calls `visit` with the path of each field, and whether its object had a field of this name
    /// before. `path` is the node's own, unless it's the root.
    fn visit_fields(&self, path: Option<&str>, visit: &mut dyn FnMut(&str, bool)) {
        match self {
            Self::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    let path = format!("{}[{at}]", path.unwrap_or_default());
                    item.visit_fields(Some(&path), visit);
                }
            }
            Self::Object(fields) => {
                let mut names = HashSet::new();
                for (name, value) in fields {
                    let path = path.map_or_else(|| name.clone(), |path| format!("{path}.{name}"));
                    visit(&path, !names.insert(name));
                    value.visit_fields(Some(&path), visit);
                }
            }
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) => {}
        }
    }
}

/// Reads a number: as an int64 if it has no fraction, no exponent and fits, else as a float64. None
/// if that overflows.
///
/// This is the option `PreserveInts` of
/// <https://github.com/kubernetes-sigs/json/blob/main/internal/golang/encoding/json/kubernetes_patch.go>.
pub(crate) fn number(text: &str) -> Option<Value> {
    if let Ok(value) = text.parse::<i64>() {
        return Some(value.into());
    }

    let value: f64 = text.parse().ok()?;
    value.is_finite().then(|| value.into())
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

/// Appends a value as Go's `encoding/json` writes it: keys sorted, floats with an exponent below
/// 1e-6 and from 1e21 on, and `<`, `>` and `&` escaped.
pub(crate) fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write(item, out);
            }
            out.push(b']');
        }
        Value::Object(fields) => {
            out.push(b'{');
            for (at, (key, item)) in sorted(fields).into_iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_string(key, out);
                out.push(b':');
                write(item, out);
            }
            out.push(b'}');
        }
    }
}

/// Returns a value as JSON, as `write` does.
#[must_use]
pub fn to_vec(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    write(value, &mut out);
    out
}

/// Returns a value as JSON, as [`write()`] does.
#[must_use]
pub(crate) fn to_string(value: &Value) -> String {
    golang::string(to_vec(value))
}

/// Returns a string as JSON, in quotes.
#[must_use]
pub(crate) fn quote(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    write_string(text, &mut out);
    golang::string(out)
}

/// The fields of an object by name. `serde_json` sorts them unless some crate of the build asks it
/// to keep their order.
fn sorted(fields: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut fields: Vec<_> = fields.iter().collect();
    if !fields.is_sorted_by_key(|(key, _)| *key) {
        fields.sort_unstable_by_key(|(key, _)| *key);
    }
    fields
}

fn write_number(number: &Number, out: &mut Vec<u8>) {
    let written = match golang::decode_number(number) {
        Decoded::Int(int) => write!(out, "{int}"),
        Decoded::Float(float) => write!(out, "{}", golang::json_float(float)),
    };
    // A Vec takes whatever is written to it.
    debug_assert!(written.is_ok());
}

/// Indents a JSON text by two spaces, as `encoding/json.Indent` does. Fields keep their order.
pub(crate) fn indent(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() * 2);
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut is_escaped = false;

    let new_line = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.resize(out.len() + 2 * depth, b' ');
    };

    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if in_string {
            out.push(byte);
            in_string = is_escaped || byte != b'"';
            is_escaped = !is_escaped && byte == b'\\';
            continue;
        }

        match byte {
            b'{' | b'[' => {
                out.push(byte);
                if let Some(end) = bytes.next_if(|next| matches!(next, b'}' | b']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                new_line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            _ => {
                in_string = byte == b'"';
                out.push(byte);
            }
        }
    }

    out
}

/// What a [`Parser`] makes of a text.
trait Tree: Sized {
    /// Returns a number from its literal.
    ///
    /// # Errors
    ///
    /// [`SyntaxError::Number`] if the number is too large.
    fn from_number(text: &str) -> Result<Self, SyntaxError>;
    fn null() -> Self;
    fn from_bool(value: bool) -> Self;
    fn from_string(text: String) -> Self;
    fn from_items(items: Vec<Self>) -> Self;
    fn from_fields(fields: Vec<(String, Self)>) -> Self;
}

impl Tree for Node {
    fn from_number(text: &str) -> Result<Self, SyntaxError> {
        Ok(Self::Number(text.to_owned()))
    }

    fn null() -> Self {
        Self::Null
    }

    fn from_bool(value: bool) -> Self {
        Self::Bool(value)
    }

    fn from_string(text: String) -> Self {
        Self::String(text)
    }

    fn from_items(items: Vec<Self>) -> Self {
        Self::Array(items)
    }

    fn from_fields(fields: Vec<(String, Self)>) -> Self {
        Self::Object(fields)
    }
}

impl Tree for Value {
    fn from_number(text: &str) -> Result<Self, SyntaxError> {
        number(text).ok_or_else(|| SyntaxError::Number(text.to_owned()))
    }

    fn null() -> Self {
        Self::Null
    }

    fn from_bool(value: bool) -> Self {
        Self::Bool(value)
    }

    fn from_string(text: String) -> Self {
        Self::String(text)
    }

    fn from_items(items: Vec<Self>) -> Self {
        Self::Array(items)
    }

    fn from_fields(fields: Vec<(String, Self)>) -> Self {
        Self::Object(fields.into_iter().collect())
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn document<T: Tree>(text: &'a [u8]) -> Result<T, SyntaxError> {
        let mut parser = Self {
            text,
            at: 0,
            depth: 0,
        };

        let value = parser.value()?;
        parser.skip_space();
        match parser.peek() {
            Some(_) => Err(parser.unexpected("after top-level value")),
            None => Ok(value),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// The error for the next character, or for the end, where a space would be allowed.
    fn unexpected(&self, context: &str) -> SyntaxError {
        match self.peek() {
            Some(byte) => Self::unexpected_byte(byte, context),
            None => SyntaxError::End,
        }
    }

    /// The error for the next character within a literal, number or escape. To see whether a text
    /// is complete, Go's scanner reads a space after it.
    fn unexpected_within(&self, context: &str) -> SyntaxError {
        Self::unexpected_byte(self.peek().unwrap_or(b' '), context)
    }

    fn unexpected_byte(byte: u8, context: &str) -> SyntaxError {
        let character = match byte {
            b'\'' => r"'\''".to_owned(),
            b'"' => "'\"'".to_owned(),
            // Go converts the single byte, not the character it begins.
            _ => {
                let quoted = golang::quote(&char::from(byte).to_string());
                format!("'{}'", quoted.trim_matches('"'))
            }
        };

        SyntaxError::Character {
            character,
            context: context.to_owned(),
        }
    }

    fn value<T: Tree>(&mut self) -> Result<T, SyntaxError> {
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => Ok(T::from_string(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true", T::from_bool(true)),
            Some(b'f') => self.literal("false", T::from_bool(false)),
            Some(b'n') => self.literal("null", T::null()),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn nested<T: Tree>(
        &mut self,
        parse: fn(&mut Self) -> Result<T, SyntaxError>,
    ) -> Result<T, SyntaxError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(SyntaxError::Depth);
        }

        self.at += 1;
        let node = parse(self);
        self.depth -= 1;
        node
    }

    fn object<T: Tree>(&mut self) -> Result<T, SyntaxError> {
        let mut fields = Vec::new();

        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(T::from_fields(fields));
        }

        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("looking for beginning of object key string"));
            }
            let key = self.string()?;

            self.skip_space();
            if self.peek() != Some(b':') {
                return Err(self.unexpected("after object key"));
            }

            self.at += 1;
            fields.push((key, self.value()?));

            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(T::from_fields(fields));
                }
                _ => return Err(self.unexpected("after object key:value pair")),
            }
        }
    }

    fn array<T: Tree>(&mut self) -> Result<T, SyntaxError> {
        let mut items = Vec::new();

        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(T::from_items(items));
        }

        loop {
            items.push(self.value()?);
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(T::from_items(items));
                }
                _ => return Err(self.unexpected("after array element")),
            }
        }
    }

    fn literal<T>(&mut self, word: &str, value: T) -> Result<T, SyntaxError> {
        for expected in word.bytes() {
            if self.peek() != Some(expected) {
                let context = format!("in literal {word} (expecting '{}')", char::from(expected));
                return Err(self.unexpected_within(&context));
            }
            self.at += 1;
        }

        Ok(value)
    }

    fn number<T: Tree>(&mut self) -> Result<T, SyntaxError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }

        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.unexpected_within("in numeric literal")),
        }

        if self.peek() == Some(b'.') {
            self.at += 1;
            self.need_digit("after decimal point in numeric literal")?;
        }

        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.need_digit("in exponent of numeric literal")?;
        }

        // The bytes are ASCII.
        T::from_number(&String::from_utf8_lossy(&self.text[start..self.at]))
    }

    fn digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn need_digit(&mut self, context: &str) -> Result<(), SyntaxError> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.unexpected_within(context));
        }
        self.digits();
        Ok(())
    }

    /// Reads a string. As in Go, invalid UTF-8 becomes U+FFFD.
    fn string(&mut self) -> Result<String, SyntaxError> {
        self.at += 1;
        let mut bytes = Vec::new();

        loop {
            let rest = &self.text[self.at..];
            let plain = rest
                .iter()
                .position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f))
                .unwrap_or(rest.len());
            bytes.extend_from_slice(&rest[..plain]);
            self.at += plain;

            match self.peek() {
                None => return Err(SyntaxError::End),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(golang::string(bytes));
                }
                Some(b'\\') => self.escape(&mut bytes)?,
                Some(_) => return Err(self.unexpected("in string literal")),
            }
        }
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), SyntaxError> {
        self.at += 1;

        let byte = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => byte,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => return self.unicode(bytes),
            _ => return Err(self.unexpected_within("in string escape code")),
        };

        bytes.push(byte);
        self.at += 1;
        Ok(())
    }

    fn unicode(&mut self, bytes: &mut Vec<u8>) -> Result<(), SyntaxError> {
        let high = self.hex()?;
        let mut code = high;

        if (0xd800..0xdc00).contains(&high) && self.text[self.at..].starts_with(b"\\u") {
            let before = self.at;
            self.at += 1;
            let low = self.hex()?;
            if (0xdc00..0xe000).contains(&low) {
                code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
            } else {
                self.at = before;
            }
        }

        let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    /// Reads `u` and four hexadecimal digits.
    fn hex(&mut self) -> Result<u32, SyntaxError> {
        self.at += 1;
        let mut code = 0;

        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else {
                return Err(self.unexpected_within(r"in \u hexadecimal character escape"));
            };

            code = code * 16 + digit;
            self.at += 1;
        }

        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::apimachinery::recorded;

    #[test]
    fn finds_duplicate_fields_by_their_paths() {
        let text = br#"{"a":1,"b":[{"c":1,"c":2}],"a":{"a":3},"a":4}"#;
        let parsed = parse_value(text).expect("JSON");
        assert_eq!(parsed.value, json!({"a": 4, "b": [{"c": 2}]}));
        assert_eq!(parsed.duplicates, ["b[0].c", "a"]);

        let positions = positions(text);
        assert!(positions["a"] < positions["b[0].c"] && positions["b[0].c"] < positions["a.a"]);
    }

    #[test]
    fn finds_hundred_duplicate_fields() {
        let fields: Vec<String> = (0..200)
            .map(|at| format!(r#""{}":1"#, at / 2 % 150))
            .collect();
        let text = format!("[{{{0}}},{{{0}}}]", fields.join(","));
        let parsed = parse_value(text.as_bytes()).expect("JSON");
        assert_eq!(parsed.duplicates.len(), MAX_STRICT_ERRORS);
        assert_eq!(parsed.duplicates[99], "[0].99");
    }

    #[test]
    fn refuses_malformed_text_in_gos_words() {
        for (text, expected) in [
            ("", "unexpected end of JSON input"),
            (r#"{"a":"#, "unexpected end of JSON input"),
            ("{}x", "invalid character 'x' after top-level value"),
            (
                "{a}",
                "invalid character 'a' looking for beginning of object key string",
            ),
            (
                r#"{"a":1,}"#,
                "invalid character '}' looking for beginning of object key string",
            ),
            (r#"{"a" 1}"#, "invalid character '1' after object key"),
            (
                r#"{"a":1 1}"#,
                "invalid character '1' after object key:value pair",
            ),
            ("[1 1]", "invalid character '1' after array element"),
            (
                "trux",
                "invalid character 'x' in literal true (expecting 'e')",
            ),
            (
                "\\",
                r"invalid character '\\' looking for beginning of value",
            ),
            ("é", "invalid character 'Ã' looking for beginning of value"),
            ("\"\n\"", r"invalid character '\n' in string literal"),
            (
                "1e999",
                "json: cannot unmarshal number 1e999 into Go value of type float64",
            ),
            (
                "[1e999,x]",
                "invalid character 'x' looking for beginning of value",
            ),
        ] {
            let error = parse_value(text.as_bytes()).expect_err("malformed");
            assert_eq!(error.to_string(), expected, "{text}");
            assert_eq!(read(text.as_bytes()), Err(error), "{text}");
        }
    }

    #[test]
    fn refuses_to_nest_too_deeply() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        let text = nested(MAX_DEPTH);
        assert!(parse(text.as_bytes()).is_ok());

        let text = nested(MAX_DEPTH + 1);
        assert_eq!(parse(text.as_bytes()), Err(SyntaxError::Depth));
    }

    #[test]
    fn reads_and_writes_as_go_does() {
        let mut count = 0;
        for case in recorded::cases("json") {
            let shown = String::from_utf8_lossy(&case.input).into_owned();
            count += 1;

            let parsed = match parse_value(&case.input) {
                Ok(parsed) => parsed,
                Err(error) => {
                    assert_eq!(error.to_string(), case.error, "{shown}");
                    continue;
                }
            };
            assert_eq!(case.error, "", "{shown}");

            let written = to_string(&parsed.value);
            assert_eq!(written, case.json, "{shown}");

            let duplicates = parsed.duplicates.iter();
            let duplicates: Vec<_> = duplicates.map(|path| duplicate_field(path)).collect();
            assert_eq!(duplicates, case.strict, "{shown}");

            let stored = read(written.as_bytes()).expect("what was written");
            assert_eq!(to_string(&stored), case.stored, "{shown}");
            assert_eq!(golang::normalize(parsed.value), stored, "{shown}");
        }
        assert!(count > 300, "only {count} cases");
    }

    #[test]
    fn indents_as_go_does() {
        let text = br#"{"a":[1,{"b":"}\\\",["}],"c":[],"d":{}}"#;
        let expected = "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"}\\\\\\\",[\"\n    }\n  ],\n  \"c\": [],\n  \"d\": {}\n}";
        assert_eq!(String::from_utf8_lossy(&indent(text)), expected);
    }
}
