//! What rights a plugin needs, as the host that runs it says at /rbac/NAMESPACE/PLUGIN and `operetta rbac` reads.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use operetta_core::{object::ObjectKey, status::ApiError};
use operetta_kube::{
    authz::{access_review::SubjectAccessReviews, required_permissions::Needed},
    client::wire::{Identity, Wire},
};
use serde::{Deserialize, Serialize};

use crate::manager::Host;

/// The rights that one plugin needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rights {
    /// The namespace of the ServiceAccount as which it acts.
    pub namespace: String,
    /// The name of that ServiceAccount.
    pub service_account: String,
    /// Since when its calls are recorded; RFC 3339.
    pub since: String,
    /// Whether any call was recorded: what it watches is needed in any case.
    pub called: bool,
    /// Calls that are not in `needs`, because there were too many different ones.
    pub missed: u64,
    /// Kinds that are not served: what it would do about them is not in `needs`.
    pub missing_kinds: Vec<String>,
    /// Each right, and whether the ServiceAccount has it.
    pub needs: Vec<Needed>,
}

/// Why there are none.
#[derive(Debug)]
pub enum NoRights {
    /// The host has no such plugin.
    Unknown,
    /// It is suspended or refused, so what it did before is forgotten.
    NotRunning,
    /// The API server cannot be asked; worth another try.
    Unavailable(ApiError),
}

/// The rights that a plugin of this host needs, for its calls so far and for what it watches.
pub async fn of(host: &Host, plugin: &ObjectKey) -> Result<Rights, NoRights> {
    let slots = host.slots();
    let (_, slot) = slots.iter().find(|(key, _)| key == plugin).ok_or(NoRights::Unknown)?;
    let (api, watched, missing_kinds) = {
        let state = slot.state.lock().await;
        let running = state.running.as_ref().and_then(|running| running.rights());
        let (api, watched): (Arc<_>, Vec<_>) = running.ok_or(NoRights::NotRunning)?;
        (api, watched, state.missing.iter().map(ToString::to_string).collect())
    };
    let reviews = Wire::new(host.client.clone(), &Identity::Host).map(SubjectAccessReviews::new);
    let reviews = reviews.map_err(NoRights::Unavailable)?;
    let found = api.needs(&reviews, watched).await.map_err(NoRights::Unavailable)?;
    let (Some(needs), Some(grants)) = (found, api.grants()) else { return Err(NoRights::NotRunning) };
    let since = Timestamp::try_from(needs.since).and_then(|since| Timestamp::from_second(since.as_second()));
    Ok(Rights {
        namespace: grants.subject().namespace.clone(),
        service_account: grants.subject().name.clone(),
        since: since.map(|since| since.to_string()).unwrap_or_default(),
        called: needs.called,
        missed: needs.missed,
        missing_kinds,
        needs: needs.needed,
    })
}
