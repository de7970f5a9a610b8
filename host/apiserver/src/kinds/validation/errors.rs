//! A list of field errors under construction.

use serde_json::Value;

use crate::field::{ErrorKind, FieldError, Shown};

/// The errors found so far, in their order.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    list: Vec<FieldError>,
}

impl Errors {
    /// Returns the errors.
    pub(crate) fn into_list(self) -> Vec<FieldError> {
        self.list
    }

    /// Returns the number of errors.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    fn push(&mut self, kind: ErrorKind, field: &str, shown: Shown, detail: &str) {
        self.list.push(FieldError { kind, field: field.to_owned(), shown, detail: detail.to_owned() });
    }

    /// Adds the error for a value that a field cannot have.
    pub(crate) fn invalid(&mut self, field: &str, value: impl Into<Shown>, detail: &str) {
        self.push(ErrorKind::Invalid, field, value.into(), detail);
    }

    /// Adds an error for each message about a value.
    pub(crate) fn invalid_each(&mut self, field: &str, value: &str, messages: &[String]) {
        messages.iter().for_each(|message| self.invalid(field, value, message));
    }

    /// Adds the error for a missing value.
    pub(crate) fn required(&mut self, field: &str, detail: &str) {
        self.push(ErrorKind::Required, field, Shown::omitted(), detail);
    }

    /// Adds the error for a value that may not be set.
    pub(crate) fn forbidden(&mut self, field: &str, detail: &str) {
        self.push(ErrorKind::Forbidden, field, Shown::omitted(), detail);
    }

    /// Adds the error for a value that occurs twice.
    pub(crate) fn duplicate(&mut self, field: &str, value: impl Into<Shown>) {
        self.push(ErrorKind::Duplicate, field, value.into(), "");
    }

    /// Adds the error for a name of something that does not exist.
    pub(crate) fn not_found(&mut self, field: &str, value: impl Into<Shown>) {
        self.push(ErrorKind::NotFound, field, value.into(), "");
    }

    /// Adds the error for a text or list of too many bytes.
    pub(crate) fn too_long(&mut self, field: &str, limit: usize) {
        let detail = format!("may not be more than {limit} bytes");
        self.push(ErrorKind::TooLong, field, Shown::omitted(), &detail);
    }

    /// Adds the error for a value that is none of the allowed ones.
    pub(crate) fn not_supported(&mut self, field: &str, value: impl Into<Shown>, allowed: &[&str]) {
        let list: Vec<String> = allowed.iter().map(|value| format!("\"{value}\"")).collect();
        let detail = format!("supported values: {}", list.join(", "));
        self.push(ErrorKind::NotSupported, field, value.into(), &detail);
    }

    /// Adds the error for a text that is none of the allowed ones. Empty texts pass.
    pub(crate) fn one_of(&mut self, field: &str, value: &Value, allowed: &[&str]) {
        match value.as_str() {
            Some(text) if !text.is_empty() && !allowed.contains(&text) => self.not_supported(field, text, allowed),
            _ => {}
        }
    }

    /// Adds the error for a text that is none of the allowed ones, also for an empty one.
    pub(crate) fn required_one_of(&mut self, field: &str, value: &Value, allowed: &[&str]) {
        let text = value.as_str().unwrap_or_default();
        if !allowed.contains(&text) {
            self.not_supported(field, text, allowed);
        }
    }

    /// Adds the error for a number below zero.
    pub(crate) fn non_negative(&mut self, field: &str, value: &Value) {
        if let Some(number) = value.as_i64().filter(|number| *number < 0) {
            self.invalid(field, number, "must be greater than or equal to 0");
        }
    }

    /// Adds the error for a value that differs from an earlier one.
    pub(crate) fn immutable(&mut self, field: &str, old: &Value, new: &Value) {
        if old != new {
            self.invalid(field, new.clone(), "field is immutable");
        }
    }
}
