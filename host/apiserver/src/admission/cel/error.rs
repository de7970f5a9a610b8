//! Errors of evaluations.

use thiserror::Error;

/// An error of an evaluation, in the words of the reference interpreter.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EvalError {
    /// A field or key is absent.
    #[error("no such key: {0}")]
    NoSuchKey(String),
    /// An operator or function does not take values of these types.
    #[error("no such overload")]
    NoSuchOverload,
    /// Another error.
    #[error("{0}")]
    Message(String),
}

impl EvalError {
    pub(super) fn overflow() -> Self {
        Self::Message("integer overflow".to_owned())
    }
}
