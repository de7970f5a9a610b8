//! The types of scalars, as
//! <https://github.com/yaml/go-yaml/blob/v2.4.3/resolve.go> decides them.

use base64::{
    Engine, alphabet,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};

use super::YamlError;
use crate::{parse_int, parse_uint};

pub(super) const MERGE: &str = "tag:yaml.org,2002:merge";
/// The beginning of the tags that have a meaning.
const PREFIX: &str = "tag:yaml.org,2002:";

/// The value of a scalar.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer beyond `i64`.
    Uint(u64),
    Float(f64),
    /// The bytes of a `!!binary`.
    Binary(Vec<u8>),
    /// A date or a time, which is used as a string.
    Timestamp,
    String,
}

impl Scalar {
    /// The tag without its prefix.
    fn tag(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Int(_) | Self::Uint(_) => "int",
            Self::Float(_) => "float",
            Self::Binary(_) => "binary",
            Self::Timestamp => "timestamp",
            Self::String => "str",
        }
    }
}

/// Returns what a plain scalar without a tag stands for.
pub(super) fn resolve(text: &str) -> Scalar {
    guess(text, true)
}

/// Returns the value of a scalar with a tag.
///
/// # Errors
///
/// The text can't have the type of its tag.
pub(super) fn resolve_tagged(tag: &str, text: &str) -> Result<Scalar, YamlError> {
    let known = tag.strip_prefix(PREFIX).unwrap_or_default();
    match known {
        "binary" => return decode_binary(text),
        "bool" | "int" | "float" | "null" | "timestamp" => {}
        // Tags that Go doesn't know say nothing about the value.
        _ => return Ok(Scalar::String),
    }

    let found = guess(text, known == "timestamp");
    match found {
        #[expect(clippy::cast_precision_loss, reason = "Go converts the same way")]
        Scalar::Int(int) if known == "float" => Ok(Scalar::Float(int as f64)),
        found if found.tag() == known => Ok(found),
        found => Err(YamlError::new(&format!(
            "cannot decode !!{} `{text}` as a !!{known}",
            found.tag()
        ))),
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
    if let Some(int) = parse_int(text) {
        return Some(Scalar::Int(int));
    }
    if let Some(uint) = parse_uint(text) {
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

/// Parses a number with a fraction or an exponent, in base ten. One that is too large is a string.
/// Base 60 isn't supported.
fn decimal(text: &str) -> Option<f64> {
    // Rust also takes words such as `inf`.
    let is_decimal = text.contains(|c: char| c.is_ascii_digit())
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'+' | b'-' | b'e' | b'E'));
    let float: f64 = is_decimal.then(|| text.parse().ok())??;
    float.is_finite().then_some(float)
}

/// Reports whether a text is a date, or a date and a time, in one of the formats of
/// `allowedTimestampFormats`.
fn is_timestamp(text: &str) -> bool {
    let mut rest = Digits(text);
    rest.skip_date().is_some()
        && (rest.0.is_empty() || rest.skip_time().is_some() && rest.0.is_empty())
}

/// The rest of a date or time.
struct Digits<'t>(&'t str);

impl Digits<'_> {
    fn skip_date(&mut self) -> Option<()> {
        let year = self.number(4..=4)?;
        self.skip("-")?;
        let month = self.number(1..=2)?;
        self.skip("-")?;
        let day = self.number(1..=2)?;
        (day >= 1 && day <= days(year, month)?).then_some(())
    }

    /// Skips a time: with a zone after a `T`, without one after spaces.
    fn skip_time(&mut self) -> Option<()> {
        let has_zone = self.skip("T").or_else(|| self.skip("t")).is_some();
        if !has_zone {
            self.skip(" ")?;
            self.0 = self.0.trim_start_matches(' ');
        }

        self.below(24)?;
        self.skip(":")?;
        self.below(60)?;
        self.skip(":")?;
        self.below(60)?;
        self.skip_fraction();
        if has_zone { self.skip_zone() } else { Some(()) }
    }

    /// Reads a number of so many digits.
    fn number(&mut self, digits: std::ops::RangeInclusive<usize>) -> Option<u32> {
        let all = self.0.bytes().take_while(u8::is_ascii_digit).count();
        let count = all.min(*digits.end());
        if count < *digits.start() {
            return None;
        }
        let (number, rest) = self.0.split_at(count);
        self.0 = rest;
        number.parse().ok()
    }

    /// Reads a number of one or two digits below a limit.
    fn below(&mut self, limit: u32) -> Option<u32> {
        self.number(1..=2).filter(|number| *number < limit)
    }

    fn skip(&mut self, text: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(text)?;
        Some(())
    }

    fn skip_fraction(&mut self) {
        if let Some(rest) = self.0.strip_prefix(['.', ','])
            && rest.starts_with(|c: char| c.is_ascii_digit())
        {
            self.0 = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        }
    }

    /// Skips `Z` or an offset. People write offsets of 24 hours and 60 minutes, which Go takes.
    fn skip_zone(&mut self) -> Option<()> {
        if self.skip("Z").is_some() {
            return Some(());
        }
        self.skip("+").or_else(|| self.skip("-"))?;
        let hours = self.number(2..=2)?;
        self.skip(":")?;
        let minutes = self.number(2..=2)?;
        (hours <= 24 && minutes <= 60).then_some(())
    }
}

/// The number of days in a month, counted from one.
fn days(year: u32, month: u32) -> Option<u32> {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if is_leap => Some(29),
        2 => Some(28),
        4 | 6 | 9 | 11 => Some(30),
        1..=12 => Some(31),
        _ => None,
    }
}

fn decode_binary(text: &str) -> Result<Scalar, YamlError> {
    let engine = GeneralPurpose::new(
        &alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
    );
    let packed: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();

    engine
        .decode(packed)
        .map(Scalar::Binary)
        .map_err(|_| YamlError::new("!!binary value contains invalid base64 data"))
}
