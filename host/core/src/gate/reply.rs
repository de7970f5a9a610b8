//! The results of operations.

use std::sync::Arc;

use crate::object::Object;

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Each object's JSON, whole or projected.
    pub items: Vec<Item>,
    /// The collection's resourceVersion.
    pub resource_version: String,
    /// None on the last page.
    pub continue_token: Option<String>,
}

/// One object of a page: shared with the cache when whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// The whole object.
    Whole(Arc<Object>),
    /// Only the fields asked for, as JSON.
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
    /// The object as the API server stored it, or would have in a dry run.
    Stored(Arc<Object>),
    /// The cached object of an update or a patch that was not sent because it would have changed nothing.
    Unchanged(Arc<Object>),
}

impl Written {
    /// Returns the object, which the API server answered with or would have.
    pub fn into_object(self) -> Arc<Object> {
        match self {
            Self::Stored(object) | Self::Unchanged(object) => object,
        }
    }
}
