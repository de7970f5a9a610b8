//! Connections to the API server and the host, with one client and one token for many requests.

use std::time::{Duration, Instant};

use anyhow::Result;
use operetta_host::cluster::connect;
use tokio::sync::Mutex;

use super::view::Target;
use crate::{
    args::{ClusterArgs, HostArgs},
    commands::host_service::HostService,
};

/// How long a client and a token of `--service-account` are reused. The token is valid for ten
/// minutes, but the kubeconfig may have changed.
const KEPT: Duration = Duration::from_secs(60);

/// Connects to the API server and to the host.
pub struct Access<'a> {
    cluster: &'a ClusterArgs,
    host: &'a HostArgs,
    namespace: Option<String>,
    client: Mutex<Option<(Instant, kube::Client)>>,
    token: Mutex<Option<(Instant, String)>>,
}

impl<'a> Access<'a> {
    pub fn new(cluster: &'a ClusterArgs, host: &'a HostArgs, target: &Target) -> Self {
        Self {
            cluster,
            host,
            namespace: target.namespace.clone(),
            client: Mutex::default(),
            token: Mutex::default(),
        }
    }

    /// The flags for the host.
    pub fn host(&self) -> &HostArgs {
        self.host
    }

    /// A client, and the namespace of the view or else of the context.
    ///
    /// # Errors
    /// Returns an error if the kubeconfig cannot be read or is incomplete.
    pub async fn client(&self) -> Result<(kube::Client, String)> {
        let mut kept = self.client.lock().await;

        let client = match &*kept {
            Some((at, client)) if at.elapsed() < KEPT => client.clone(),
            _ => kept
                .insert((Instant::now(), connect(self.cluster).await?))
                .1
                .clone(),
        };

        let namespace = self
            .namespace
            .clone()
            .unwrap_or_else(|| client.default_namespace().to_owned());
        Ok((client, namespace))
    }

    /// The flags for the host, with a token in place of `--service-account`.
    ///
    /// # Errors
    /// Returns an error if the API server creates no token.
    pub async fn host_with_token(
        &self,
        client: &kube::Client,
        namespace: &str,
    ) -> Result<HostArgs> {
        let HostArgs {
            host,
            host_namespace,
            host_class,
            token,
            ..
        } = self.host;

        let mut args = HostArgs {
            host: host.clone(),
            host_namespace: host_namespace.clone(),
            host_class: host_class.clone(),
            service_account: None,
            token: token.clone(),
        };

        if self.host.service_account.is_some() && host.is_none() {
            let mut kept = self.token.lock().await;

            if kept.as_ref().is_none_or(|(at, _)| at.elapsed() >= KEPT) {
                let token = HostService::new(client, self.host, namespace)
                    .token()
                    .await?;
                *kept = token.map(|token| (Instant::now(), token));
            }

            args.token = kept.as_ref().map(|(_, token)| token.clone());
        }

        Ok(args)
    }
}
