//! Validation of paths in volumes.

use super::super::ErrorList;

/// Checks that a path is relative and has no `..`.
pub(super) fn descending_path(target: &str, path: &str, errors: &mut ErrorList) {
    if target.starts_with('/') {
        errors.invalid(path, target, "must be a relative path");
    }
    if target.split('/').any(|part| part == "..") {
        errors.invalid(path, target, "must not contain '..'");
    }
}
