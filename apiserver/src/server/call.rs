//! One request for a resource, on its way through the verbs.

use std::{cell::OnceCell, sync::Arc};

use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use serde_json::Value;

use super::{
    hooks::FieldWrite,
    path::ResourcePath,
    query::{Query, WriteOptions},
    state::State,
    view::View,
};
use crate::{
    admission::request::{AdmissionRequest, Endpoint, Operation},
    apimachinery::{attributes::Attributes, status::Status},
    apply::manager::manager_of_user_agent,
    store::{Draft, GroupResource, ObjectKey, StoreError, StoredObject},
};

/// One request.
pub(super) struct Call<'a> {
    pub state: &'a Arc<State>,
    pub view: View,
    pub path: &'a ResourcePath,
    pub query: &'a Query,
    pub headers: &'a HeaderMap,
    /// The manager of fields of a client that does not name one.
    pub agent: String,
    pub attributes: &'a Attributes,
    /// The resource for admission, and the same in other versions.
    pub endpoints: OnceCell<(Endpoint, Vec<Endpoint>)>,
    pub body: &'a [u8],
    /// The warnings that the response carries.
    pub warnings: Mutex<Vec<String>>,
}

/// The answer to a request.
pub(super) enum Answer {
    /// A stored object.
    Stored(u16, Arc<StoredObject>),
    /// An object without `kind` and `apiVersion`, in the version of the request.
    Object(u16, Value),
    /// The scale of an object.
    Scale(Value),
    /// Any other object, as it is.
    Plain(u16, Value),
}

