//! Evaluation of rules.

use serde_json::Value;

use crate::crd::field::{FieldError, Path};
use crate::crd::schema::Schema;

/// The compiled rules of a schema.
#[derive(Debug, Default)]
pub struct Rules {}

impl Rules {
    /// Compiles.
    pub fn compile(_schema: &Schema) -> Self {
        Self {}
    }
    /// Empty.
    pub fn is_empty(&self) -> bool {
        true
    }
    /// Check.
    pub fn check(&self, _object: &Value, _old: Option<&Value>) -> (Vec<FieldError>, Vec<String>) {
        (Vec::new(), Vec::new())
    }
}

/// Checks a default value against the rules of its schema.
pub fn check_default(_path: &Path, _default: &Value, _schema: &Schema, _is_resource: bool) -> Vec<FieldError> {
    Vec::new()
}
