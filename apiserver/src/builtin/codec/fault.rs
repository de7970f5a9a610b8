//! Errors of decoding.

/// A decoding error that does not yet name its place in the object.
pub(crate) enum Fault {
    /// A value of an unexpected type.
    Type { value: String, of: String },
    /// A complete message.
    Message(String),
}
