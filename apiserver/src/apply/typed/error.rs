//! Errors of values that are not of their type.

use std::fmt;

use crate::apply::fieldpath::PathElement;

/// An error about a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationError {
    /// The path of the field; empty for the whole value.
    pub path: String,
    /// The message without the path.
    pub message: String,
}

impl fmt::Display for ValidationError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return formatter.write_str(&self.message);
        }
        write!(formatter, "{}: {}", self.path, self.message)
    }
}

/// All errors of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidationErrors(pub Vec<ValidationError>);

impl ValidationErrors {
    pub(super) fn one(message: impl Into<String>) -> Self {
        Self(vec![ValidationError {
            path: String::new(),
            message: message.into(),
        }])
    }

    /// Prefixes the path of each error with an element.
    pub(super) fn below(mut self, element: &PathElement) -> Self {
        if !self.0.is_empty() {
            let prefix = element.to_string();
            self.0
                .iter_mut()
                .for_each(|error| error.path.insert_str(0, &prefix));
        }
        self
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(super) fn check<T>(self, value: T) -> Result<T, Self> {
        if self.0.is_empty() {
            Ok(value)
        } else {
            Err(self)
        }
    }
}

impl fmt::Display for ValidationErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return only.fmt(formatter);
        }

        formatter.write_str("errors:")?;
        self.0
            .iter()
            .try_for_each(|error| write!(formatter, "\n  {error}"))
    }
}

impl std::error::Error for ValidationErrors {}
