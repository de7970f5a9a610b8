//! Results of operations.

use std::sync::Arc;

use crate::{
    gate::{raw_request::RawResponse, verb::Verb},
    object::Object,
    status::ApiError,
};

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The objects, complete or projected.
    pub items: Vec<Item>,
    /// The collection's resourceVersion.
    pub resource_version: String,
    /// None on the last page.
    pub continue_token: Option<String>,
}

/// One object of a page. Complete objects are shared with the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// The complete object.
    Whole(Arc<Object>),
    /// Only the requested fields, as JSON.
    Projected(Box<str>),
}

impl Item {
    /// The JSON text.
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
    /// The object as stored by the API server, or as it would be without the dry run.
    Stored(Arc<Object>),
    /// An update or a patch was not sent because it would have changed nothing: the cached object.
    Unchanged(Arc<Object>),
}

impl Written {
    /// The object as stored, or as cached if the write was not sent.
    pub fn into_object(self) -> Arc<Object> {
        match self {
            Self::Stored(object) | Self::Unchanged(object) => object,
        }
    }
}

/// The answer to a write, in the form its records read.
pub(crate) enum Answer<'a> {
    /// The object as stored by the API server, or as it would be without the dry run.
    Stored(&'a Object),
    /// Not sent, because it would have changed nothing.
    Unchanged,
    /// The object is deleted, or will be once its finalizers are gone.
    Deleted,
    /// The body of a response to a raw or a proxied request. It may be another object than the
    /// written one; empty if it was not read.
    Raw(&'a str),
    Failed {
        /// The HTTP status code.
        code: u16,
        /// The reason in the API server's Status; empty if it was not parsed.
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

    /// The answer to a raw write.
    pub fn of_raw(verb: Verb, result: &'a Result<RawResponse, ApiError>) -> Self {
        match result {
            Ok(response) => Self::of_response(verb, response.status, &response.body),
            Err(error) => Self::of_error(error),
        }
    }

    /// The answer to a raw or a proxied write that was answered. An empty body was not read.
    pub fn of_response(verb: Verb, status: u16, body: &'a str) -> Self {
        match verb {
            _ if status >= 400 => Self::Failed {
                code: status,
                reason: "",
            },
            Verb::Delete => Self::Deleted,
            _ => Self::Raw(body),
        }
    }

    /// The answer of a write that failed.
    pub fn of_error(error: &'a ApiError) -> Self {
        Self::Failed {
            code: error.status.code,
            reason: &error.status.reason,
        }
    }
}
