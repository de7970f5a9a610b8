//! The stable codes of what can go wrong, each with its cause and its cure.
//!
//! A code is the reason of a Plugin's condition or of an Event, the name of a readiness check, or
//! stands in parentheses at the end of a command's error. Scripts match on codes, so they do not
//! change. `operetta explain CODE` prints an entry, and docs/reference/reasons.md lists all of
//! them.
//!
//! ```
//! use operetta_api::reasons;
//!
//! let reason = reasons::find("consentmissing").expect("a code, in any case");
//! assert_eq!(reason, reasons::CONSENT_MISSING);
//! assert_eq!(reason.as_str(), "ConsentMissing");
//! assert!(reason.cure().contains("kubectl annotate serviceaccount"));
//! ```

mod area;
mod coded_error;

use std::{
    fmt,
    hash::{Hash, Hasher},
};

pub use area::Area;
pub use coded_error::CodedError;

/// Declares the reasons of one area: each constant's comment is the cause, the text after its code
/// the cure.
macro_rules! reasons {
    ($area:ident: $($(#[doc = $cause:literal])+ $name:ident = $code:literal, $cure:literal;)+) => {
        use super::{Area, Explanation, Reason};

        $($(#[doc = $cause])+ pub const $name: Reason = Reason(&Explanation {
            code: $code,
            area: Area::$area,
            cause: concat!($($cause),+),
            cure: $cure,
        });)+

        /// The reasons of this area.
        pub(super) const ALL: &[Reason] = &[$($name),+];
    };
}

mod commands;
mod component;
mod configuration;
mod consent;
mod drop_in;
mod host;
mod readiness;
mod reconcile;
mod source;
mod state;
mod watches;

pub use commands::*;
pub use component::*;
pub use configuration::*;
pub use consent::*;
pub use drop_in::*;
pub use host::*;
pub use readiness::*;
pub use reconcile::*;
pub use source::*;
pub use state::*;
pub use watches::*;

/// A stable code with its cause and its cure. Equal to another one if the codes are equal.
#[derive(Clone, Copy)]
pub struct Reason(&'static Explanation);

/// The entry of one code.
struct Explanation {
    code: &'static str,
    area: Area,
    /// Begins with a space, as each line of a comment does.
    cause: &'static str,
    /// Empty if there is nothing to cure.
    cure: &'static str,
}

impl Reason {
    /// Returns the code.
    pub const fn as_str(self) -> &'static str {
        self.0.code
    }

    /// Returns the subject of the code, which decides where it is shown.
    pub fn area(self) -> Area {
        self.0.area
    }

    /// Returns the cause, in Markdown.
    pub fn cause(self) -> &'static str {
        self.0.cause.trim_start()
    }

    /// Returns the cure, in Markdown; empty if nothing is wrong.
    pub fn cure(self) -> &'static str {
        self.0.cure
    }

    /// Makes an error with this code.
    pub fn error(self, message: impl Into<String>) -> CodedError {
        CodedError {
            reason: self,
            message: message.into(),
        }
    }
}

/// Returns all codes, by area.
#[allow(
    unused_qualifications,
    reason = "each area has an ALL, and the glob imports bring one of them into scope"
)]
pub fn all() -> impl Iterator<Item = Reason> {
    let areas = [
        state::ALL,
        consent::ALL,
        source::ALL,
        component::ALL,
        watches::ALL,
        configuration::ALL,
        drop_in::ALL,
        reconcile::ALL,
        readiness::ALL,
        host::ALL,
        commands::ALL,
    ];
    areas.into_iter().flatten().copied()
}

/// Returns the reason with this code, in upper or lower case.
pub fn find(code: &str) -> Option<Reason> {
    all().find(|reason| reason.as_str().eq_ignore_ascii_case(code))
}

impl PartialEq for Reason {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Reason {}

impl PartialEq<&str> for Reason {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl Hash for Reason {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl From<Reason> for String {
    fn from(reason: Reason) -> Self {
        reason.as_str().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn codes_are_unique_words() {
        let codes: HashSet<_> = all()
            .map(|reason| reason.as_str().to_ascii_lowercase())
            .collect();
        assert_eq!(codes.len(), all().count());

        for reason in all() {
            let code = reason.as_str();
            let is_word = match reason.area() {
                Area::Readiness => code
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'-'),
                _ => {
                    code.starts_with(|first: char| first.is_ascii_uppercase())
                        && code.bytes().all(|byte| byte.is_ascii_alphanumeric())
                }
            };

            assert!(is_word, "{code}");
        }
    }

    #[test]
    fn each_code_has_cause_and_cure_in_sentences() {
        for reason in all() {
            let needs_cure = reason.area() != Area::State;
            assert_eq!(!reason.cure().is_empty(), needs_cure, "{reason}");
            for text in [reason.cause(), reason.cure()]
                .into_iter()
                .filter(|text| !text.is_empty())
            {
                assert!(text.ends_with('.'), "{reason}: {text}");
                assert!(
                    !text.contains("  ") && !text.contains('\n'),
                    "{reason}: {text}"
                );
            }
        }
    }
}
