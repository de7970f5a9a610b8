//! The error of a command or of a host's start, with its code.

use std::{error::Error, fmt};

use super::Reason;

/// An error with a code. Its text is the message alone: the command line adds the code at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodedError {
    /// The code.
    pub reason: Reason,
    /// The message, in lower case.
    pub message: String,
}

impl fmt::Display for CodedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for CodedError {}
