//! What other parts of the API server plug into HTTP: who may do what, admission, patches, documents.
//!
//! Each trait has an implementation that allows everything or refuses what it cannot do, so that a server works without
//! the parts that a test does not need.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    attributes::{Attributes, User},
    openapi_v2::OpenApiV2,
    resource::Resource,
    status::ApiError,
};

/// The user of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requester {
    /// The user as which the request is made.
    pub user: User,
    /// The user that sends it, if it acts as another one.
    pub sender: Option<User>,
    /// The verb that allowed this, such as `impersonate:serviceaccount`; empty for unconstrained impersonation.
    pub constraint: &'static str,
}

/// Finds out who sends a request.
pub trait Authenticator: Send + Sync {
    /// Returns the user of a request. The extension [`User`] of the request is the user that the caller is trusted to be
    /// if it sends no credentials.
    ///
    /// # Errors
    ///
    /// [`ApiError::unauthorized`], or the refusal of an impersonation.
    fn authenticate(&self, request: &http::request::Parts, attributes: &Attributes) -> Result<Requester, ApiError>;
}

impl<T: Authenticator + ?Sized> Authenticator for Arc<T> {
    fn authenticate(&self, request: &http::request::Parts, attributes: &Attributes) -> Result<Requester, ApiError> {
        (**self).authenticate(request, attributes)
    }
}

impl<T: Authorizer + ?Sized> Authorizer for Arc<T> {
    fn authorize(&self, user: &User, attributes: &Attributes) -> Result<(), ApiError> {
        (**self).authorize(user, attributes)
    }
}

/// Decides who may do what.
pub trait Authorizer: Send + Sync {
    /// Allows a request.
    ///
    /// # Errors
    ///
    /// The refusal that the client gets.
    fn authorize(&self, user: &User, attributes: &Attributes) -> Result<(), ApiError>;
}

/// A write, as admission sees it.
pub struct AdmissionRequest<'a> {
    /// The request.
    pub attributes: &'a Attributes,
    /// The user.
    pub user: &'a User,
    /// The resource.
    pub resource: &'a Resource,
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub operation: &'static str,
    /// The stored object of an update or a deletion, with its type.
    pub old: Option<&'a Value>,
    /// Reports whether the write is only tried.
    pub dry_run: bool,
    /// The options of the request, such as `CreateOptions`.
    pub options: &'a Value,
    /// The time.
    pub now: Timestamp,
}

/// Changes and refuses writes.
pub trait Admission: Send + Sync {
    /// Changes an object before it is validated.
    ///
    /// # Errors
    ///
    /// The refusal that the client gets.
    fn mutate(&self, _request: &AdmissionRequest<'_>, _object: &mut Value) -> Result<(), ApiError> {
        Ok(())
    }

    /// Refuses an object, and adds warnings about it. A deletion has no object.
    ///
    /// # Errors
    ///
    /// The refusal that the client gets.
    fn validate(
        &self,
        _request: &AdmissionRequest<'_>,
        _object: Option<&Value>,
        _warnings: &mut Vec<String>,
    ) -> Result<(), ApiError> {
        Ok(())
    }
}

impl<T: Admission + ?Sized> Admission for Arc<T> {
    fn mutate(&self, request: &AdmissionRequest<'_>, object: &mut Value) -> Result<(), ApiError> {
        (**self).mutate(request, object)
    }

    fn validate(
        &self,
        request: &AdmissionRequest<'_>,
        object: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), ApiError> {
        (**self).validate(request, object, warnings)
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
}

/// Computes the patches that need the kind's schema, and keeps `metadata.managedFields`.
pub trait Patcher: Send + Sync {
    /// Applies a strategic merge patch.
    ///
    /// # Errors
    ///
    /// The refusal that the client gets.
    fn strategic(&self, _resource: &Resource, _live: &Value, _patch: &Value) -> Result<Value, ApiError> {
        Err(ApiError::not_implemented("strategic merge patches"))
    }

    /// Applies a server-side apply patch, to nothing when the object does not exist. The result has its managed fields.
    ///
    /// # Errors
    ///
    /// The refusal that the client gets, such as a conflict with other managers.
    fn apply(&self, _write: &FieldWrite<'_>, _live: Option<&Value>, _patch: &Value) -> Result<Value, ApiError> {
        Err(ApiError::not_implemented("server-side apply"))
    }

    /// Sets the managed fields of an object that was created, updated or patched.
    ///
    /// # Errors
    ///
    /// The refusal that the client gets.
    fn track(&self, _write: &FieldWrite<'_>, live: Option<&Value>, object: &mut Value) -> Result<(), ApiError> {
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return Ok(()) };
        metadata.remove("managedFields");
        if let Some(fields) = live.and_then(|live| live.pointer("/metadata/managedFields")) {
            metadata.insert("managedFields".into(), fields.clone());
        }
        Ok(())
    }
}

/// Serves the OpenAPI documents.
pub trait OpenApi: Send + Sync {
    /// Returns the index of the documents: `/openapi/v3`.
    fn index(&self) -> Value;

    /// Returns the document of a path such as `apis/apps/v1`, in version 3, as JSON.
    fn document(&self, path: &str) -> Option<Vec<u8>>;

    /// Returns the document of version 2.
    fn version_2(&self) -> Arc<OpenApiV2>;
}

/// Allows everything and changes nothing. Every user is an administrator.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowAll;

impl Authenticator for AllowAll {
    fn authenticate(&self, _request: &http::request::Parts, _attributes: &Attributes) -> Result<Requester, ApiError> {
        let groups = vec!["system:masters".into(), "system:authenticated".into()];
        Ok(Requester { user: User { name: "admin".into(), groups, ..User::default() }, ..Requester::default() })
    }
}

impl Authorizer for AllowAll {
    fn authorize(&self, _user: &User, _attributes: &Attributes) -> Result<(), ApiError> {
        Ok(())
    }
}

impl Admission for AllowAll {}

impl Patcher for AllowAll {}
