//! JSON and YAML as Go reads and writes them, with the libraries of Kubernetes 1.36.
//!
//! - The embedded API server accepts a text if Go does, in the same words, and makes the same value
//!   of it. It finds the same duplicate fields. What it writes as YAML means the same to Go.
//! - A tenant's configuration that the host accepts has the value that Go makes of it.
//!
//! Differences that are meant to be:
//!
//! - The server refuses to nest deeper than 127 levels, where Go refuses more than 10,000.
//! - Of keys that are alike in JSON only, Go takes one at random; here it is always the same.
//! - A byte order mark within YAML is a character like others.
//! - The host refuses more than Go does: duplicate keys, aliases, further documents, texts beyond
//!   its limits, and in JSON halves of characters.
//!
//! The input: on the first line `json`, `yaml`, `config.json` or `config.yaml`, then the text. With
//! `generate` on the first line, what follows chooses a text that is nearly well-formed.

mod generate;
mod process;

use operetta_apiserver::apimachinery::{
    json::{self, MAX_DEPTH, SyntaxError, duplicate_field},
    yaml,
};
use operetta_manager::plugin::config::text::{
    MAX_DEPTH as MAX_CONFIG_DEPTH, MAX_VALUES, config_object,
};
use serde_json::Value;

use self::process::{Answer, Language};
use crate::cut;

/// Checks the module's invariants on one input.
pub fn golang(data: &[u8]) {
    let (kind, rest) = cut(data, b'\n');
    let kind = String::from_utf8_lossy(kind);
    let language = if kind.contains("yaml") {
        Language::Yaml
    } else {
        Language::Json
    };
    let text = if kind.contains("generate") {
        generate::text(language, rest)
    } else {
        rest.to_vec()
    };

    match language {
        _ if kind.contains("config") => read_config(language, &text),
        Language::Json => read_json(&text),
        Language::Yaml => read_yaml(&text),
    }
}

fn read_json(text: &[u8]) {
    let go = process::ask(Language::Json, text);
    let shown = shown(text);

    let parsed = match json::parse_value(text) {
        Err(SyntaxError::Depth) => {
            let depth = depth(text);
            assert!(depth > MAX_DEPTH, "{depth} levels are refused: {shown}");
            return;
        }
        parsed => parsed,
    };
    let read = json::read(text);
    let parsed = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            assert_eq!(error.to_string(), go.error, "{shown}");
            assert_eq!(read, Err(error), "{shown}");
            return;
        }
    };
    assert_eq!(go.error, "", "Go refuses {shown}");
    assert_eq!(read.as_ref(), Ok(&parsed.value), "{shown}");

    let written = json::to_vec(&parsed.value);
    assert_eq!(utf8(&written), go.json, "{shown}");
    let duplicates: Vec<_> = parsed
        .duplicates
        .iter()
        .map(|path| duplicate_field(path))
        .collect();
    assert_eq!(duplicates, go.strict, "{shown}");

    let stored = json::read(&written).expect("what was written");
    assert_eq!(utf8(&json::to_vec(&stored)), go.stored, "{shown}");

    let document = yaml::from_value(&stored);
    let again = process::ask(Language::Yaml, document.as_bytes());
    assert_eq!(again.error, "", "Go can't read {document}, from {shown}");
    assert_eq!(again.json, go.stored, "{document}, from {shown}");
}

fn read_yaml(text: &[u8]) {
    let go = process::ask(Language::Yaml, text);
    let shown = shown(text);
    if has_byte_order_mark_within(text) {
        return;
    }

    let converted = yaml::to_json(text);
    if go.ambiguous {
        // A number that JSON doesn't have is no error if Go has taken the other key's value.
        let depends = |error: &str| error.starts_with("json: ");
        match converted {
            Err(error) if depends(&error.to_string()) => {}
            Err(error) => assert_ne!(go.error, "", "refused with {error}: {shown}"),
            Ok(_) => assert!(
                go.error.is_empty() || depends(&go.error),
                "Go refuses {shown}"
            ),
        }
        return;
    }

    match converted {
        Err(error) if error.to_string() == "yaml: exceeded max depth" => {
            // A value that a later one replaces is in none of Go's answers.
            let is_deep = depth(go.json.as_bytes()) > MAX_DEPTH;
            assert!(
                is_deep || !go.error.is_empty() || !go.strict.is_empty(),
                "{} levels are refused: {shown}",
                depth(go.json.as_bytes())
            );
        }
        Err(error) => {
            assert_ne!(go.error, "", "refused with {error}: {shown}");
            // Go finds what JSON doesn't have in any order.
            if go.error.starts_with("yaml: ") {
                let error = error.to_string();
                assert!(
                    go.error.starts_with(&error),
                    "{error}, but {}: {shown}",
                    go.error
                );
            }
        }
        Ok(converted) => {
            assert_eq!(go.error, "", "Go refuses {shown}");
            assert_eq!(utf8(&converted.json), go.json, "{shown}");
            let strict = Vec::from_iter(converted.strict_error());
            assert_eq!(strict, go.strict, "{shown}");
        }
    }
}

