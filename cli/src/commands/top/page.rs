//! The pages above the table, and the prompt.

use std::collections::VecDeque;

use operetta_core::object::ObjectKey;

/// A page above the table.
#[derive(Clone, Debug, PartialEq)]
pub enum Page {
    /// The keys.
    Help,
    /// The details of a Plugin.
    Details(ObjectKey),
    /// An object as YAML; None until it is read.
    Document(ObjectKey, Option<Vec<String>>),
    /// The log of a Plugin.
    Log(ObjectKey, VecDeque<String>),
}

/// A page with the first line that is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Opening {
    /// The page.
    pub page: Page,
    /// The first line to draw; drawing clamps it.
    pub first: usize,
    /// True if the last line stays in view.
    pub follows: bool,
}

/// A text that the user types at the bottom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// A filter, which takes effect while it is typed.
    Filter(String),
    /// A kind, and a namespace if one follows.
    Kind(String),
    /// A namespace.
    Namespace(String),
}
