//! The input of setting up a plugin's controllers, and its errors.

use std::sync::Arc;

use operetta_core::{
    authz::access_review::SubjectGrants,
    gate::{PluginConfig, revocation::Revocation},
    object::ObjectKey,
    status::ApiError,
};
use operetta_wasm::Plugin as Component;

use crate::{
    context::Context,
    logs::store::PluginLog,
    plugin::{crd::PluginSpec, health::Health},
    problem::Problem,
};

/// Everything that a plugin's controllers are set up from.
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
    /// The token that permits the plugin to act.
    pub revocation: Arc<Revocation>,
    /// The access reviews of the ServiceAccount as which the plugin acts.
    pub grants: SubjectGrants,
}

/// The reason why a plugin is not set up.
pub enum SetupError {
    /// Nothing can be done until the Plugin or its code changes.
    Refused(Problem),
    /// The API server does not answer; worth another try.
    Unavailable(ApiError),
}
