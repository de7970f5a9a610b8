//! Field selectors: `metadata.name=web,status.phase!=Running`.

use crate::golang::quote;

/// A term of a field selector.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    field: String,
    value: String,
    negated: bool,
}

/// A field selector. The empty one selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

impl FieldSelector {
    /// Parses a selector.
    ///
    /// # Errors
    ///
    /// The message of the API server's parser.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut terms = Vec::new();
        for part in split_terms(text)
            .into_iter()
            .filter(|part| !part.is_empty())
        {
            let (field, operator, value) = split_term(part)
                .ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{part}'"))?;
            let value =
                unescape(value).map_err(|error| format!("invalid field selector: {error}"))?;
            terms.push(Term {
                field: field.to_owned(),
                value,
                negated: operator == "!=",
            });
        }
        Ok(Self { terms })
    }

    /// Reports whether everything is selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Returns the fields that the selector names.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().map(|term| term.field.as_str())
    }

    /// Returns the name that selected objects have, when the selector requires one.
    #[must_use]
    pub fn required_name(&self) -> Option<&str> {
        self.terms
            .iter()
            .find(|term| term.field == "metadata.name" && !term.negated)
            .map(|term| term.value.as_str())
    }

    /// Reports whether an object with these fields is selected.
    pub fn matches<'a>(&self, field: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.terms
            .iter()
            .all(|term| (field(&term.field).unwrap_or_default() == term.value) != term.negated)
    }
}

/// Returns the message for a field by which ConfigMaps and most built-in kinds cannot be selected.
#[must_use]
pub fn unknown_field(field: &str) -> String {
    format!(
        "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        quote(field)
    )
}

/// Splits a selector at commas that are not escaped.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (index, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

/// Splits a term at its first operator.
fn split_term(text: &str) -> Option<(&str, &str, &str)> {
    (0..text.len())
        .filter(|index| text.is_char_boundary(*index))
        .find_map(|index| {
            let rest = &text[index..];
            let operator = ["!=", "==", "="]
                .into_iter()
                .find(|operator| rest.starts_with(operator))?;
            Some((&text[..index], operator, &rest[operator.len()..]))
        })
}

/// Removes the escapes of a value.
fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => out.push(escaped),
                Some(other) => return Err(format!("invalid escape sequence: \\{other}")),
                None => return Err("invalid escape sequence: \\".into()),
            },
            ',' | '=' => {
                // The API server prints the number of the character.
                return Err(format!(
                    "unescaped character in value: {}",
                    u32::from(character)
                ));
            }
            other => out.push(other),
        }
    }
    Ok(out)
}
