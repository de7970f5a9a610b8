//! The input of setting up a plugin's controllers, and its errors.

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

use operetta_core::{
    authz::access_review::SubjectGrants,
    gate::{PluginConfig, permit::RequestPermit},
    object::ObjectKey,
    replicas::Epoch,
    status::ApiError,
};
use operetta_wasm::Plugin as Component;

use crate::{
    context::Context,
    logs::store::PluginLog,
    plugin::{crd::PluginSpec, status::health::Health},
    problem::Problem,
};

/// The input of setting up a plugin's controllers.
#[derive(Clone)]
pub struct Setup<'a> {
    /// The context that plugins share.
    pub context: &'a Arc<Context>,
    /// The Plugin's key.
    pub key: &'a ObjectKey,
    /// The Plugin's spec.
    pub spec: &'a PluginSpec,
    /// The plugin's configuration as JSON text.
    pub config: PluginConfig,
    /// The code.
    pub component: &'a Arc<Component>,
    /// The plugin's log.
    pub log: &'a Arc<PluginLog>,
    /// The observer of reconciles.
    pub health: &'a Arc<Health>,
    /// The token that permits the plugin, or one of its shards, to act.
    pub permit: Arc<RequestPermit>,
    /// True if keys may have failed because of the code or configuration that is replaced: they are
    /// retried now.
    pub retries_failed: bool,
    /// The epoch that its writes carry; None if the host may not send it.
    pub epoch: Option<Epoch>,
    /// The access reviews of the plugin's ServiceAccount.
    pub grants: SubjectGrants,
}

/// Why a plugin was not set up.
pub enum SetupError {
    /// A retry fails until the Plugin or its code changes.
    Refused(Problem),
    /// The API server does not respond, or not for a kind; the caller retries.
    Unavailable(ApiError),
}
