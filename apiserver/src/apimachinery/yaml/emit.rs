//! YAML text.

use operetta_golang::yaml::is_string;
use serde_json::Value;

use crate::{apimachinery::json, golang};

/// The longest key that is written before its `:` without a `?`. Readers look for the `:` within
/// 1024 characters.
const MAX_KEY: usize = 1000;

/// Returns a value as a YAML document in block style.
///
/// It means the same to readers of YAML 1.1 and 1.2: strings that one of them takes for something
/// else are quoted.
#[must_use]
pub fn from_value(value: &Value) -> String {
    let mut out = Vec::with_capacity(256);
    match value {
        Value::Object(fields) if !fields.is_empty() => write_fields(fields, 0, &mut out),
        Value::Array(items) if !items.is_empty() => write_items(items, 0, &mut out),
        scalar => {
            write_scalar(scalar, &mut out);
            out.push(b'\n');
        }
    }

    golang::string(out)
}

/// Writes what comes after a key: a scalar on its line, or a block below it.
fn write_field_value(value: &Value, indent: usize, out: &mut Vec<u8>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            out.push(b'\n');
            write_indent(indent + 2, out);
            write_fields(fields, indent + 2, out);
        }
        // As Go does it, the items of a list aren't indented further than its key.
        Value::Array(items) if !items.is_empty() => {
            out.push(b'\n');
            write_indent(indent, out);
            write_items(items, indent, out);
        }
        scalar => {
            out.push(b' ');
            write_scalar(scalar, out);
            out.push(b'\n');
        }
    }
}

/// Writes fields, the first of which begins where the text ends.
fn write_fields(fields: &serde_json::Map<String, Value>, indent: usize, out: &mut Vec<u8>) {
    for (at, (name, value)) in fields.iter().enumerate() {
        if at > 0 {
            write_indent(indent, out);
        }
        let mut key = Vec::with_capacity(name.len() + 2);
        write_string(name, &mut key);
        if key.len() > MAX_KEY {
            out.extend_from_slice(b"? ");
            out.extend_from_slice(&key);
            out.push(b'\n');
            write_indent(indent, out);
        } else {
            out.extend_from_slice(&key);
        }
        out.push(b':');
        write_field_value(value, indent, out);
    }
}

/// Writes the items of a list, the first of which begins where the text ends.
fn write_items(items: &[Value], indent: usize, out: &mut Vec<u8>) {
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            write_indent(indent, out);
        }
        out.extend_from_slice(b"- ");
        match item {
            Value::Object(fields) if !fields.is_empty() => write_fields(fields, indent + 2, out),
            Value::Array(items) if !items.is_empty() => write_items(items, indent + 2, out),
            scalar => {
                write_scalar(scalar, out);
                out.push(b'\n');
            }
        }
    }
}

fn write_indent(indent: usize, out: &mut Vec<u8>) {
    out.resize(out.len() + indent, b' ');
}

/// Writes a scalar, or an empty list or object.
fn write_scalar(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::String(text) => write_string(text, out),
        other => json::write(other, out),
    }
}

/// Writes a string in quotes, unless it can only be a string.
fn write_string(text: &str, out: &mut Vec<u8>) {
    let begins_as_word =
        text.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '/'));
    let is_one_line = text.chars().all(|c| matches!(c, ' '..='~'));
    let has_indicator = text.contains(": ") || text.contains(" #") || text.ends_with([':', ' ']);

    if begins_as_word && is_one_line && !has_indicator && is_string(text) {
        out.extend_from_slice(text.as_bytes());
    } else {
        write_quoted(text, out);
    }
}

/// Writes a string in quotes. It has escapes as in JSON, and for what YAML doesn't allow: a reader
/// would refuse these characters, or see the break of a line or a byte order mark.
fn write_quoted(text: &str, out: &mut Vec<u8>) {
    let is_escaped =
        |c: char| matches!(c, '\u{7f}'..'\u{a0}' | '\u{feff}' | '\u{fffe}'..='\u{ffff}');
    let mut quoted = Vec::with_capacity(text.len() + 2);
    json::write_string(text, &mut quoted);

    let quoted = golang::string(quoted);
    let mut rest = quoted.as_str();
    while let Some(at) = rest.find(is_escaped) {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        let mut chars = rest[at..].chars();
        let code = chars.next().map_or(0, u32::from);
        out.extend_from_slice(format!("\\u{code:04x}").as_bytes());
        rest = chars.as_str();
    }
    out.extend_from_slice(rest.as_bytes());
}
