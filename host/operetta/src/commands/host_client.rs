//! Requests of the commands to the host that runs a plugin. The Plugin's status names the host's address.

use anyhow::{Context, Result, bail};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use operetta_api::reasons;
use operetta_core::{
    gate::operation::{Get, Read},
    object::{ObjectKey, kind::GroupVersionKind},
    ports::ObjectApi,
    status::ErrorKind,
};
use operetta_kube::{
    client::{
        object_api::PluginApi,
        wire::{Identity, Wire},
    },
    discovery::Discovery,
    informer::registry::InformerRegistry,
};
use tokio::net::TcpStream;

use super::{cluster_client, host_address::HostAddress};
use crate::args::PluginArgs;
use operetta_manager::plugin::crd::{self, Plugin};

/// The maximum size of a host's response, in bytes.
const MAX_ANSWER: usize = 64 << 20;

/// Connects to the cluster. Returns the client and the namespace that the arguments select.
///
/// # Errors
/// Returns an error if the kubeconfig cannot be read or is incomplete.
pub async fn connect(args: &PluginArgs) -> Result<(kube::Client, String)> {
    let client = cluster_client::connect(&args.cluster).await?;
    let namespace = args.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    Ok((client, namespace))
}

/// Reads a Plugin from the API server.
///
/// # Errors
/// Returns an error if the Plugin does not exist, may not be read or cannot be decoded.
pub async fn plugin(client: kube::Client, namespace: &str, name: &str) -> Result<Plugin> {
    let wire = Wire::new(client, &Identity::Host)?;
    let registry = InformerRegistry::new(wire.clone());
    let api = PluginApi::of_host(wire.clone(), Discovery::new(wire), registry, "operetta".to_owned());
    let key = ObjectKey::namespaced(namespace, name);
    let kind = GroupVersionKind::new(crd::API_VERSION, crd::KIND);
    let object = match api.get(Get { kind, key, read: Read::Live }).await {
        Ok(object) => object,
        Err(error) if error.kind == ErrorKind::NotFound => {
            let message = format!("Plugin {name:?} not found in namespace {namespace:?} (-n selects another one)");
            bail!(reasons::PLUGIN_NOT_FOUND.error(message))
        }
        Err(error) => return Err(error).with_context(|| format!("failed to get Plugin {namespace}/{name}")),
    };
    serde_json::from_str(object.json()).with_context(|| format!("failed to decode Plugin {namespace}/{name}"))
}

/// Returns the address of the host that runs a Plugin.
///
/// # Errors
/// Returns an error if the Plugin's status names no address.
pub fn address(plugin: &Plugin) -> Result<HostAddress> {
    let name = plugin.metadata.name.as_deref().unwrap_or_default();
    let host = plugin.status.as_ref().and_then(|status| status.host.as_deref()).filter(|address| !address.is_empty());
    let host = host.with_context(|| {
        let hint = "check that `operetta run` is running, or use --host";
        reasons::HOST_UNKNOWN.error(format!("Plugin {name:?} is not assigned to a host: {hint}"))
    })?;
    let address = host.parse().map_err(anyhow::Error::msg);
    address.with_context(|| format!("status.host of Plugin {name:?} is not an address ({host:?})"))
}

/// Sends a GET request to a host.
///
/// # Errors
/// Returns an error if there is no connection to the host, or it closes before the response.
pub async fn get(address: &HostAddress, path: &str) -> Result<Response<Incoming>> {
    let unreachable = || {
        reasons::HOST_UNREACHABLE.error(format!(
            "failed to reach the host at {address} (is it running? for a host in a Pod, run kubectl port-forward and \
             use --host)"
        ))
    };
    let stream = TcpStream::connect(address.as_str()).await.with_context(unreachable)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.with_context(unreachable)?;
    tokio::spawn(connection);
    let request = http::Request::get(path).header(http::header::HOST, address.as_str()).body(Empty::<Bytes>::new())?;
    sender.send_request(request).await.with_context(unreachable)
}

/// Sends a GET request to a host and reads the whole response.
///
/// # Errors
/// As [`get`]; also if the response is truncated or too long.
pub async fn get_whole(address: &HostAddress, path: &str) -> Result<(StatusCode, Bytes)> {
    let response = get(address, path).await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
    let body =
        body.map_err(|error| anyhow::anyhow!("failed to read the response of the host at {address}: {error}"))?;
    Ok((status, body.to_bytes()))
}
