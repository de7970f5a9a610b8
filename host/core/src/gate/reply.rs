//! The results of operations.

use std::sync::Arc;

use crate::{
    gate::{raw_request::RawResponse, verb::Verb},
    object::Object,
    status::ApiError,
};

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The objects, whole or projected.
    pub items: Vec<Item>,
    /// The collection's resourceVersion.
    pub resource_version: String,
    /// None on the last page.
    pub continue_token: Option<String>,
}

/// One object of a page. A whole object is shared with the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// The whole object.
    Whole(Arc<Object>),
    /// The requested fields as JSON.
    Projected(Box<str>),
}

impl Item {
    /// Returns the JSON text.
    pub fn json(&self) -> &str {
        match self {
            Self::Whole(object) => object.json(),
            Self::Projected(json) => json,
        }
    }
}

/// The result of a [`Write`](crate::gate::operation::Write).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// The object as the API server stored it, or would have in a dry run.
    Stored(Arc<Object>),
    /// The cached object of an update or a patch that was not sent because it would have changed
    /// nothing.
    Unchanged(Arc<Object>),
}

impl Written {
    /// Returns the object as stored, or as cached if the write was not sent.
    pub fn into_object(self) -> Arc<Object> {
        match self {
            Self::Stored(object) | Self::Unchanged(object) => object,
        }
    }
}

/// The answer to a write, as the write's records read it.
pub(crate) enum Answer<'a> {
    /// The object as the API server stored it, or would have in a dry run.
    Stored(&'a Object),
    /// The write was not sent, because it would have changed nothing.
    Unchanged,
    /// The object is deleted, or will be once its finalizers are removed.
    Deleted,
    /// The body of a response to a raw request, which need not be the object that was written.
    Raw(&'a str),
    /// The write failed.
    Failed {
        /// The HTTP status code.
        code: u16,
        /// The reason of the API server's Status; empty if it was not parsed.
        reason: &'a str,
    },
}

impl<'a> Answer<'a> {
    /// The answer to a create, an update or a patch.
    pub fn of_write(result: &'a Result<Written, ApiError>) -> Self {
        match result {
            Ok(Written::Stored(object)) => Self::Stored(object),
            Ok(Written::Unchanged(_)) => Self::Unchanged,
            Err(error) => Self::of_error(error),
        }
    }

    /// The answer to a deletion.
    pub fn of_delete(result: &'a Result<(), ApiError>) -> Self {
        match result {
            Ok(()) => Self::Deleted,
            Err(error) => Self::of_error(error),
        }
    }

    /// The answer to a raw request that writes.
    pub fn of_raw(verb: Verb, result: &'a Result<RawResponse, ApiError>) -> Self {
        match result {
            Ok(response) if response.status >= 400 => Self::Failed {
                code: response.status,
                reason: "",
            },
            Ok(_) if verb == Verb::Delete => Self::Deleted,
            Ok(response) => Self::Raw(&response.body),
            Err(error) => Self::of_error(error),
        }
    }

    fn of_error(error: &'a ApiError) -> Self {
        Self::Failed {
            code: error.status.code,
            reason: &error.status.reason,
        }
    }
}
