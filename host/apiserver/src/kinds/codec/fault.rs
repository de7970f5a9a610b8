//! Errors of decoding.

/// An error before its place in the object is added.
pub(crate) enum Fault {
    /// A value of another type than expected.
    Type { value: String, of: String },
    /// A complete message.
    Message(String),
}
