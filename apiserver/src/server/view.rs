//! The form in which a client sees the objects of a resource.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    negotiate::{Accepted, Form},
    resource::Resource,
};
use crate::{apimachinery::status::Status, store::StoredObject};

/// A resource, and the form that the client wants.
#[derive(Clone)]
pub(super) struct View {
    pub resource: Arc<Resource>,
    pub accepted: Accepted,
    /// The parameter `includeObject`, of tables.
    pub include_object: String,
    pub now: Timestamp,
}

impl View {
    /// Returns a stored object as a tree in the version of the request, without `kind` and
    /// `apiVersion`.
    ///
    /// # Errors
    ///
    /// 500 when the stored bytes are not JSON.
    pub fn open(&self, object: &StoredObject) -> Result<Value, Status> {
        let mut value = object.to_value().map_err(Status::internal)?;
        if !self.reads_as_stored(object) {
            self.resource.strategy.convert_from_stored(&mut value)?;
        }
        Ok(value)
    }

    /// Sets `kind` and `apiVersion` of an object.
    pub fn add_type(&self, object: &mut Value) {
        object["kind"] = self.resource.names.kind.as_str().into();
        object["apiVersion"] = self.resource.api_version().into();
    }

    /// Reports whether stored bytes are what the client wants.
    pub fn takes_stored_bytes(&self, object: &StoredObject) -> bool {
        self.accepted.form == Form::Object && self.reads_as_stored(object)
    }

    fn reads_as_stored(&self, object: &StoredObject) -> bool {
        self.resource.strategy.reads_as_stored(object.revision())
    }
}
