//! The types of scalars, as
//! <https://github.com/yaml/go-yaml/blob/v2.4.3/resolve.go> decides them.

use std::sync::LazyLock;

use base64::{
    Engine, alphabet,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};
use jiff::civil::Date;
use regex::Regex;

use super::YamlError;
use crate::golang;

pub(super) const MERGE: &str = "tag:yaml.org,2002:merge";
const FLOAT: &str = "tag:yaml.org,2002:float";
const TIMESTAMP: &str = "tag:yaml.org,2002:timestamp";

/// Numbers with a fraction or an exponent, in base ten. Base 60 isn't supported.
static DECIMAL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$").expect("a pattern")
});

/// The formats of `allowedTimestampFormats`, with the values that need a check.
static DATE: LazyLock<Regex> = LazyLock::new(|| {
    let time = r"([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})([.,][0-9]+)?";
    let zone = "(Z|[-+][0-9]{2}:[0-9]{2})";
    Regex::new(&format!(
        "^([0-9]{{4}})-([0-9]{{1,2}})-([0-9]{{1,2}})(?:[Tt]{time}{zone}| {time})?$"
    ))
    .expect("a pattern")
});

/// The value of a scalar.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer beyond `i64`.
    Uint(u64),
    Float(f64),
    /// A date or a time, which is used as a string.
    Timestamp,
    String,
}

impl Scalar {
    /// The tag, in its short form.
    fn short_tag(&self) -> &'static str {
        match self {
            Self::Null => "!!null",
            Self::Bool(_) => "!!bool",
            Self::Int(_) | Self::Uint(_) => "!!int",
            Self::Float(_) => "!!float",
            Self::Timestamp => "!!timestamp",
            Self::String => "!!str",
        }
    }
}

/// Returns what a plain scalar without a tag stands for.
pub(super) fn resolve(text: &str) -> Scalar {
    guess(text, true)
}

/// Returns the value of a scalar with a tag. `text` is replaced by what a `!!binary` encodes.
///
/// # Errors
///
/// The text can't have the type of its tag.
pub(super) fn resolve_tagged(tag: &str, text: &mut String) -> Result<Scalar, YamlError> {
    match short(tag).as_str() {
        "!!str" => return Ok(Scalar::String),
        "!!binary" => {
            *text = decode_binary(text)?;
            return Ok(Scalar::String);
        }
        "!!bool" | "!!int" | "!!float" | "!!null" | "!!timestamp" => {}
        // Tags that Go doesn't know say nothing about the value.
        _ => return Ok(Scalar::String),
    }

    let found = guess(text, tag == TIMESTAMP);
    match found {
        #[expect(clippy::cast_precision_loss, reason = "Go converts the same way")]
        Scalar::Int(int) if tag == FLOAT => Ok(Scalar::Float(int as f64)),
        found if found.short_tag() == short(tag) => Ok(found),
        found => Err(YamlError(format!(
            "yaml: cannot decode {} `{text}` as a {}",
            found.short_tag(),
            short(tag)
        ))),
    }
}

fn short(tag: &str) -> String {
    match tag.strip_prefix("tag:yaml.org,2002:") {
        Some(name) => format!("!!{name}"),
        None => tag.to_owned(),
    }
}

/// Guesses the type of a text. Only texts that begin as values of a type do are looked at.
fn guess(text: &str, may_be_timestamp: bool) -> Scalar {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Scalar::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Scalar::Bool(false);
        }
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        ".nan" | ".NaN" | ".NAN" => return Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Scalar::Float(f64::INFINITY);
        }
        "-.inf" | "-.Inf" | "-.INF" => return Scalar::Float(f64::NEG_INFINITY),
        _ => {}
    }

    match text.as_bytes()[0] {
        b'.' => decimal(&without_separators(text)).map_or(Scalar::String, Scalar::Float),
        b'+' | b'-' | b'0'..=b'9' => {
            if may_be_timestamp && is_timestamp(text) {
                return Scalar::Timestamp;
            }
            number(&text.replace('_', "")).unwrap_or(Scalar::String)
        }
        _ => Scalar::String,
    }
}

fn number(text: &str) -> Option<Scalar> {
    if let Some(int) = golang::parse_int(text) {
        return Some(Scalar::Int(int));
    }
    if let Some(uint) = golang::parse_uint(text) {
        return Some(Scalar::Uint(uint));
    }
    if let Some(float) = decimal(text) {
        return Some(Scalar::Float(float));
    }

    // A sign may also come after the prefix.
    let binary = match text.strip_prefix('-') {
        Some(rest) => format!("-{}", rest.strip_prefix("0b")?),
        None => text.strip_prefix("0b")?.to_owned(),
    };
    let int = i64::from_str_radix(&binary, 2).ok()?;
    Some(Scalar::Int(int))
}

/// Removes the underscores between digits, if there are no others. Go allows them in floats.
fn without_separators(text: &str) -> String {
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut separators = text.match_indices('_').map(|(at, _)| at);

    if separators.all(|at| is_digit(at - 1) && is_digit(at + 1)) {
        text.replace('_', "")
    } else {
        text.to_owned()
    }
}

/// Parses a decimal number. One that is too large is a string.
fn decimal(text: &str) -> Option<f64> {
    let float: f64 = DECIMAL.is_match(text).then(|| text.parse().ok())??;
    float.is_finite().then_some(float)
}

fn is_timestamp(text: &str) -> bool {
    let Some(found) = DATE.captures(text) else {
        return false;
    };
    let value = |at: usize| {
        found
            .get(at)
            .and_then(|part| part.as_str().parse::<i8>().ok())
    };

    let year = found[1].parse().unwrap_or_default();
    let date = Date::new(year, value(2).unwrap_or(0), value(3).unwrap_or(0));
    let is_in_day = |hour: usize| {
        value(hour).is_none_or(|hour| hour < 24)
            && value(hour + 1).is_none_or(|minute| minute < 60)
            && value(hour + 2).is_none_or(|second| second < 60)
    };

    date.is_ok() && is_in_day(4) && is_in_day(9)
}

fn decode_binary(text: &str) -> Result<String, YamlError> {
    let engine = GeneralPurpose::new(
        &alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
    );
    let packed: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();

    engine
        .decode(packed)
        .map(golang::string)
        .map_err(|_| YamlError("yaml: !!binary value contains invalid base64 data".to_owned()))
}