impl Call<'_> {
    /// Returns the name of the resource, as errors have it.
    pub fn group_resource(&self) -> GroupResource {
        self.view.resource.group_resource()
    }

    /// Returns the resource under which objects are stored.
    pub fn storage(&self) -> GroupResource {
        self.view.resource.storage()
    }

    /// Returns the key of an object in the namespace of the request.
    pub fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::new(self.namespace(), name)
    }

    /// Returns the namespace of the request, when the resource has namespaces.
    pub fn namespace(&self) -> Option<&str> {
        self.path
            .namespace
            .as_deref()
            .filter(|_| self.view.resource.namespaced)
    }

    /// Returns the name of the request.
    ///
    /// # Errors
    ///
    /// 400 without one.
    pub fn name(&self) -> Result<&str, Status> {
        self.path
            .name
            .as_deref()
            .ok_or_else(|| Status::bad_request("name must be provided"))
    }

    /// Checks that the user may create the object, which an update or an apply is about to do.
    ///
    /// # Errors
    ///
    /// 403.
    pub fn authorize_create(&self) -> Result<(), Status> {
        let attributes = Attributes {
            verb: "create".to_owned(),
            ..self.attributes.clone()
        };
        self.state.access.authorize(&attributes)
    }

    /// Returns an object of the store.
    ///
    /// # Errors
    ///
    /// 404 when there is none.
    pub fn find(&self, name: &str) -> Result<Arc<StoredObject>, Status> {
        let found = self.state.store.get(&self.storage(), &self.key(name));
        found.ok_or_else(|| Status::not_found(&self.group_resource(), name))
    }

    /// Returns a stored object as a tree in the version of the request, without `kind` and
    /// `apiVersion`.
    ///
    /// # Errors
    ///
    /// 500 when the stored bytes are not JSON.
    pub fn open(&self, object: &StoredObject) -> Result<Value, Status> {
        self.view.open(object)
    }

    /// Returns an object in the form in which it is stored.
    ///
    /// # Errors
    ///
    /// As `Strategy::convert_to_stored`.
    pub fn draft(&self, object: &Value) -> Result<Draft, Status> {
        let strategy = &self.view.resource.strategy;
        let fields = strategy.fields(object);
        let draft = if strategy.is_stored_version() {
            Draft::from_object(object)
        } else {
            let mut stored = object.clone();
            strategy.convert_to_stored(&mut stored)?;
            Draft::from_object(&stored)
        };

        Ok(draft.with_fields(fields))
    }

    /// Adds a warning to the response, unless it has it already.
    pub fn warn(&self, warning: impl Into<String>) {
        let (warning, mut warnings) = (warning.into(), self.warnings.lock());
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    /// Returns a write as field management sees it.
    pub fn field_write<'b>(&'b self, options: &'b WriteOptions) -> FieldWrite<'b> {
        FieldWrite {
            resource: &self.view.resource,
            subresource: &self.path.subresource,
            manager: self.manager(&options.field_manager),
            now: self.view.now,
            force: options.force.unwrap_or_default(),
            is_scale: false,
        }
    }

    /// Returns the manager of the fields: the option, or the one of the client.
    pub fn manager<'b>(&'b self, option: &'b str) -> &'b str {
        if option.is_empty() {
            &self.agent
        } else {
            option
        }
    }

    /// Returns a write as admission sees it, without its object. The old one has its type.
    pub fn admission_request<'b>(
        &'b self,
        operation: Operation,
        old: Option<&'b Value>,
        options: &'b Value,
    ) -> AdmissionRequest<'b> {
        let endpoints = || self.state.resources.endpoints(&self.view.resource);
        let (endpoint, equivalents) = self.endpoints.get_or_init(endpoints);

        let Attributes {
            name,
            namespace,
            subresource,
            user,
            ..
        } = self.attributes;

        AdmissionRequest {
            operation,
            endpoint,
            equivalents,
            subresource,
            namespace: if endpoint.is_namespace() {
                name
            } else {
                namespace
            },
            name,
            user,
            object: None,
            old,
            options,
        }
    }

    /// Lets admission change an object. It sees `kind` and `apiVersion`.
    ///
    /// # Errors
    ///
    /// The refusal of an admission.
    pub fn mutate(&self, request: &AdmissionRequest<'_>, object: &mut Value) -> Result<(), Status> {
        if self.state.admission.is_empty() {
            return Ok(());
        }

        self.add_type(object);
        for admission in &self.state.admission {
            admission.mutate(request, object)?;
        }

        remove_type(object);

        Ok(())
    }

    /// Lets admission refuse a write. It sees `kind` and `apiVersion`.
    ///
    /// # Errors
    ///
    /// The refusal of an admission.
    pub fn admit(
        &self,
        request: &AdmissionRequest<'_>,
        mut object: Option<&mut Value>,
    ) -> Result<(), Status> {
        if let Some(object) = &mut object {
            self.add_type(object);
        }
        let request = match &object {
            Some(object) => request.with_object(object),
            None => *request,
        };

        for admission in &self.state.admission {
            let mut warnings = Vec::new();
            let outcome = admission.validate(&request, &mut warnings);
            warnings.into_iter().for_each(|warning| self.warn(warning));
            outcome?;
        }

        if let Some(object) = object {
            remove_type(object);
        }
        Ok(())
    }

    /// Sets `kind` and `apiVersion` of an object.
    pub fn add_type(&self, object: &mut Value) {
        self.view.add_type(object);
    }

    /// Returns the error that the client gets for one of the store.
    pub fn store_error(&self, error: StoreError, name: &str) -> Status {
        let resource = self.group_resource();
        match error {
            StoreError::AlreadyExists => Status::already_exists(&resource, name),
            StoreError::NotFound => Status::not_found(&resource, name),
            StoreError::Conflict { .. } => Status::modified(&resource, name),
            StoreError::Compacted { requested, oldest } => {
                Status::too_old_revision(requested, oldest)
            }
            StoreError::FutureRevision { requested, current } => {
                Status::too_large_revision(requested, current)
            }
            StoreError::Log(error) => Status::internal(error),
        }
    }
}

/// Returns the field manager of a client that doesn't name one.
pub(super) fn agent(headers: &HeaderMap) -> String {
    let agent = headers
        .get(http::header::USER_AGENT)
        .map(HeaderValue::as_bytes)
        .unwrap_or_default();
    manager_of_user_agent(&String::from_utf8_lossy(agent))
}

/// Removes `kind` and `apiVersion` of an object.
pub(super) fn remove_type(object: &mut Value) {
    if let Some(members) = object.as_object_mut() {
        members.remove("kind");
        members.remove("apiVersion");
    }
}
