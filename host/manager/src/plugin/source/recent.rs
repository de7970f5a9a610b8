//! Keeps the last ConfigMap that was read. ConfigMaps with a component are large, and the one that
//! the drop-in controller has just read is what the Plugin controller needs next.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use operetta_core::{object::Object, status::ApiError};
use parking_lot::Mutex;

use crate::context::Context;

/// Keeps the last ConfigMap that was read, until somebody takes it.
pub struct RecentConfigMap {
    context: Arc<Context>,
    kept: Mutex<Option<ConfigMap>>,
}

impl RecentConfigMap {
    /// Creates an empty one.
    pub fn new(context: Arc<Context>) -> Arc<Self> {
        Arc::new(Self {
            context,
            kept: Mutex::default(),
        })
    }

    /// Keeps a ConfigMap that was just read.
    pub fn put(&self, config_map: ConfigMap) {
        *self.kept.lock() = Some(config_map);
    }

    /// Returns the ConfigMap with this metadata, or a later version: the one kept, or else from the
    /// API server.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn take(&self, metadata: &Object) -> Result<ConfigMap, ApiError> {
        let is_same = |kept: &mut ConfigMap| {
            kept.metadata.uid.as_deref() == Some(metadata.uid())
                && kept.metadata.resource_version.as_deref() == Some(metadata.resource_version())
        };
        let kept = self.kept.lock().take_if(is_same);
        match kept {
            Some(kept) => Ok(kept),
            None => self.context.cluster.config_map(metadata.key()).await,
        }
    }
}
