//! The identity of a plugin towards the API server.

use std::sync::Arc;

use operetta_core::{
    authz::{
        access_review::SubjectGrants, recorded_permissions::RecordedPermissions,
        refused_calls::RefusedCalls,
    },
    gate::{permit::RequestPermit, throttle::Throttle},
    ports::WarningSink,
    replicas::Epoch,
};

use crate::store::overlay::Author;

/// The identity of a plugin towards the API server, with its permissions and their record.
pub struct PluginIdentity {
    /// The ServiceAccount of the plugin, and its permissions to read from the host's caches.
    pub grants: SubjectGrants,
    /// The record of the permissions that calls need.
    pub recorded: Arc<RecordedPermissions>,
    /// The record of the calls that RBAC refused.
    pub refused: Arc<RefusedCalls>,
    /// The token that permits requests: nothing is sent once it is revoked.
    pub permit: Arc<RequestPermit>,
    /// The epoch that its writes carry.
    pub epoch: Option<Epoch>,
    /// The quotas of its requests.
    pub throttle: Throttle,
    /// The field manager of writes that name none.
    pub field_manager: String,
    /// The author of its writes in the caches.
    pub author: Author,
    /// Receives what the API server warns about; None drops it.
    pub warnings: Option<Arc<dyn WarningSink>>,
}

impl PluginIdentity {
    /// Creates an identity without a record, without quotas and without revocation.
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
