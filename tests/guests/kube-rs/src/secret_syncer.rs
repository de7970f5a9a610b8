//! kube-rs's example `secret_syncer`.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, Resource};
use operetta_sdk::kube_rs::controller::Action;
use operetta_sdk::kube_rs::finalizer::{Event, finalizer};

/// The error of a reconcile.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The object lacks a namespace.
    #[error("NoNamespace")]
    NoNamespace,
    /// The object lacks a name.
    #[error("NoName")]
    NoName,
    /// The API server refused.
    #[error("UpdateSecret: {0}")]
    UpdateSecret(#[source] kube::Error),
    /// The API server refused.
    #[error("DeleteSecret: {0}")]
    DeleteSecret(#[source] kube::Error),
    /// The finalizer could not be written, or the wrapped function failed.
    #[error("Finalizer: {0}")]
    Finalizer(#[source] Box<operetta_sdk::kube_rs::finalizer::Error<Error>>),
}

/// The finalizer, which the manifest declares.
pub const FINALIZER: &str = "configmap-secret-syncer.nullable.se/cleanup";

type Result<T, E = Error> = std::result::Result<T, E>;

fn secret_name_for_configmap(cm: &ConfigMap) -> Result<String> {
    let name = cm.metadata.name.as_deref().ok_or(Error::NoName)?;
    Ok(format!("cmsyncer-{name}"))
}

async fn apply(cm: Arc<ConfigMap>, secrets: &Api<Secret>) -> Result<Action> {
    let secret_name = secret_name_for_configmap(&cm)?;
    secrets
        .patch(
            &secret_name,
            &PatchParams::apply("configmap-secret-syncer.nullable.se"),
            &Patch::Apply(Secret {
                metadata: ObjectMeta {
                    name: Some(secret_name.clone()),
                    ..ObjectMeta::default()
                },
                string_data: cm.data.clone(),
                data: cm.binary_data.clone(),
                ..Secret::default()
            }),
        )
        .await
        .map_err(Error::UpdateSecret)?;

    Ok(Action::requeue(Duration::from_secs(300)))
}

async fn cleanup(cm: Arc<ConfigMap>, secrets: &Api<Secret>) -> Result<Action> {
    let deleted = secrets
        .delete(&secret_name_for_configmap(&cm)?, &DeleteParams::default())
        .await;
    deleted
        .map(|_| ())
        .or_else(|err| match err {
            // The object is already deleted.
            kube::Error::Api(status) if status.is_not_found() => Ok(()),
            err => Err(err),
        })
        .map_err(Error::DeleteSecret)?;

    Ok(Action::await_change())
}

/// Applies the Secret of a ConfigMap, and deletes it when the ConfigMap is deleted.
pub async fn reconcile(cm: Arc<ConfigMap>, client: Arc<kube::Client>) -> Result<Action> {
    let ns = cm.meta().namespace.as_deref().ok_or(Error::NoNamespace)?;
    let cms: Api<ConfigMap> = Api::namespaced(client.as_ref().clone(), ns);
    let secrets: Api<Secret> = Api::namespaced(client.as_ref().clone(), ns);

    finalizer(&cms, FINALIZER, cm, |event| async {
        match event {
            Event::Apply(cm) => apply(cm, &secrets).await,
            Event::Cleanup(cm) => cleanup(cm, &secrets).await,
        }
    })
    .await
    .map_err(|error| Error::Finalizer(Box::new(error)))
}

/// The controller triggers this on reconcile errors.
pub fn error_policy(_object: Arc<ConfigMap>, _error: &Error, _ctx: Arc<kube::Client>) -> Action {
    Action::requeue(Duration::from_secs(10))
}
