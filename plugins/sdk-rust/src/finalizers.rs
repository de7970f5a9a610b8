//! Finalizers: cleaning up before an object goes.
//!
//! The API server keeps a deleted object, with a deletionTimestamp, for as long as it has finalizers. [`finalizer`]
//! is the whole pattern in one call; the other functions are its parts.

use serde_json::json;

use crate::{Action, ApiError, Context, Error, Object, Patch};

/// Whether the object has the finalizer.
pub fn has_finalizer(object: &impl Object, name: &str) -> bool {
    object.meta().finalizers.iter().flatten().any(|finalizer| finalizer == name)
}

/// Adds a finalizer to the object in hand; tells whether that changed it.
pub fn add_finalizer(object: &mut impl Object, name: &str) -> bool {
    let missing = !has_finalizer(object, name);
    if missing {
        object.meta_mut().finalizers.get_or_insert_default().push(name.to_owned());
    }
    missing
}

/// Removes a finalizer from the object in hand; tells whether that changed it.
pub fn remove_finalizer(object: &mut impl Object, name: &str) -> bool {
    let had = has_finalizer(object, name);
    if let Some(finalizers) = &mut object.meta_mut().finalizers {
        finalizers.retain(|finalizer| finalizer != name);
    }
    had
}

/// Runs `apply` on an object that lives and `cleanup` on one that is being deleted.
///
/// - Before `apply` runs, the object has the finalizer, so no deletion can be missed.
/// - `cleanup` returning [`Action::done`] says that nothing is left: the finalizer is removed. A requeue says that it is
///   not finished: the finalizer stays, and `cleanup` runs again.
/// - An object that is being deleted and has not the finalizer is left alone.
///
/// The finalizer is written by a merge patch that fails with a conflict if the object has changed meanwhile; the
/// ServiceAccount needs the verb `patch` on the kind.
///
/// # Errors
/// Those of `apply`, `cleanup` and the patch.
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
    ctx.send_patch(&object.group_version_kind(), &object.key(), Patch::merge(&patch))
}
