//! The objects of a kind that a command watches, by kubectl's names and flags.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, bail};
use operetta_core::{
    object::kind::GroupVersionKind,
    status::{ApiError, ErrorKind},
};
use operetta_kube::{
    authz::probe,
    client::api_client::{ApiClient, Identity},
    discovery::{ApiResource, Discovery},
    informer::{Informer, Scope, registry::InformerRegistry},
};
use tokio::time::Instant;

use super::{DEADLINE, PATIENCE, PAUSE};

/// The objects to watch, as a user names them.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The resource, as kubectl takes it.
    pub kind: String,
    /// The namespace; None for the context's.
    pub namespace: Option<String>,
    /// True for all namespaces.
    pub all_namespaces: bool,
    /// The label selector.
    pub labels: String,
    /// The field selector.
    pub fields: String,
    /// The parts of the objects that the informer keeps.
    pub kept: Kept,
}

/// The parts of objects that an informer keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Kept {
    /// The whole object without managedFields.
    #[default]
    Whole,
    /// The metadata.
    Metadata,
    /// All but the fields at these paths.
    Without(Vec<String>),
}

/// The objects that are watched.
pub struct Source {
    /// The connection to the API server.
    pub api_client: ApiClient,
    /// The kind.
    pub resource: Arc<ApiResource>,
    /// The objects of the kind.
    pub scope: Scope,
    registry: Arc<InformerRegistry>,
}

impl Source {
    /// Resolves a selection to objects that can be listed.
    ///
    /// # Errors
    /// Returns an error if the kind is unknown or cannot be watched, or the API server refuses the
    /// list.
    pub async fn find(client: kube::Client, selection: &Selection) -> Result<Self> {
        let Selection {
            kind,
            labels,
            fields,
            kept,
            ..
        } = selection;

        if kind.contains(',') {
            bail!("cannot watch {kind:?}: use one kind");
        }

        let namespace = selection
            .namespace
            .clone()
            .unwrap_or_else(|| client.default_namespace().to_owned());

        let api_client = ApiClient::new(client, &Identity::Host)?;
        let Some(resource) = Discovery::new(api_client.clone())
            .resolve_name(kind)
            .await?
        else {
            let resource = kind.split('.').next().unwrap_or(kind);
            bail!("the server doesn't have a resource type {resource:?}");
        };

        if !resource.watchable {
            bail!(
                "cannot watch {}: the server does not support list and watch for it",
                resource.plural
            );
        }

        let namespace = (resource.namespaced && !selection.all_namespaces).then_some(namespace);
        namespace.as_ref().map_or(Ok(()), |text| {
            operetta_core::gate::path::check_segment("namespace", text)
        })?;

        let pruned = if let Kept::Without(paths) = kept {
            paths.clone()
        } else {
            vec![]
        };

        let metadata_only = *kept == Kept::Metadata;
        let scope = Scope {
            namespace,
            labels: labels.clone(),
            fields: fields.clone(),
            metadata_only,
            pruned,
            for_processes: false,
        };

        probe::listable(&api_client, &resource, &scope, DEADLINE).await?;

        Ok(Self {
            registry: InformerRegistry::new(api_client.clone()),
            api_client,
            resource,
            scope,
        })
    }

    /// Starts the informer of the objects.
    pub fn start(&self) -> Arc<Informer> {
        self.registry.informer(&self.resource, self.scope.clone())
    }

    /// The name that kubectl uses: `deployments.apps`.
    pub fn name(&self) -> String {
        qualified(&self.resource.plural, &self.resource.kind)
    }

    /// The error for an object that does not exist.
    pub fn not_found(&self, name: &str) -> ApiError {
        ApiError::new(
            ErrorKind::NotFound,
            format!("{} {name:?} not found", self.name()),
        )
    }

    /// The error for a kind that is gone.
    pub fn gone(&self) -> ApiError {
        let message = format!(
            "the server does not serve {} any more (was its CRD deleted?)",
            self.name()
        );
        ApiError::new(ErrorKind::NotFound, message)
    }
}

/// A name with the group of its kind: `deployments.apps`, `pods`.
pub fn qualified(name: &str, kind: &GroupVersionKind) -> String {
    let group = kind.group();
    let dot = if group.is_empty() { "" } else { "." };
    format!("{name}{dot}{group}")
}

/// Retries a request until the API server responds. A refused request is retried only for
/// [`PATIENCE`].
///
/// # Errors
/// Returns the last refusal.
pub async fn patiently<T>(
    mut ask: impl AsyncFnMut() -> Result<T, ApiError>,
) -> Result<T, ApiError> {
    let mut refused: Option<Instant> = None;
    loop {
        let error = match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };

        match error.kind {
            ErrorKind::Unavailable
            | ErrorKind::TimedOut
            | ErrorKind::TooManyRequests
            | ErrorKind::Expired => {
                refused = None;
            }
            _ if refused.get_or_insert_with(Instant::now).elapsed() >= PATIENCE => {
                return Err(error);
            }
            _ => {}
        }

        let pause = error
            .status
            .retry_after_seconds
            .map(|seconds| Duration::from_secs(seconds.into()));
        tokio::time::sleep(pause.unwrap_or(PAUSE).min(PATIENCE)).await;
    }
}
