//! Writes, as admission and field management see them.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::resource::Resource;
use crate::{
    admission::request::AdmissionRequest, apimachinery::status::Status, authn::user::User,
};

/// The user of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requester {
    /// The user as which the request is made.
    pub user: User,
    /// The user that sends it, if it acts as another one.
    pub sender: Option<User>,
    /// The verb that allowed this, such as `impersonate:serviceaccount`; empty for unconstrained
    /// impersonation.
    pub constraint: &'static str,
}

/// Changes and refuses writes.
pub trait Admission: Send + Sync {
    /// Changes the object of a create or an update before it is validated. The request doesn't have
    /// it.
    ///
    /// # Errors
    ///
    /// The refusal that the client gets.
    fn mutate(&self, _request: &AdmissionRequest<'_>, _object: &mut Value) -> Result<(), Status> {
        Ok(())
    }

    /// Refuses a write, and adds warnings about it.
    ///
    /// # Errors
    ///
    /// The refusal that the client gets.
    fn validate(
        &self,
        _request: &AdmissionRequest<'_>,
        _warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        Ok(())
    }
}

impl<T: Admission + ?Sized> Admission for Arc<T> {
    fn mutate(&self, request: &AdmissionRequest<'_>, object: &mut Value) -> Result<(), Status> {
        (**self).mutate(request, object)
    }

    fn validate(
        &self,
        request: &AdmissionRequest<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        (**self).validate(request, warnings)
    }
}

/// A write, as field management sees it.
pub struct FieldWrite<'a> {
    /// The resource.
    pub resource: &'a Resource,
    /// The subresource, or `""`.
    pub subresource: &'a str,
    /// The manager of the fields.
    pub manager: &'a str,
    /// The time.
    pub now: Timestamp,
    /// Reports whether an apply takes fields from other managers.
    pub force: bool,
    /// Reports whether the fields are those of the object's `Scale`.
    pub is_scale: bool,
}
