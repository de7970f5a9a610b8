//! A problem of a Plugin, as its conditions and Events show it.

use operetta_api::reasons::Reason;
use operetta_core::remedy::{Advice, Remedy};

/// The longest message, in bytes.
const MAX_MESSAGE: usize = 1024;

/// A problem of a Plugin: a code for machines, one sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The reason, as in a condition.
    pub reason: Reason,
    /// The message: one sentence on one line.
    pub message: String,
    /// The commands in the message.
    pub remedies: Vec<Remedy>,
}

impl Problem {
    /// Creates a problem. Line breaks become spaces, control characters are replaced, and the
    /// message is cut at 1 KiB.
    pub fn new(reason: Reason, message: impl Into<Advice>) -> Self {
        let Advice { text, remedies } = message.into();
        let mut message: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if message.contains(char::is_control) {
            message = message.replace(char::is_control, "\u{fffd}");
        }
        if message.len() > MAX_MESSAGE {
            message.truncate(message.floor_char_boundary(MAX_MESSAGE));
            message.push('…');
        }

        Self {
            reason,
            message,
            remedies,
        }
    }

    /// Returns the problem with `text` appended to its message.
    #[must_use]
    pub fn and(&self, text: &str) -> Self {
        Self::new(self.reason, self.advice().and(text))
    }

    /// Returns the message with its remedies.
    pub fn advice(&self) -> Advice {
        Advice {
            text: self.message.clone(),
            remedies: self.remedies.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use operetta_api::reasons;

    use super::*;

    #[test]
    fn message_is_one_bounded_line() {
        assert_eq!(
            Problem::new(reasons::FORBIDDEN, "a\n  b\tc").message,
            "a b c"
        );
        assert!(
            Problem::new(reasons::FORBIDDEN, "é".repeat(2000))
                .message
                .len()
                < 1030
        );
    }
}
