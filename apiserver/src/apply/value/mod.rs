//! JSON values as structured-merge-diff sees them: their order, their equality and their text in
//! messages.

mod go_format;
mod json_text;
mod order;

pub use go_format::{display, go_syntax, go_type, go_value};

pub use crate::golang::{is_printable, quote};
pub use json_text::{json_text, string_text};
pub use order::{compare, equal};
