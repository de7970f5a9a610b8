//! Path elements as keys of `FieldsV1`: `f:`, `k:`, `v:` and `i:`.

use serde_json::{Map, Value};

use super::element::PathElement;
use crate::apply::value::{json_text, string_text};

/// An invalid key of `FieldsV1`.
#[derive(Debug, thiserror::Error)]
pub enum ElementError {
    /// The key is too short to have a kind.
    #[error("key must be 2 characters long:")]
    TooShort,
    /// The second character is not a colon.
    #[error("missing colon: {0}")]
    MissingColon(String),
    /// The kind of element is unknown. Readers skip such keys: a later version may have written them.
    #[error("unknown path element type")]
    UnknownType,
    /// The value or key does not parse as JSON.
    #[error("{0}")]
    InvalidJson(#[from] serde_json::Error),
    /// The index is not a number.
    #[error("strconv.Atoi: parsing {0:?}: invalid syntax")]
    InvalidIndex(String),
}

impl PathElement {
    /// Encodes the element as a key of `FieldsV1`.
    pub fn to_key(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(fields) => {
                let fields: Vec<_> = fields
                    .iter()
                    .map(|(name, value)| format!("{}:{}", string_text(name), json_text(value)))
                    .collect();
                format!("k:{{{}}}", fields.join(","))
            }
            Self::Value(value) => format!("v:{}", json_text(value)),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// Decodes a key of `FieldsV1`.
    ///
    /// # Errors
    /// Returns why the key is no path element.
    pub fn from_key(key: &str) -> Result<Self, ElementError> {
        if key.len() < 2 {
            return Err(ElementError::TooShort);
        }
        if key.as_bytes()[1] != b':' {
            return Err(ElementError::MissingColon(key.into()));
        }

        let content = &key[2..];
        match key.as_bytes()[0] {
            b'f' => Ok(Self::field(content)),
            b'k' => Ok(Self::key(serde_json::from_str::<Map<String, Value>>(
                content,
            )?)),
            b'v' => Ok(Self::Value(first_value(content)?)),
            b'i' => content
                .parse()
                .map(Self::Index)
                .map_err(|_| ElementError::InvalidIndex(content.into())),
            _ => Err(ElementError::UnknownType),
        }
    }
}

/// Parses the first JSON value of a text. Like the API server, it ignores what follows.
fn first_value(text: &str) -> Result<Value, serde_json::Error> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter();
    values.next().unwrap_or_else(|| serde_json::from_str(text))
}
