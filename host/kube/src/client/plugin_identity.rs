//! A plugin's identity towards the API server.

use std::sync::Arc;

use operetta_core::{
    authz::{
        access_review::SubjectGrants, recorded_permissions::RecordedPermissions,
        refused_calls::RefusedCalls,
    },
    gate::{permit::RequestPermit, throttle::Throttle},
    ports::WarningSink,
};

use crate::store::overlay::Author;

/// A plugin's identity towards the API server, with its permissions and records about them.
pub struct PluginIdentity {
    /// The plugin's ServiceAccount, and its permissions to read from the host's caches.
    pub grants: SubjectGrants,
    /// Records the permissions needed by calls.
    pub recorded: Arc<RecordedPermissions>,
    /// Records the calls refused by RBAC.
    pub refused: Arc<RefusedCalls>,
    /// Permits requests: once it is revoked, nothing is sent.
    pub permit: Arc<RequestPermit>,
    /// The epoch attached to its writes; `CLASS/EPOCH` for a host of a trust class, because each
    /// class counts its own epochs.
    pub epoch: Option<String>,
    /// Quotas for its requests.
    pub throttle: Throttle,
    /// The default field manager, for writes without one.
    pub field_manager: String,
    /// The author of its writes in the caches.
    pub author: Author,
    /// Receives the API server's warnings; None drops them.
    pub warnings: Option<Arc<dyn WarningSink>>,
}

impl PluginIdentity {
    /// Creates an identity with empty records, and without quotas and revocation.
    pub fn new(grants: SubjectGrants, field_manager: impl Into<String>) -> Self {
        Self {
            grants,
            recorded: Arc::default(),
            refused: Arc::default(),
            permit: Arc::default(),
            epoch: None,
            throttle: Throttle::default(),
            field_manager: field_manager.into(),
            author: Author::unique(),
            warnings: None,
        }
    }
}
