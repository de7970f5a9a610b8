//! Validation of paths in volumes.

use super::super::errors::Errors;

/// Validates a relative path without `..`.
pub(super) fn descending_path(target: &str, path: &str, errors: &mut Errors) {
    if target.starts_with('/') {
        errors.invalid(path, target, "must be a relative path");
    }
    if target.split('/').any(|part| part == "..") {
        errors.invalid(path, target, "must not contain '..'");
    }
}
