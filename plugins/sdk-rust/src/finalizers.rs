//! Finalizers: cleanup before an object is deleted.
//!
//! The API server keeps a deleted object, with a deletionTimestamp, as long as it has finalizers.
//! [`finalizer`] is the whole pattern in one call; the other functions are its parts.

use serde_json::json;

use crate::{Action, ApiError, Context, Error, Object, Patch};

/// Reports whether the object has the finalizer.
pub fn has_finalizer(object: &impl Object, name: &str) -> bool {
    object
        .meta()
        .finalizers
        .iter()
        .flatten()
        .any(|finalizer| finalizer == name)
}

/// Adds a finalizer to the object, without writing it; reports whether the object changed.
pub fn add_finalizer(object: &mut impl Object, name: &str) -> bool {
    let missing = !has_finalizer(object, name);
    if missing {
        object
            .meta_mut()
            .finalizers
            .get_or_insert_default()
            .push(name.to_owned());
    }
    missing
}

/// Removes a finalizer from the object, without writing it; reports whether the object changed.
pub fn remove_finalizer(object: &mut impl Object, name: &str) -> bool {
    let had = has_finalizer(object, name);
    if let Some(finalizers) = &mut object.meta_mut().finalizers {
        finalizers.retain(|finalizer| finalizer != name);
    }
    had
}

/// Calls `apply` with an object that is not being deleted, and `cleanup` with one that is.
///
/// - The object has the finalizer before `apply` is called, so no deletion can be missed.
/// - If `cleanup` returns [`Action::done`], the finalizer is removed. If it returns a requeue, the
///   finalizer stays and `cleanup` is called again.
/// - Neither is called for an object that is being deleted and lacks the finalizer.
///
/// The finalizer is written by a merge patch that fails with a conflict if the object has changed
/// meanwhile; the ServiceAccount needs the verb `patch` on the kind. `operetta generate rbac`
/// grants it if [`Controller::finalizer`] declares the finalizer.
///
/// [`Controller::finalizer`]: crate::Controller::finalizer
///
/// ```
/// use operetta_sdk::k8s_openapi::api::core::v1::ConfigMap;
/// use operetta_sdk::{Action, Context, Error, Object, finalizer, tracing};
///
/// fn reconcile(ctx: &Context, map: ConfigMap) -> Result<Action, Error> {
///     let apply = |_: ConfigMap| Ok(Action::done());
///     let cleanup = |map: &ConfigMap| {
///         tracing::info!("cleaning up after {}", map.name());
///         Ok(Action::done())
///     };
///     finalizer(ctx, map, "example.com/cleanup", apply, cleanup)
/// }
/// ```
///
/// # Errors
/// Returns the errors of `apply`, `cleanup` and the patch.
pub fn finalizer<T: Object>(
    ctx: &Context,
    mut object: T,
    name: &str,
    apply: impl FnOnce(T) -> Result<Action, Error>,
    cleanup: impl FnOnce(&T) -> Result<Action, Error>,
) -> Result<Action, Error> {
    if !object.is_being_deleted() {
        if add_finalizer(&mut object, name) {
            object = write_finalizers(ctx, &object)?;
        }
        return apply(object);
    }

    if !has_finalizer(&object, name) {
        return Ok(Action::done());
    }

    let action = cleanup(&object)?;
    if action == Action::done() {
        remove_finalizer(&mut object, name);
        match write_finalizers(ctx, &object) {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
    }

    Ok(action)
}

fn write_finalizers<T: Object>(ctx: &Context, object: &T) -> Result<T, ApiError> {
    let metadata = object.meta();
    let patch = json!({"metadata": {"resourceVersion": metadata.resource_version, "finalizers": metadata.finalizers}});

    ctx.send_patch(
        &object.group_version_kind(),
        &object.key(),
        Patch::merge(&patch),
    )
}
