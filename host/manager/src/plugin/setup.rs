//! The input of setting up a plugin's controllers, and its errors.

use std::sync::Arc;

use operetta_core::{
    authz::access_review::SubjectGrants,
    gate::{PluginConfig, revocation::Revocation},
    object::ObjectKey,
    replicas::Epoch,
    status::ApiError,
};
use operetta_wasm::Plugin as Component;

use crate::{
    context::Context,
    logs::store::PluginLog,
    plugin::{crd::PluginSpec, health::Health},
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
    pub revocation: Arc<Revocation>,
    /// True if it replaces code or a configuration of which keys may have failed: they are retried now.
    pub retries_failed: bool,
    /// The epoch that its writes carry; None if the host may not send it.
    pub epoch: Option<Epoch>,
    /// The access reviews of the plugin's ServiceAccount.
    pub grants: SubjectGrants,
}

/// The reason why a plugin was not set up.
pub enum SetupError {
    /// A retry fails until the Plugin or its code changes.
    Refused(Problem),
    /// The API server does not respond; the caller retries.
    Unavailable(ApiError),
}
