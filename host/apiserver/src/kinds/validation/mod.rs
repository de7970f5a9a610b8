//! Validation of the built-in kinds, in the real server's order and words.

mod errors;
mod format;
mod metadata;
mod selector;

pub(super) use errors::Errors;

use serde_json::Value;

/// Validates a new object.
pub(super) fn create(api_version: &str, kind: &str, object: &Value) -> Errors {
    let mut errors = Errors::default();
    metadata::validate(api_version, kind, object, &mut errors);
    errors
}

/// Validates an update.
pub(super) fn update(
    api_version: &str,
    kind: &str,
    subresource: Option<&str>,
    old: &Value,
    new: &Value,
) -> Errors {
    let mut errors = Errors::default();
    metadata::validate_update(old, new, &mut errors);
    let _ = (api_version, kind, subresource);
    errors
}
