//! What a validator finds at a value, before it becomes errors of fields.

use crate::{
    apimachinery::field::{ErrorKind, FieldError, Path, Shown},
    golang,
};

/// A violation of a schema.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The path of the value, or none if the error names no field.
    name: Option<String>,
    kind: ErrorKind,
    shown: Shown,
    detail: String,
    /// The validator's own message, which tells equal violations.
    message: String,
}

impl Violation {
    /// Creates a violation with the parts of its error and the validator's message.
    pub fn new(path: &str, kind: ErrorKind, shown: Shown, detail: String, message: String) -> Self {
        Self {
            name: Some(path.to_owned()),
            kind,
            shown,
            detail,
            message,
        }
    }

    /// Creates a violation whose error has the validator's message.
    pub fn invalid(path: &str, shown: Shown, message: String) -> Self {
        Self::new(path, ErrorKind::Invalid, shown, message.clone(), message)
    }

    /// Creates a violation that names no field.
    pub fn unnamed(message: String) -> Self {
        let kind = ErrorKind::Invalid;
        let shown = Shown::text("");
        Self {
            name: None,
            kind,
            shown,
            detail: message.clone(),
            message,
        }
    }

    /// Creates a violation of `anyOf` and the like.
    pub fn of_schema(path: &str, rule: &str) -> Self {
        Self::unnamed(format!("{} {rule}", golang::quote(path)))
    }

    /// Creates a violation by a value of the wrong type or format.
    pub fn wrong_type(path: &str, expected: &str, found: &str) -> Self {
        let message = format!(
            "{path} in body must be of type {expected}: {}",
            golang::quote(found)
        );
        Self::new(
            path,
            ErrorKind::TypeInvalid,
            Shown::text(found),
            message.clone(),
            message,
        )
    }

    /// Creates a violation by a missing field.
    pub fn required(path: &str) -> Self {
        let message = format!("{path} in body is required");
        Self::new(
            path,
            ErrorKind::Required,
            Shown::omitted(),
            String::new(),
            message,
        )
    }

    /// Creates a violation by a string with too many characters.
    pub fn too_long(path: &str, max: i64) -> Self {
        let error = FieldError::too_long(Path::root(), max);
        let message = format!("{path} in body should be at most {max} chars long");
        Self::new(path, error.kind, error.shown, error.detail, message)
    }

    /// Creates a violation by a list or map with too many entries.
    pub fn too_many(path: &str, actual: usize, max: i64, entries: &str) -> Self {
        let error = FieldError::too_many(Path::root(), actual, max);
        let message = format!("{path} in body should have at most {max} {entries}");
        Self::new(path, error.kind, error.shown, error.detail, message)
    }

    fn into_error(self, base: &Path) -> FieldError {
        let path = match self.name.as_deref() {
            None | Some("" | ".") => base.clone(),
            Some(name) => base.child(name.strip_prefix('.').unwrap_or(name)),
        };
        FieldError {
            kind: self.kind,
            field: path.to_string(),
            shown: self.shown,
            detail: self.detail,
        }
    }
}

/// The result of validating a value.
#[derive(Debug, Default)]
pub struct Outcome {
    violations: Vec<Violation>,
    /// The number of checks that passed, which selects the best of several alternatives.
    pub matched: usize,
}

impl Outcome {
    /// Creates the outcome of a failed check.
    pub fn failure(violation: Violation) -> Self {
        Self {
            violations: vec![violation],
            matched: 0,
        }
    }

    /// Creates the outcome of a check that passed.
    pub fn passed() -> Self {
        Self {
            violations: Vec::new(),
            matched: 1,
        }
    }

    /// Reports whether there are no violations.
    pub fn is_valid(&self) -> bool {
        self.violations.is_empty()
    }

    /// Adds a violation, unless one with the same message is there.
    pub fn add(&mut self, violation: Violation) {
        if !self
            .violations
            .iter()
            .any(|other| other.message == violation.message)
        {
            self.violations.push(violation);
        }
    }

    /// Adds another outcome.
    pub fn merge(&mut self, other: Self) {
        self.matched += other.matched;
        other
            .violations
            .into_iter()
            .for_each(|violation| self.add(violation));
    }

    /// Adds the outcome of one step of a schema, which counts as a check that passed.
    pub fn merge_step(&mut self, other: Self) {
        self.merge(other);
        self.matched += 1;
    }

    /// Drops the violations.
    pub fn forget_errors(&mut self) {
        self.violations.clear();
    }

    /// Returns the errors, below a path.
    pub fn into_errors(self, base: &Path) -> Vec<FieldError> {
        self.violations
            .into_iter()
            .map(|violation| violation.into_error(base))
            .collect()
    }
}
