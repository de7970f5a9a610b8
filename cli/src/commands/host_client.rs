//! Requests of the commands to a host.
//!
//! A host in the cluster is reached through the API server, as a Service, with the kubeconfig's
//! credentials ([`host_service`](super::host_service)). If the cluster has no such Service, the
//! host runs outside it, and the status of Plugins names its address. Tenants may write that
//! status, so requests to such an address carry no token.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use http::Method;
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use operetta_api::reasons;
use operetta_core::{
    gate::operation::{Get, Item, List, ListOptions, Read},
    object::{ObjectKey, kind::GroupVersionKind},
    ports::ObjectApi,
    status::ErrorKind,
};
use operetta_host::cluster;
use operetta_kube::{
    client::{
        api_client::{ApiClient, Identity},
        object_api::PluginApi,
    },
    discovery::Discovery,
    informer::registry::InformerRegistry,
};
use tokio::net::TcpStream;

use super::{host_address::HostAddress, host_response::HostResponse, host_service::HostService};
use crate::args::{HostArgs, PluginArgs};
use operetta_manager::plugin::crd::{self, Plugin};

/// Connects to the cluster. Returns the client and the namespace that the arguments select.
///
/// # Errors
/// Returns an error if the kubeconfig cannot be read or is incomplete.
pub async fn connect(args: &PluginArgs) -> Result<(kube::Client, String)> {
    let client = cluster::connect(&args.cluster).await?;
    let namespace = args
        .namespace
        .clone()
        .unwrap_or_else(|| client.default_namespace().to_owned());

    Ok((client, namespace))
}

/// Sends a GET request to the selected host. `namespace` is the one of `--service-account`. If
/// there is no Service, the host has the address that `outside` returns.
///
/// # Errors
/// Returns an error if there is no host, or no connection to it.
pub async fn get(
    client: &kube::Client,
    args: &HostArgs,
    namespace: &str,
    path: &str,
    outside: impl AsyncFnOnce() -> Result<HostAddress>,
) -> Result<HostResponse> {
    send(client, args, namespace, (Method::GET, path), outside).await
}

/// Sends a request without a body to the host, as [`get`] does.
///
/// # Errors
/// Fails as [`get`] does.
pub async fn send(
    client: &kube::Client,
    args: &HostArgs,
    namespace: &str,
    (method, path): (Method, &str),
    outside: impl AsyncFnOnce() -> Result<HostAddress>,
) -> Result<HostResponse> {
    if let Some(address) = &args.host {
        return send_to(address, method, path).await;
    }

    let service = HostService::new(client, args, namespace);
    if let Some(response) = service.send(method.clone(), path).await? {
        return Ok(response);
    }

    let address = outside().await?;
    send_to(&address, method, path).await
}

/// Reads a Plugin from the API server.
///
/// # Errors
/// Returns an error if the Plugin does not exist, may not be read or cannot be decoded.
pub async fn plugin(client: kube::Client, namespace: &str, name: &str) -> Result<Plugin> {
    let api_client = ApiClient::new(client, &Identity::Host)?;

    let registry = InformerRegistry::new(api_client.clone());
    let api = PluginApi::of_host(
        api_client.clone(),
        Discovery::new(api_client),
        registry,
        "operetta".to_owned(),
    );

    let key = ObjectKey::namespaced(namespace, name);
    let kind = GroupVersionKind::new(crd::API_VERSION, crd::KIND);

    let object = match api
        .get(Get {
            kind,
            key,
            read: Read::Live,
        })
        .await
    {
        Ok(object) => object,
        Err(error) if error.kind == ErrorKind::NotFound => {
            let message = format!(
                "Plugin {name:?} not found in namespace {namespace:?} (-n selects another one)"
            );
            bail!(reasons::PLUGIN_NOT_FOUND.error(message))
        }
        Err(error) => {
            return Err(error).with_context(|| format!("failed to get Plugin {namespace}/{name}"));
        }
    };

    serde_json::from_str(object.json())
        .with_context(|| format!("failed to decode Plugin {namespace}/{name}"))
}

