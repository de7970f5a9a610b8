//! Errors as people read them.

use anyhow::Error;
use operetta_api::reasons::CodedError;

use crate::terminal;

/// Prints an error to stderr in one line, which ends with its code if it has one.
pub fn print_error(error: &Error) {
    terminal::note(format_args!("error: {}", describe_with_code(error)));
}

/// Describes an error with its code, if it has one.
pub fn describe_with_code(error: &Error) -> String {
    let text = describe(error);
    match error.downcast_ref::<CodedError>() {
        Some(coded) => format!("{text} ({})", coded.reason),
        None => text,
    }
}

/// Describes an error with its causes, each once: kube's errors repeat their cause in their own
/// text.
pub fn describe(error: &Error) -> String {
    let mut text = String::new();
    for cause in error
        .chain()
        .map(ToString::to_string)
        .filter(|cause| !cause.is_empty())
    {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn cause_that_is_repeated_is_described_once() {
        let error = anyhow!("no such file")
            .context("failed to read a: no such file")
            .context("failed to start");
        assert_eq!(
            describe(&error),
            "failed to start: failed to read a: no such file"
        );
        assert_eq!(
            describe(&anyhow!("refused").context("failed to connect")),
            "failed to connect: refused"
        );
    }
}
