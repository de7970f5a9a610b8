//! Conversion of objects between versions.

use crate::apply::typed::TypedValue;

/// An error of a conversion between versions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// The version no longer exists. What was managed in it is dropped.
    #[error("{0}")]
    MissingVersion(String),
    /// The conversion failed.
    #[error("{0}")]
    Failed(String),
}

/// Converts objects between the versions of their kind.
pub trait VersionConverter {
    /// Converts an object to a version.
    ///
    /// # Errors
    /// Returns an error if the version does not exist or the conversion fails.
    fn convert(&self, object: &TypedValue, api_version: &str) -> Result<TypedValue, ConvertError>;
}
