//! Why a reconcile did not work, and whether it is worth trying again.

use std::error::Error as StdError;
use std::fmt;

use crate::ApiError;

/// What a reconciler returns when it could not do its work.
///
/// `?` makes one of any error; such an error is retried with the rate limiter's delay. [`Error::terminal`] and
/// [`ResultExt::terminal`] make one that is reported but not retried until the object changes (controller-runtime's
/// `TerminalError`).
///
/// As with `anyhow::Error`, this type is not itself a `std::error::Error`.
pub struct Error {
    terminal: bool,
    /// What was being done, outermost first; each ends the message of the one before with `: `.
    context: String,
    source: Box<dyn StdError + Send + Sync>,
}

impl Error {
    /// An error with this message, to be retried.
    pub fn msg(message: impl fmt::Display) -> Self {
        Self { terminal: false, context: String::new(), source: Box::new(Message(message.to_string())) }
    }

    /// An error with this message that no retry can cure. It is reported; the object is reconciled again when it
    /// changes.
    pub fn terminal(message: impl fmt::Display) -> Self {
        Self { terminal: true, ..Self::msg(message) }
    }

    /// The same error, not to be retried.
    #[must_use]
    pub fn into_terminal(self) -> Self {
        Self { terminal: true, ..self }
    }

    /// The same error with `context: ` before its message.
    #[must_use]
    pub fn context(self, context: impl fmt::Display) -> Self {
        Self { context: format!("{context}: {}", self.context), ..self }
    }

    /// Whether the error is not to be retried.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// The API server's answer, if this error came from one.
    pub fn api(&self) -> Option<&ApiError> {
        self.downcast_ref()
    }

    /// The error that `?` made this one of, if it is an `E`.
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        self.source.downcast_ref()
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        Self { terminal: false, context: String::new(), source: Box::new(error) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.context, self.source)?;
        let mut cause = self.source.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}{}", if self.terminal { " (terminal)" } else { "" })
    }
}

#[derive(Debug)]
struct Message(String);

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for Message {}

/// Adds to errors on their way out.
pub trait ResultExt<T> {
    /// Says what was being done: `context: ` goes before the message.
    ///
    /// # Errors
    /// The error of `self`.
    fn context(self, context: impl fmt::Display) -> Result<T, Error>;

    /// Makes an error one that is not retried.
    ///
    /// # Errors
    /// The error of `self`.
    fn terminal(self) -> Result<T, Error>;
}

impl<T, E: Into<Error>> ResultExt<T> for Result<T, E> {
    fn context(self, context: impl fmt::Display) -> Result<T, Error> {
        self.map_err(|error| error.into().context(context))
    }

    fn terminal(self) -> Result<T, Error> {
        self.map_err(|error| error.into().into_terminal())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ApiErrorKind;

    fn parse(text: &str) -> Result<i32, Error> {
        Ok(text.parse()?)
    }

    #[test]
    fn any_error_becomes_one_that_is_retried() {
        let error = parse("x").expect_err("no number");
        assert!(!error.is_terminal());
        assert_eq!(error.to_string(), "invalid digit found in string");
        assert!(error.downcast_ref::<std::num::ParseIntError>().is_some());
    }

    #[test]
    fn context_is_said_first_and_terminal_survives_it() {
        let error = parse("x").context("the port").terminal().context("spec").expect_err("no number");
        assert_eq!(error.to_string(), "spec: the port: invalid digit found in string");
        assert_eq!(format!("{error:?}"), "spec: the port: invalid digit found in string (terminal)");
    }

    #[test]
    fn the_api_server_s_answer_can_be_had_back() {
        let error = Error::from(ApiError::new(ApiErrorKind::NotFound, "foos \"a\" not found")).context("get");
        assert!(error.api().is_some_and(ApiError::is_not_found));
        assert!(Error::msg("other").api().is_none());
    }
}
