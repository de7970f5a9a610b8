//! A plugin's permissions, as served at /rbac/NAMESPACE/PLUGIN for `operetta rbac`.

use k8s_openapi::jiff::Timestamp;
use operetta_core::{object::ObjectKey, status::ApiError};
use operetta_kube::{
    authz::{access_review::SubjectAccessReviews, required_permissions::Needed},
    client::api_client::{ApiClient, Identity},
};
use serde::{Deserialize, Serialize};

use crate::{context::Context, plugin::hosted_plugins::HostedPlugins};

/// A plugin's required permissions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Permissions {
    /// The namespace of the plugin's ServiceAccount.
    pub namespace: String,
    /// The name of the ServiceAccount.
    pub service_account: String,
    /// When the recording of its calls started; RFC 3339.
    pub since: String,
    /// True if any call was recorded. `needs` has the plugin's watches in any case.
    pub called: bool,
    /// The number of calls missing in `needs`, because there were too many different ones.
    pub missed: u64,
    /// Kinds the API server doesn't serve; `needs` lacks their permissions.
    pub missing_kinds: Vec<String>,
    /// Each permission, and whether the ServiceAccount has it.
    pub needs: Vec<Needed>,
}

/// Why a plugin's permissions can't be listed.
#[derive(Debug)]
pub enum PermissionsError {
    /// The host has no such plugin.
    Unknown,
    /// The plugin is suspended or refused, so its recording was dropped.
    NotRunning,
    /// The API server doesn't respond; the caller may retry.
    Unavailable(ApiError),
}

/// Lists the permissions a plugin needs for its watches and its calls so far.
///
/// # Errors
/// See [`PermissionsError`].
pub async fn list(
    context: &Context,
    hosted_plugins: &HostedPlugins,
    plugin: &ObjectKey,
) -> Result<Permissions, PermissionsError> {
    let hosted = hosted_plugins
        .get(plugin)
        .ok_or(PermissionsError::Unknown)?;
    let (api, watched, missing_kinds) = {
        let state = hosted.state.lock().await;
        let running = state
            .running
            .as_ref()
            .and_then(|running| running.required_permissions());
        let (api, watched) = running.ok_or(PermissionsError::NotRunning)?;
        (
            api,
            watched,
            state
                .missing
                .kinds
                .iter()
                .map(ToString::to_string)
                .collect(),
        )
    };

    let reviews = ApiClient::new(context.cluster.client.clone(), &Identity::Host)
        .map(SubjectAccessReviews::new);
    let reviews = reviews.map_err(PermissionsError::Unavailable)?;
    let found = api
        .needs(&reviews, watched)
        .await
        .map_err(PermissionsError::Unavailable)?;
    let (Some(needs), Some(grants)) = (found, api.grants()) else {
        return Err(PermissionsError::NotRunning);
    };

    let since = Timestamp::try_from(needs.since)
        .and_then(|since| Timestamp::from_second(since.as_second()));
    Ok(Permissions {
        namespace: grants.subject().namespace.clone(),
        service_account: grants.subject().name.clone(),
        since: since.map(|since| since.to_string()).unwrap_or_default(),
        called: needs.called,
        missed: needs.missed,
        missing_kinds,
        needs: needs.needed,
    })
}
