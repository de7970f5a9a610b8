//! The results of operations.

use std::sync::Arc;

use crate::object::Object;

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
    /// The cached object of an update or a patch that was not sent because it would have changed nothing.
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
