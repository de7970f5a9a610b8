//! The error of reading and writing JSON. It is a single pointer, because every function of the
//! types returns it.

use std::any::type_name;
use std::fmt;

use serde::de::{Expected, Unexpected};

/// Why a text is not a value of a type, or a value is not JSON.
pub(crate) struct Fault(Box<Message>);

struct Message {
    text: String,
    /// The position in the text that was read, in bytes.
    at: Option<usize>,
}

impl Fault {
    #[cold]
    #[inline(never)]
    pub(super) fn new(text: String) -> Self {
        Self(Box::new(Message { text, at: None }))
    }

    #[cold]
    #[inline(never)]
    pub(super) fn text(text: &str) -> Self {
        Self::new(text.to_owned())
    }

    #[cold]
    #[inline(never)]
    fn mismatch(problem: &str, found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        // Not its `Display`, which would be the only code in a plugin that formats floats.
        let found = match found {
            Unexpected::Unit => "null".to_owned(),
            Unexpected::Bool(value) => format!("boolean `{value}`"),
            Unexpected::Unsigned(number) => format!("integer `{number}`"),
            Unexpected::Signed(number) => format!("integer `{number}`"),
            Unexpected::Float(number) => {
                format!("floating point `{}`", super::write::float(number))
            }
            Unexpected::Char(character) => format!("character `{character}`"),
            Unexpected::Str(text) => format!("string {text:?}"),
            Unexpected::Seq => "sequence".to_owned(),
            Unexpected::Map => "map".to_owned(),
            Unexpected::UnitVariant => "unit variant".to_owned(),
            Unexpected::Other(text) => text.to_owned(),
            _ => "another value".to_owned(),
        };

        Self::new(format!("{problem}: {found}, expected {expected}"))
    }

    /// Adds the position in the text.
    #[cold]
    #[inline(never)]
    pub(super) fn at(mut self, text: &str, at: usize) -> Self {
        let read = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
        let line = 1 + read.iter().filter(|byte| **byte == b'\n').count();
        let column = read.iter().rev().take_while(|byte| **byte != b'\n').count();

        self.0
            .text
            .push_str(&format!(" at line {line} column {column}"));
        self.0.at = Some(at);
        self
    }

    /// Returns the position that [`Self::at`] has added.
    pub(super) fn position(&self) -> Option<usize> {
        self.0.at
    }

    fn custom(message: impl fmt::Display) -> Self {
        // The code that formats jiff's message would be a tenth of a plugin.
        if same_type_name(&message) {
            return Self::text("not a time as in RFC 3339");
        }
        Self::new(message.to_string())
    }
}

#[inline(always)]
fn same_type_name<T>(_: &T) -> bool {
    type_name::<T>() == type_name::<k8s_openapi::jiff::Error>()
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl std::error::Error for Fault {}

impl serde::de::Error for Fault {
    #[inline]
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::custom(message)
    }

    #[cold]
    #[inline(never)]
    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::mismatch("invalid type", found, expected)
    }

    #[cold]
    #[inline(never)]
    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::mismatch("invalid value", found, expected)
    }

    #[cold]
    #[inline(never)]
    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        Self::new(format!("invalid length {length}, expected {expected}"))
    }

    #[cold]
    #[inline(never)]
    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::new(format!(
            "unknown variant `{variant}`, expected one of {}",
            names(expected)
        ))
    }

    #[cold]
    #[inline(never)]
    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::new(format!(
            "unknown field `{field}`, expected one of {}",
            names(expected)
        ))
    }

    #[cold]
    #[inline(never)]
    fn missing_field(field: &'static str) -> Self {
        Self::new(format!("missing field `{field}`"))
    }

    #[cold]
    #[inline(never)]
    fn duplicate_field(field: &'static str) -> Self {
        Self::new(format!("duplicate field `{field}`"))
    }
}

fn names(names: &[&str]) -> String {
    names
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

impl serde::ser::Error for Fault {
    #[inline]
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::custom(message)
    }
}
