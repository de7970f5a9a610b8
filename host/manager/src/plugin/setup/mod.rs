//! Sets up a plugin's controllers: the input and the errors.

pub mod assembly;
mod enqueue;
mod mapping_stage;
pub mod missing_kinds;
mod reconciler;
mod retry_on_grant;
pub mod running_shard;
pub mod running_shards;
mod warnings;
mod wiring;

use std::sync::Arc;

use kube::api::ObjectMeta;
use operetta_core::{
    authz::access_review::SubjectGrants,
    gate::{PluginConfig, finalizers::OwnFinalizers, permit::RequestPermit},
    object::ObjectKey,
    replicas::Epoch,
    status::ApiError,
};
use operetta_wasm::Component;
use tokio::sync::watch;

use crate::{
    context::Context,
    logs::store::PluginLog,
    plugin::{config::references::Contents, crd::PluginSpec, status::health::Health},
    problem::Problem,
};

/// What is needed to set up a plugin's controllers.
#[derive(Clone)]
pub struct Setup<'a> {
    /// What all plugins share.
    pub context: &'a Arc<Context>,
    /// The Plugin's key.
    pub key: &'a ObjectKey,
    /// The Plugin's uid.
    pub uid: &'a str,
    /// The Plugin's labels and annotations.
    pub metadata: &'a ObjectMeta,
    /// The Plugin's spec.
    pub spec: &'a PluginSpec,
    /// The plugin's configuration as JSON text.
    pub config: PluginConfig,
    /// The contents of the ConfigMaps and Secrets that `spec.process` names.
    pub sources: watch::Receiver<Arc<Contents>>,
    /// The code.
    pub component: &'a Arc<Component>,
    /// The plugin's log.
    pub log: &'a Arc<PluginLog>,
    /// Observes the reconciles.
    pub health: &'a Arc<Health>,
    /// The finalizers that its writes set.
    pub finalizers: &'a Arc<OwnFinalizers>,
    /// The permit to act for the plugin or one of its shards.
    pub permit: Arc<RequestPermit>,
    /// True to retry failed keys now, because the replaced code or configuration may be the cause.
    pub retries_failed: bool,
    /// The epoch that its writes carry; None if the host may not send one.
    pub epoch: Option<Epoch>,
    /// The access reviews of the plugin's ServiceAccount.
    pub grants: SubjectGrants,
}

/// Why a plugin wasn't set up.
pub enum SetupError {
    /// Retrying fails until the Plugin or its code changes.
    Refused(Problem),
    /// The API server doesn't respond, or not for one kind; the caller retries.
    Unavailable(ApiError),
}
