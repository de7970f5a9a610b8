//! Errors of reconciles.

use std::error::Error as StdError;
use std::fmt;

use crate::ApiError;

/// The error of a reconciler.
///
/// `?` converts any error into one that the host retries after the rate limiter's delay.
/// [`Error::terminal`] and [`ResultExt::terminal`] return one that is reported, and not retried
/// until the object changes (controller-runtime's `TerminalError`).
///
/// Like `anyhow::Error`, this type does not implement `std::error::Error`.
///
/// ```
/// use operetta_sdk::{Error, ResultExt};
///
/// fn port(text: &str) -> Result<u16, Error> {
///     text.parse::<u16>().context("port").terminal()
/// }
///
/// let error = port("x").unwrap_err();
/// assert_eq!(error.to_string(), "port: invalid digit found in string");
/// assert!(error.is_terminal());
/// ```
pub struct Error {
    terminal: bool,
    /// The contexts, outermost first, each followed by `: `.
    context: String,
    source: Box<dyn StdError + Send + Sync>,
}

impl Error {
    /// Returns an error with this message, which is retried.
    pub fn msg(message: impl fmt::Display) -> Self {
        Self {
            terminal: false,
            context: String::new(),
            source: Box::new(Message(message.to_string())),
        }
    }

    /// Returns an error with this message, which is reported and not retried. The object is
    /// reconciled again when it changes.
    pub fn terminal(message: impl fmt::Display) -> Self {
        Self {
            terminal: true,
            ..Self::msg(message)
        }
    }

    /// Makes the error terminal: it is not retried.
    #[must_use]
    pub fn into_terminal(self) -> Self {
        Self {
            terminal: true,
            ..self
        }
    }

    /// Puts `context: ` before the message.
    #[must_use]
    pub fn context(self, context: impl fmt::Display) -> Self {
        Self {
            context: format!("{context}: {}", self.context),
            ..self
        }
    }

    /// Reports whether the error is terminal: not retried.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Returns the API server's error, if this error was converted from one.
    pub fn api(&self) -> Option<&ApiError> {
        self.downcast_ref()
    }

    /// Returns the error that this error was converted from, if it is an `E`.
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        self.source.downcast_ref()
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        Self {
            terminal: false,
            context: String::new(),
            source: Box::new(error),
        }
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
        write!(
            f,
            "{self}{}",
            if self.terminal { " (terminal)" } else { "" }
        )
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

/// Adds context to the error of a result, or makes it terminal.
pub trait ResultExt<T> {
    /// Puts `context: ` before the error's message.
    ///
    /// # Errors
    /// Returns the error of `self`.
    fn context(self, context: impl fmt::Display) -> Result<T, Error>;

    /// Makes the error terminal: it is not retried.
    ///
    /// # Errors
    /// Returns the error of `self`.
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
    use crate::ErrorKind;

    fn parse(text: &str) -> Result<i32, Error> {
        Ok(text.parse()?)
    }

    #[test]
    fn converted_error_is_retried() {
        let error = parse("x").expect_err("no number");
        assert!(!error.is_terminal());
        assert_eq!(error.to_string(), "invalid digit found in string");
        assert!(error.downcast_ref::<std::num::ParseIntError>().is_some());
    }

    #[test]
    fn context_precedes_message_and_keeps_terminal() {
        let error = parse("x")
            .context("the port")
            .terminal()
            .context("spec")
            .expect_err("no number");
        assert_eq!(
            error.to_string(),
            "spec: the port: invalid digit found in string"
        );
        assert_eq!(
            format!("{error:?}"),
            "spec: the port: invalid digit found in string (terminal)"
        );
    }

    #[test]
    fn returns_api_error_through_context() {
        let error =
            Error::from(ApiError::new(ErrorKind::NotFound, "foos \"a\" not found")).context("get");
        assert!(error.api().is_some_and(ApiError::is_not_found));
        assert!(Error::msg("other").api().is_none());
    }
}
