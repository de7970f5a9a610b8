//! Resources and subresources that something else than the store answers.

use jiff::Timestamp;
use serde_json::Value;

use crate::apimachinery::{attributes::Attributes, status::Status};

/// A resource or subresource that stores nothing, such as a review or `pods/eviction`.
pub trait Handler: Send + Sync {
    /// Answers a request with an HTTP status code and an object.
    ///
    /// # Errors
    ///
    /// The refusal that the client gets.
    fn handle(&self, request: &HandlerRequest<'_>) -> Result<(u16, Value), Status>;
}

/// A request to a [`Handler`].
pub struct HandlerRequest<'a> {
    /// The request.
    pub attributes: &'a Attributes,
    /// The parameters of the query.
    pub query: &'a [(String, String)],
    /// The body; `null` without one.
    pub body: Value,
    /// The manager of the fields.
    pub manager: &'a str,
    /// The time.
    pub now: Timestamp,
}
