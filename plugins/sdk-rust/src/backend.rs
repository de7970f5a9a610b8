//! The interface between the SDK and its host: the imports in a guest, a test's cluster in a native
//! build. Objects are passed as JSON text, as in the contract.

use crate::options::{DeleteOptions, ListOptions, Page, PatchType, Read, WriteOptions};
use crate::{ApiError, EventType, GroupVersionKind, ObjectKey, RawRequest, RawResponse};

/// An object to create, in its encoded form.
pub(crate) struct CreateRequest<'a> {
    pub(crate) namespace: Option<&'a str>,
    pub(crate) object: &'a str,
    pub(crate) options: &'a WriteOptions,
}

/// An object to replace a part of, in its encoded form.
pub(crate) struct UpdateRequest<'a> {
    pub(crate) object: &'a str,
    pub(crate) part: Part,
    pub(crate) options: &'a WriteOptions,
}

/// The part of an object that an update replaces.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Everything but the status.
    Main,
    /// The status.
    Status,
}

/// A patch in its encoded form.
pub(crate) struct PatchRequest<'a> {
    pub(crate) subresource: Option<&'a str>,
    pub(crate) kind: PatchType,
    pub(crate) body: &'a str,
    pub(crate) force: bool,
    pub(crate) options: &'a WriteOptions,
}

/// An Event to record.
pub(crate) struct EventRequest<'a> {
    pub(crate) regarding: &'a GroupVersionKind,
    pub(crate) key: &'a ObjectKey,
    pub(crate) uid: Option<&'a str>,
    pub(crate) kind: EventType,
    pub(crate) reason: &'a str,
    pub(crate) action: &'a str,
    pub(crate) note: &'a str,
}

/// The imports of the contract.
pub(crate) trait Backend: Send + Sync {
    fn get(&self, kind: &GroupVersionKind, key: &ObjectKey, read: Read)
    -> Result<String, ApiError>;
    fn list(
        &self,
        kind: &GroupVersionKind,
        options: &ListOptions,
    ) -> Result<Page<String>, ApiError>;
    fn create(
        &self,
        kind: &GroupVersionKind,
        create: &CreateRequest<'_>,
    ) -> Result<String, ApiError>;
    fn update(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        update: &UpdateRequest<'_>,
    ) -> Result<String, ApiError>;
    fn patch(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        patch: &PatchRequest<'_>,
    ) -> Result<String, ApiError>;
    fn delete(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<(), ApiError>;
    fn raw(&self, request: &RawRequest) -> RawResponse;
    fn take_warnings(&self) -> Vec<String>;
    fn event(&self, event: &EventRequest<'_>);
    fn config(&self) -> String;
    /// Reports that the reconcile has failed, beside the action that it returns.
    #[cfg(feature = "kube")]
    fn fail(&self, message: &str);
}