fn read_config(language: Language, text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let key = match language {
        Language::Json => "config.json",
        Language::Yaml => "config.yaml",
    };
    let go = process::ask(language, text.as_bytes());
    let read = config_object(key, text);

    match read {
        Ok(_) if go.ambiguous || has_byte_order_mark_within(text.as_bytes()) => {}
        Ok(object) => {
            assert_eq!(go.error, "", "Go refuses {text:?}");
            assert!(go.strict.is_empty(), "duplicate keys: {text:?}");
            let expected: Value = serde_json::from_str(&go.json).expect("Go's JSON");
            let object = Value::Object(object);
            assert!(
                is_equal(&object, &expected),
                "{text:?} is {object}, but {expected} to Go"
            );
        }
        Err(error) => assert!(
            is_beyond_host(language, text, &go, &error),
            "refused with {error:?}: {text:?}, which is {} to Go",
            go.json
        ),
    }
}

/// Reports whether the host is meant to refuse a text, whatever Go makes of it.
fn is_beyond_host(language: Language, text: &str, go: &Answer, error: &str) -> bool {
    let has_surrogate = || {
        let escapes = text.split("\\u").skip(1);
        let mut codes = escapes.filter_map(|rest| u16::from_str_radix(rest.get(..4)?, 16).ok());
        codes.any(|code| (0xd800..0xe000).contains(&code))
    };

    !go.error.is_empty()
        || !go.strict.is_empty()
        || go.ambiguous
        || !go.json.starts_with('{')
        || error.contains("anchors, aliases or merge keys")
        || error.contains("more than one YAML document")
        || error.contains(&format!("more than {MAX_VALUES} values"))
        || depth(go.json.as_bytes()) > MAX_CONFIG_DEPTH
        || (language == Language::Json && has_surrogate())
}

/// Compares values. Numbers are equal if they are so as float64, which is how a plugin in
/// JavaScript reads them, or as integers.
fn is_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            left == right || left.as_f64() == right.as_f64()
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(l, r)| is_equal(l, r))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(key, value)| right.get(key).is_some_and(|other| is_equal(value, other)))
        }
        _ => left == right,
    }
}

/// Returns how deeply the brackets of a JSON text are nested.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut is_in_string, mut is_escaped) = (false, false);

    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_in_string => is_escaped = true,
            b'"' => is_in_string = !is_in_string,
            b'[' | b'{' if !is_in_string => depth += 1,
            b']' | b'}' if !is_in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// Reports whether Go may drop characters: it looks for a byte order mark at the beginning of what
/// it has in memory, not of the line.
fn has_byte_order_mark_within(text: &[u8]) -> bool {
    const MARK: &[u8] = "\u{feff}".as_bytes();
    let is_utf16 = text.starts_with(&[0xff, 0xfe]) || text.starts_with(&[0xfe, 0xff]);
    let rest = text.strip_prefix(MARK).unwrap_or(text);

    if is_utf16 {
        let units = text[2..].chunks_exact(2);
        let mut marks = units.map(|unit| unit == [0xff, 0xfe] || unit == [0xfe, 0xff]);
        return marks.any(|is_mark| is_mark);
    }
    rest.windows(MARK.len()).any(|part| part == MARK)
}

fn utf8(text: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(text)
}

/// The text for a message.
fn shown(text: &[u8]) -> String {
    const MAX: usize = 2000;
    let end = text.len().min(MAX);
    format!("\"{}\" of {} bytes", text[..end].escape_ascii(), text.len())
}
