//! Ports of a gate without API access, for `describe` and for mapping events.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{
    gate::{
        operation::{Delete, Get, List, Page, Write, Written, describe_call},
        raw_request::{RawRequest, RawResponse, Target},
    },
    object::Object,
    ports::{EventNote, EventSink, ObjectApi},
    status::{ApiError, ErrorKind},
};

/// An API that fails all calls with this message.
pub(super) struct OutOfReach(pub &'static str);

impl OutOfReach {
    fn refuse(&self, call: &str) -> ApiError {
        ApiError::new(
            ErrorKind::Forbidden,
            format!("{call} is not allowed {}", self.0),
        )
    }
}

#[async_trait]
impl ObjectApi for OutOfReach {
    async fn get(&self, get: Get) -> Result<Arc<Object>, ApiError> {
        Err(self.refuse(&describe_call(&get)))
    }

    async fn list(&self, list: List) -> Result<Page, ApiError> {
        Err(self.refuse(&describe_call(&list)))
    }

    async fn write(&self, write: Write) -> Result<Written, ApiError> {
        Err(self.refuse(&describe_call(&write)))
    }

    async fn delete(&self, delete: Delete) -> Result<(), ApiError> {
        Err(self.refuse(&describe_call(&delete)))
    }

    async fn raw(&self, request: RawRequest, _: Target) -> Result<RawResponse, ApiError> {
        Err(self.refuse(&request.to_string()))
    }
}

impl EventSink for OutOfReach {
    fn emit(&self, _: EventNote) {}
}
