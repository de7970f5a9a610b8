//! A reconciler's access to the API server, to Events and to the plugin's configuration.

use std::fmt;

use serde::de::DeserializeOwned;

use crate::backend::{Backend, CreateRequest, EventRequest, Part, PatchRequest, UpdateRequest};
use crate::json::{decode, encode, from_str, key, with_type};
use crate::options::{
    DeleteOptions, ListOptions, Misfit, Page, Patch, PatchType, Read, WriteOptions,
};
use crate::{
    ApiError, DynamicApi, Error, GroupVersionKind, Kind, Object, ObjectKey, Request, ResultExt,
};

/// The type of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Something happened as expected.
    Normal,
    /// Something went wrong.
    Warning,
}

/// A reconciler's access to the API server, for one reconcile.
///
/// Reads come from the host's cache, which includes this plugin's own writes, unless they are live.
/// Writes go to the API server under the identity of the plugin's ServiceAccount.
///
/// ```
/// use operetta_sdk::k8s_openapi::api::core::v1::ConfigMap;
/// use operetta_sdk::{Action, Context, Error, ListOptions, Object};
///
/// fn reconcile(ctx: &Context, map: ConfigMap) -> Result<Action, Error> {
///     let beside = ListOptions::in_namespace(map.namespace().unwrap_or_default());
///     operetta_sdk::tracing::info!(count = ctx.list::<ConfigMap>(beside)?.len(), "ConfigMaps in the namespace");
///     Ok(Action::done())
/// }
/// ```
pub struct Context {
    pub(crate) backend: Served,
    pub(crate) request: Request,
}

/// The backend of calls. In a guest it is a concrete type, so that the compiler removes unused
/// imports.
#[cfg(target_arch = "wasm32")]
pub(crate) type Served = crate::guest::Host;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) type Served = std::sync::Arc<dyn Backend>;

