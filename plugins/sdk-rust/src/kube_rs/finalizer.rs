//! The finalizer helper, with kube-rs's names and semantics (`kube::runtime::finalizer`).

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use kube::Api;
use kube::api::{Patch, PatchParams, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::controller::Action;

/// The error of [`finalizer`].
#[derive(Debug)]
pub enum Error<ReconcileErr: StdError + 'static> {
    /// The branch [`Event::Apply`] failed.
    ApplyFailed(ReconcileErr),
    /// The branch [`Event::Cleanup`] failed.
    CleanupFailed(ReconcileErr),
    /// The finalizer could not be added.
    AddFinalizer(kube::Error),
    /// The finalizer could not be removed.
    RemoveFinalizer(kube::Error),
    /// The object has no name.
    UnnamedObject,
}

impl<E: StdError + 'static> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ApplyFailed(error) => write!(f, "failed to apply object: {error}"),
            Self::CleanupFailed(error) => write!(f, "failed to clean up object: {error}"),
            Self::AddFinalizer(error) => write!(f, "failed to add finalizer: {error}"),
            Self::RemoveFinalizer(error) => write!(f, "failed to remove finalizer: {error}"),
            Self::UnnamedObject => f.write_str("object has no name"),
        }
    }
}

impl<E: StdError + 'static> StdError for Error<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::ApplyFailed(error) | Self::CleanupFailed(error) => Some(error),
            Self::AddFinalizer(error) | Self::RemoveFinalizer(error) => Some(error),
            Self::UnnamedObject => None,
        }
    }
}

/// What the author's function has to do.
#[derive(Debug)]
pub enum Event<K> {
    /// Bring the object to its desired state. It has the finalizer.
    Apply(Arc<K>),
    /// Clean up: the object is being deleted. The finalizer is removed afterwards.
    Cleanup(Arc<K>),
}

/// Reconciles an object that needs a cleanup before it is deleted. `reconcile` gets
/// [`Event::Apply`] with an object that has the finalizer, and [`Event::Cleanup`] with one that is
/// being deleted. The finalizer is added in a reconcile of its own, and that change triggers the
/// next one. Both events may occur more than once.
///
/// The plugin's ServiceAccount needs the verb `patch` on the kind. `operetta generate rbac` grants
/// it if [`Controller::finalizer`](crate::Controller::finalizer) declares the finalizer.
///
/// # Errors
/// Returns an [`Error`]: the author's, or that of writing the finalizer.
pub async fn finalizer<K, E, Fut>(
    api: &Api<K>,
    finalizer_name: &str,
    obj: Arc<K>,
    reconcile: impl FnOnce(Event<K>) -> Fut,
) -> Result<Action, Error<E>>
where
    K: Resource + Clone + DeserializeOwned + fmt::Debug,
    E: StdError + 'static,
    Fut: Future<Output = Result<Action, E>>,
{
    let at = obj
        .finalizers()
        .iter()
        .position(|name| name == finalizer_name);

    match (at, obj.meta().deletion_timestamp.is_some()) {
        (Some(_), false) => reconcile(Event::Apply(obj))
            .await
            .map_err(Error::ApplyFailed),
        (Some(at), true) => {
            let name = obj.meta().name.clone().ok_or(Error::UnnamedObject)?;
            let action = reconcile(Event::Cleanup(obj))
                .await
                .map_err(Error::CleanupFailed)?;

            // The test ensures that no other finalizer is removed in place of this one.
            let path = format!("/metadata/finalizers/{at}");
            let operations = json!([{"op": "test", "path": path, "value": finalizer_name}, {"op": "remove", "path": path}]);

            json_patch(api, &name, operations)
                .await
                .map_err(Error::RemoveFinalizer)?;

            Ok(action)
        }
        (None, false) => {
            let name = obj.meta().name.clone().ok_or(Error::UnnamedObject)?;
            let path = "/metadata/finalizers";

            let operations = if obj.finalizers().is_empty() {
                json!([
                    {"op": "test", "path": path, "value": null},
                    {"op": "add", "path": path, "value": [finalizer_name]},
                ])
            } else {
                json!([
                    {"op": "test", "path": path, "value": obj.finalizers()},
                    {"op": "add", "path": format!("{path}/-"), "value": finalizer_name},
                ])
            };

            json_patch(api, &name, operations)
                .await
                .map_err(Error::AddFinalizer)?;

            Ok(Action::await_change())
        }
        (None, true) => Ok(Action::await_change()),
    }
}

async fn json_patch<K>(api: &Api<K>, name: &str, operations: Value) -> Result<(), kube::Error>
where
    K: Resource + Clone + DeserializeOwned + fmt::Debug,
{
    let patch = serde_json::from_value(operations).map_err(kube::Error::SerdeError)?;
    api.patch(name, &PatchParams::default(), &Patch::Json::<()>(patch))
        .await
        .map(drop)
}
