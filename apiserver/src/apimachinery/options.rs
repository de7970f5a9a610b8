//! The options of requests, as far as kinds look at them.

use super::field::{FieldError, Path};

/// The treatment of unknown and duplicate fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// They are dropped.
    Ignore,
    /// They are dropped, and the client gets warnings.
    Warn,
    /// The request is refused.
    Strict,
}

/// Validates the name of a field manager, which may be empty.
pub fn validate_field_manager(name: &str, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();

    if name.len() > 128 {
        errors.push(FieldError::too_long(path, 128));
    }

    let mut characters = name.char_indices();
    if let Some((index, character)) = characters.find(|(_, character)| character.is_control()) {
        let code = u32::from(character);
        let detail = format!("invalid character U+{code:04X} (at position {index})");
        errors.push(FieldError::invalid(path, name, detail));
    }

    errors
}