/// Converts a not-found error to `None`.
///
/// # Errors
/// Returns every other error.
pub(crate) fn found<T>(result: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match result {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

impl Context {
    /// Returns the request that is being reconciled: its key, its number of failures, and the
    /// reconcile's id.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Reads an object from the cache.
    ///
    /// # Errors
    /// Returns an [`ApiError`]: not-found if the object does not exist.
    pub fn get<T: Kind>(&self, key: impl Into<ObjectKey>) -> Result<T, ApiError> {
        self.read(&T::gvk(), &key.into(), Read::Cached)
    }

    /// Reads an object from the API server.
    ///
    /// # Errors
    /// Returns an [`ApiError`]: not-found if the object does not exist.
    pub fn get_live<T: Kind>(&self, key: impl Into<ObjectKey>) -> Result<T, ApiError> {
        self.read(&T::gvk(), &key.into(), Read::Live)
    }

    /// Reads an object from the cache; `None` if it does not exist.
    ///
    /// # Errors
    /// Returns an [`ApiError`], except not-found.
    pub fn get_opt<T: Kind>(&self, key: impl Into<ObjectKey>) -> Result<Option<T>, ApiError> {
        found(self.get(key))
    }

    /// Reads every page of a list.
    ///
    /// # Errors
    /// Returns an [`ApiError`]: bad-request if a selector does not parse or an index is not
    /// declared, expired if a live list expires between two pages, malformed if one object does not
    /// fit the type. [`list_each`](Self::list_each) has the others.
    pub fn list<T: Kind>(&self, options: ListOptions) -> Result<Vec<T>, ApiError> {
        self.list_all(&T::gvk(), options)
    }

    /// Reads every page of a list, object by object: one that does not fit the type hides no other.
    ///
    /// # Errors
    /// Returns an [`ApiError`], as [`list`](Self::list) does.
    pub fn list_each<T: Kind>(
        &self,
        options: ListOptions,
    ) -> Result<Vec<Result<T, Misfit>>, ApiError> {
        let kind = T::gvk();
        let mut options = options;
        let mut all = Vec::new();
        loop {
            let page = self.backend.list(&kind, &options)?;
            all.extend(page.items.iter().map(|text| {
                decode(&kind, text).map_err(|error| Misfit {
                    key: key(text),
                    error,
                })
            }));
            options.continue_token = page.continue_token;
            if options.continue_token.is_none() {
                return Ok(all);
            }
        }
    }

    /// Reads one page of a list.
    ///
    /// # Errors
    /// Returns an [`ApiError`], as [`list`](Self::list) does.
    pub fn list_page<T: Kind>(&self, options: &ListOptions) -> Result<Page<T>, ApiError> {
        self.read_page(&T::gvk(), options)
    }

    /// Creates an object and returns it as stored.
    ///
    /// # Errors
    /// Returns an [`ApiError`]: already-exists, or invalid with its causes.
    pub fn create<T: Object>(&self, object: &T) -> Result<T, ApiError> {
        self.create_with(object, &WriteOptions::default())
    }

    /// Creates an object with options.
    ///
    /// # Errors
    /// Returns the errors of [`create`](Self::create).
    pub fn create_with<T: Object>(
        &self,
        object: &T,
        options: &WriteOptions,
    ) -> Result<T, ApiError> {
        let kind = object.group_version_kind();
        if object.name().is_empty() && object.meta().generate_name.is_none() {
            return Err(unnamed(&kind));
        }

        let create = CreateRequest {
            namespace: object.namespace(),
            object: &encode(object)?,
            options,
        };

        decode(&kind, &self.backend.create(&kind, &create)?)
    }

    /// Replaces an object except its status, and returns it as stored. Fields that the type does
    /// not have are lost; a [`patch`](Self::patch) keeps them.
    ///
    /// # Errors
    /// Returns an [`ApiError`]: conflict if the object has changed since it was read, not-found,
    /// invalid.
    pub fn update<T: Object>(&self, object: &T) -> Result<T, ApiError> {
        self.update_with(object, &WriteOptions::default())
    }

    /// Replaces an object with options.
    ///
    /// # Errors
    /// Returns the errors of [`update`](Self::update).
    pub fn update_with<T: Object>(
        &self,
        object: &T,
        options: &WriteOptions,
    ) -> Result<T, ApiError> {
        self.replace(object, Part::Main, options)
    }

    /// Replaces an object's status, through the status subresource, and returns the object as
    /// stored.
    ///
    /// # Errors
    /// Returns an [`ApiError`]: conflict if the object has changed since it was read; not-found
    /// also if the kind has no status subresource.
    pub fn update_status<T: Object>(&self, object: &T) -> Result<T, ApiError> {
        self.update_status_with(object, &WriteOptions::default())
    }

    /// Replaces an object's status with options.
    ///
    /// # Errors
    /// Returns the errors of [`update_status`](Self::update_status).
    pub fn update_status_with<T: Object>(
        &self,
        object: &T,
        options: &WriteOptions,
    ) -> Result<T, ApiError> {
        self.replace(object, Part::Status, options)
    }

    /// Patches the object of this key and returns it as stored.
    ///
    /// # Errors
    /// Returns an [`ApiError`]: not-found, invalid, and conflict if an apply sets another manager's
    /// field.
    pub fn patch<T: Kind>(&self, key: impl Into<ObjectKey>, patch: Patch) -> Result<T, ApiError> {
        self.send_patch(&T::gvk(), &key.into(), patch)
    }

    /// Deletes this object. If it has a uid, a new object of the same name is not deleted. Returns
    /// when the API server has accepted the deletion; the object remains until its finalizers are
    /// removed.
    ///
    /// # Errors
    /// Returns an [`ApiError`]: not-found, and conflict if the name now belongs to another object.
    pub fn delete(&self, object: &impl Object) -> Result<(), ApiError> {
        let options = DeleteOptions {
            uid: object.uid().map(str::to_owned),
            ..DeleteOptions::default()
        };

        self.backend
            .delete(&object.group_version_kind(), &named(object)?, &options)
    }

    /// Deletes the object of this key.
    ///
    /// # Errors
    /// Returns an [`ApiError`]: not-found, and conflict if a precondition does not hold.
    pub fn delete_key<T: Kind>(
        &self,
        key: impl Into<ObjectKey>,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        self.send_delete(&T::gvk(), &key.into(), options)
    }

    /// Returns the reads, patches and deletions of a kind without a Rust type.
    pub fn dynamic(&self, kind: &GroupVersionKind) -> DynamicApi<'_> {
        DynamicApi {
            context: self,
            kind: kind.clone(),
        }
    }

    /// Takes the API server's warnings about the calls since the last time: fields that it dropped,
    /// deprecated versions, remarks of webhooks and policies. The host reports each text once in
    /// the plugin's log, so most plugins need not ask.
    ///
    /// At most 64 texts and 16 KiB are kept until they are taken; later ones are dropped. A call
    /// that the host answers itself has none: a cached read, or a write that would change nothing.
    ///
    /// ```
    /// use operetta_sdk::{ApiError, Context, DynamicObject, tracing};
    ///
    /// fn create(ctx: &Context, made: &DynamicObject) -> Result<(), ApiError> {
    ///     ctx.create(made)?;
    ///     for text in ctx.take_warnings() {
    ///         tracing::warn!("{text}"); // unknown field "spec.colour"
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn take_warnings(&self) -> Vec<String> {
        self.backend.take_warnings()
    }

    /// Records an Event about an object, as `kubectl describe` shows it. Returns at once and cannot
    /// fail: the host writes Events in the background, aggregated and rate limited.
    pub fn event(&self, object: &impl Object, kind: EventType, reason: &str, note: &str) {
        self.event_with_action(object, kind, reason, "", note);
    }

    /// Records an Event with an action, e.g. `Update`.
    pub fn event_with_action(
        &self,
        object: &impl Object,
        kind: EventType,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        self.backend.event(&EventRequest {
            regarding: &object.group_version_kind(),
            key: &object.key(),
            uid: object.uid(),
            kind,
            reason,
            action,
            note,
        });
    }

    /// Reads the Plugin's configuration; an empty object if there is none.
    ///
    /// # Errors
    /// Returns a terminal error if it does not fit the type.
    pub fn config<T: DeserializeOwned>(&self) -> Result<T, Error> {
        from_str(&self.backend.config())
            .context("the plugin's config")
            .terminal()
    }

    fn replace<T: Object>(
        &self,
        object: &T,
        part: Part,
        options: &WriteOptions,
    ) -> Result<T, ApiError> {
        let kind = object.group_version_kind();
        let key = named(object)?;

        let update = UpdateRequest {
            object: &encode(object)?,
            part,
            options,
        };

        decode(&kind, &self.backend.update(&kind, &key, &update)?)
    }

    pub(crate) fn read<T: DeserializeOwned>(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        read: Read,
    ) -> Result<T, ApiError> {
        decode(kind, &self.read_text(kind, key, read)?)
    }

    pub(crate) fn read_text(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        read: Read,
    ) -> Result<String, ApiError> {
        self.backend.get(kind, key, read)
    }

    pub(crate) fn send_delete(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        self.backend.delete(kind, key, options)
    }

    pub(crate) fn read_page<T: DeserializeOwned>(
        &self,
        kind: &GroupVersionKind,
        options: &ListOptions,
    ) -> Result<Page<T>, ApiError> {
        let Page {
            items,
            resource_version,
            continue_token,
        } = self.backend.list(kind, options)?;

        let items = items
            .iter()
            .map(|item| decode(kind, item))
            .collect::<Result<_, _>>()?;

        Ok(Page {
            items,
            resource_version,
            continue_token,
        })
    }

    pub(crate) fn list_all<T: DeserializeOwned>(
        &self,
        kind: &GroupVersionKind,
        mut options: ListOptions,
    ) -> Result<Vec<T>, ApiError> {
        let mut items = Vec::new();
        loop {
            let page = self.read_page(kind, &options)?;
            items.extend(page.items);
            options.continue_token = page.continue_token;
            if options.continue_token.is_none() {
                return Ok(items);
            }
        }
    }

    pub(crate) fn send_patch<T: DeserializeOwned>(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
        patch: Patch,
    ) -> Result<T, ApiError> {
        let Patch {
            kind: patch_type,
            body,
            force,
            subresource,
            options,
        } = patch;
        let mut body = body.map_err(|error| {
            ApiError::malformed(format!("the patch cannot be written as JSON: {error}"))
        })?;

        if patch_type == PatchType::Apply {
            body = with_type(body, kind)?;
        }

        let subresource = subresource.as_deref();
        let request = PatchRequest {
            subresource,
            kind: patch_type,
            body: &body,
            force,
            options: &options,
        };

        decode(kind, &self.backend.patch(kind, key, &request)?)
    }
}

/// The key of an object to send.
///
/// # Errors
/// Returns a malformed error if the object has no name.
fn named(object: &impl Object) -> Result<ObjectKey, ApiError> {
    if object.name().is_empty() {
        return Err(unnamed(&object.group_version_kind()));
    }
    Ok(object.key())
}

fn unnamed(kind: &GroupVersionKind) -> ApiError {
    ApiError::malformed(format!("this {kind} has no metadata.name"))
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}
