//! Requests of commands to the host that runs a plugin: the Plugin's status names its address.

use anyhow::{Context, Result, bail};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
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

use crate::args::PluginArgs;
use operetta_manager::plugin::crd::{self, Plugin};

/// The longest answer of a host, in bytes.
const MAX_ANSWER: usize = 64 << 20;

/// A client, and the namespace that is meant.
pub async fn connect(of: &PluginArgs) -> Result<(kube::Client, String)> {
    let cluster = &of.cluster;
    let client =
        operetta_kube::client::connect::connect(cluster.kubeconfig.as_deref(), cluster.context.as_deref()).await?;
    let namespace = of.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    Ok((client, namespace))
}

/// A Plugin as the cluster has it.
pub async fn plugin(client: kube::Client, namespace: &str, name: &str) -> Result<Plugin> {
    let wire = Wire::new(client, &Identity::Host)?;
    let registry = InformerRegistry::new(wire.clone());
    let api = PluginApi::of_host(wire.clone(), Discovery::new(wire), registry, "operetta".to_owned());
    let key = ObjectKey::namespaced(namespace, name);
    let kind = GroupVersionKind::new(crd::API_VERSION, crd::KIND);
    let object = match api.get(Get { kind, key, read: Read::Live }).await {
        Ok(object) => object,
        Err(error) if error.kind == ErrorKind::NotFound => {
            bail!("no Plugin {name:?} in namespace {namespace:?} (-n chooses another)")
        }
        Err(error) => return Err(error.into()),
    };
    serde_json::from_str(object.json()).context("the Plugin is not as its CRD says")
}

/// Returns the address of the host that runs a Plugin.
pub fn address(plugin: &Plugin) -> Result<String> {
    let host = plugin.status.as_ref().and_then(|status| status.host.clone()).filter(|address| !address.is_empty());
    let name = plugin.metadata.name.as_deref().unwrap_or_default();
    host.with_context(|| format!("no host has taken up Plugin {name:?} yet: is `operetta run` running?"))
}

/// GET at a host's address.
pub async fn get(address: &str, path: &str) -> Result<Response<Incoming>> {
    let unreachable =
        || format!("the host at {address} does not answer (is it running? In a Pod: port-forward and --host)");
    let stream = TcpStream::connect(address).await.with_context(unreachable)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.with_context(unreachable)?;
    tokio::spawn(connection);
    let request = http::Request::get(path).header(http::header::HOST, address).body(Empty::<Bytes>::new())?;
    sender.send_request(request).await.with_context(unreachable)
}

/// GET at a host's address, the whole answer.
pub async fn get_whole(address: &str, path: &str) -> Result<(StatusCode, Bytes)> {
    let response = get(address, path).await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
    let body = body.map_err(|error| anyhow::anyhow!("the host at {address} went away: {error}"))?;
    Ok((status, body.to_bytes()))
}