/// The address of the host outside the cluster that runs a Plugin.
///
/// # Errors
/// Returns an error if the Plugin's status names no address.
pub fn address(plugin: &Plugin) -> Result<HostAddress> {
    let name = plugin.metadata.name.as_deref().unwrap_or_default();

    let host = plugin
        .status
        .as_ref()
        .and_then(|status| status.host.as_deref())
        .filter(|address| !address.is_empty());

    let host = host.with_context(|| {
        let hint = "check that `operetta run` is running, or use --host-namespace or --host";
        reasons::HOST_UNKNOWN.error(format!("Plugin {name:?} is not assigned to a host: {hint}"))
    })?;

    let address = host.parse().map_err(anyhow::Error::msg);
    address.with_context(|| format!("status.host of Plugin {name:?} is not an address ({host:?})"))
}

/// The address of the host outside the cluster that the Plugins name.
///
/// # Errors
/// Returns an error if no Plugin names one, or they name several.
pub async fn any_host(client: kube::Client) -> Result<HostAddress> {
    let api_client = ApiClient::new(client, &Identity::Host)?;
    let registry = InformerRegistry::new(api_client.clone());
    let api = PluginApi::of_host(
        api_client.clone(),
        Discovery::new(api_client),
        registry,
        "operetta".to_owned(),
    );

    let projection = vec![".status.host".to_owned()];
    let options = ListOptions {
        projection,
        ..ListOptions::all(None, Read::Live)
    };

    let kind = GroupVersionKind::new(crd::API_VERSION, crd::KIND);
    let page = api.list(List { kind, options }).await;
    let page = page.context("failed to list Plugins to find the host (use --host)")?;

    let host = |item: &Item| {
        let plugin: serde_json::Value = serde_json::from_str(item.json()).ok()?;
        let host = plugin["status"]["host"].as_str().unwrap_or_default();
        Some(host.to_owned()).filter(|host| !host.is_empty())
    };

    let hosts: BTreeSet<String> = page.items.iter().filter_map(host).collect();
    match hosts.iter().collect::<Vec<_>>()[..] {
        [] => {
            let message = "no Plugin is assigned to a host: check that `operetta run` is running, or use --host-namespace or --host";
            bail!(reasons::HOST_UNKNOWN.error(message))
        }
        [host] => host
            .parse()
            .map_err(anyhow::Error::msg)
            .with_context(|| format!("status.host is not an address ({host:?})")),
        ref hosts => {
            let message = format!(
                "the Plugins run on {} hosts, select one with --host: {hosts:?}",
                hosts.len()
            );
            bail!(reasons::SEVERAL_HOSTS.error(message))
        }
    }
}

/// Sends a GET request to a host outside the cluster, without a token.
///
/// # Errors
/// Returns an error if there is no connection to the host, or it closes before the response.
pub async fn get_from(address: &HostAddress, path: &str) -> Result<HostResponse> {
    send_to(address, Method::GET, path).await
}

/// Sends a request without a body to a host outside the cluster, as [`get_from`] does.
///
/// # Errors
/// Fails as [`get_from`] does.
pub async fn send_to(address: &HostAddress, method: Method, path: &str) -> Result<HostResponse> {
    let unreachable = || {
        reasons::HOST_UNREACHABLE.error(format!(
            "failed to reach the host at {address} (is it running? for a host in a Pod without a Service, run kubectl \
             port-forward and use --host)"
        ))
    };

    let stream = TcpStream::connect(address.as_str())
        .await
        .with_context(unreachable)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .with_context(unreachable)?;

    tokio::spawn(connection);

    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::HOST, address.as_str());
    let request = request.body(Empty::<Bytes>::new())?;

    let (response, body) = sender
        .send_request(request)
        .await
        .with_context(unreachable)?
        .into_parts();

    Ok(HostResponse::new(
        response.status,
        &response.headers,
        body,
        format!("the host at {address}"),
    ))
}
