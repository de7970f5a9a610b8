//! The host's connection to its cluster (controller-runtime's `cluster.Cluster`): client,
//! discovery, shared informers, access reviews and Events.

use std::sync::Arc;

use anyhow::Result;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use operetta_core::{
    authz::{
        access_review::{Grants, SubjectGrants},
        host_permissions::HostPermissions,
    },
    gate::operation::{Get, Read},
    object::{Object, ObjectKey, kind::GroupVersionKind},
    ports::ObjectApi,
    recorder::Recorder,
    status::{ApiError, ErrorKind},
};
use operetta_kube::{
    authz::{access_review::SubjectAccessReviews, impersonation::Impersonation},
    client::{
        api_client::{ApiClient, Identity},
        object_api::{PluginApi, PluginIdentity},
    },
    discovery::{Discovery, SimilarKinds},
    events::recorder::EventRecorder,
    informer::{Settings, Timing, registry::InformerRegistry},
};

use crate::config::HostConfig;

/// A host's connection to its cluster.
pub struct Cluster {
    /// The client. Plugins' requests use it too, under their own identities.
    pub client: Client,
    /// Maps kinds to resources.
    pub discovery: Arc<Discovery>,
    /// Suggestions for kinds that aren't served.
    pub similar_kinds: SimilarKinds,
    /// The shared informers.
    pub registry: Arc<InformerRegistry>,
    /// For the host's own reads and writes.
    pub api: Arc<PluginApi>,
    /// Cached access reviews of the plugins' ServiceAccounts.
    pub grants: Arc<Grants>,
    /// The host's permissions to impersonate ServiceAccounts.
    pub impersonation: Impersonation,
    /// Records the host's own Events.
    pub recorder: Arc<EventRecorder>,
}

impl Cluster {
    /// Prepares the connection without starting a watch. `changes` records the changes the
    /// informers see.
    ///
    /// # Errors
    /// When the client can't act as the host.
    pub fn new(client: Client, config: &HostConfig, changes: &Arc<Recorder>) -> Result<Self> {
        let api_client = ApiClient::new(client.clone(), &Identity::Host)?;
        let discovery = Discovery::new(api_client.clone());
        let reviews = Arc::new(SubjectAccessReviews::new(api_client.clone()));
        let grants = Grants::with(reviews, config.exact_access_reviews);
        let permissions = HostPermissions::new(grants.clone());
        let packing = config.cache_compression;

        let settings = Settings {
            timing: Timing::default(),
            packing,
            recorder: Some(changes.clone()),
        };
        let registry = InformerRegistry::with(api_client.clone(), settings, permissions.clone());
        let api = PluginApi::of_host(
            api_client.clone(),
            discovery.clone(),
            registry.clone(),
            "operetta".to_owned(),
        );
        let impersonation = Impersonation::new(api_client.clone(), permissions);
        let recorder = EventRecorder::start(api_client, "operetta".to_owned());

        let similar_kinds = SimilarKinds::new(client.clone());
        Ok(Self {
            client,
            discovery,
            similar_kinds,
            registry,
            api,
            grants,
            impersonation,
            recorder,
        })
    }

    /// Reads an object from the API server as the host.
    ///
    /// # Errors
    /// The API server's error, such as not found.
    pub async fn get(
        &self,
        kind: &GroupVersionKind,
        key: &ObjectKey,
    ) -> Result<Arc<Object>, ApiError> {
        get(&self.api, kind, key).await
    }

    /// Reads an object from the API server as a ServiceAccount.
    ///
    /// # Errors
    /// The API server's error, such as forbidden.
    pub async fn get_as(
        &self,
        grants: &SubjectGrants,
        kind: &GroupVersionKind,
        key: &ObjectKey,
    ) -> Result<Arc<Object>, ApiError> {
        let api = PluginApi::of_plugin(
            self.client.clone(),
            self.discovery.clone(),
            self.registry.clone(),
            PluginIdentity::new(grants.clone(), ""),
        )?;
        get(&api, kind, key).await
    }

    /// Reads a ConfigMap with its data from the API server; the informers keep only metadata.
    ///
    /// # Errors
    /// The API server's error, or one if the response isn't a ConfigMap.
    pub async fn config_map(&self, key: &ObjectKey) -> Result<ConfigMap, ApiError> {
        let object = self
            .get(&GroupVersionKind::new("v1", "ConfigMap"), key)
            .await?;
        serde_json::from_str(object.json()).map_err(|error| {
            ApiError::new(
                ErrorKind::Other,
                format!("failed to decode ConfigMap {key}: {error}"),
            )
        })
    }
}

async fn get(
    api: &PluginApi,
    kind: &GroupVersionKind,
    key: &ObjectKey,
) -> Result<Arc<Object>, ApiError> {
    api.get(Get {
        kind: kind.clone(),
        key: key.clone(),
        read: Read::Live,
    })
    .await
}
