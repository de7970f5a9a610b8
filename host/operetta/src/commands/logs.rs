//! `operetta logs PLUGIN`: a plugin's log, from the host that runs it.
//!
//! The Plugin's status names that host's address. A host in a Pod is reached through `kubectl port-forward` and
//! `--host`.

use std::io::Write;

use anyhow::{Context, Result, bail};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use operetta_core::{
    kind::GroupVersionKind,
    object::ObjectKey,
    operation::{Operation, OperationAction, Read, Reply},
    ports::ObjectApi,
    status::ErrorKind,
};
use operetta_kube::{
    discovery::Discovery,
    object_api::PluginApi,
    registry::InformerRegistry,
    wire::{Identity, Wire},
};
use tokio::net::TcpStream;

use crate::{
    args::{LogsArgs, Output},
    log_store::LogLine,
    plugin::crd::{self, Plugin},
};

/// Prints the lines; with `--follow` until the host ends or the reader goes.
pub async fn logs(args: LogsArgs) -> Result<()> {
    let cluster = &args.cluster;
    let (namespace, address) = match (&args.namespace, &args.host) {
        (Some(namespace), Some(address)) => (namespace.clone(), address.clone()),
        _ => {
            let client =
                operetta_kube::connect::connect(cluster.kubeconfig.as_deref(), cluster.context.as_deref()).await?;
            let namespace = args.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
            let address = match &args.host {
                Some(address) => address.clone(),
                None => host_of(client, &namespace, &args.plugin).await?,
            };
            (namespace, address)
        }
    };
    let tail = args.tail.map(|tail| format!("&tail={tail}")).unwrap_or_default();
    let path = format!("/logs/{namespace}/{}?follow={}{tail}", args.plugin, args.follow);
    read(&address, &path, args.output).await
}

async fn host_of(client: kube::Client, namespace: &str, name: &str) -> Result<String> {
    let wire = Wire::new(client, &Identity::Host)?;
    let registry = InformerRegistry::new(wire.clone());
    let api = PluginApi::of_host(wire.clone(), Discovery::new(wire), registry, "operetta".to_owned());
    let action = OperationAction::Get { key: ObjectKey::namespaced(namespace, name), read: Read::Live };
    let kind = GroupVersionKind::new(crd::API_VERSION, crd::KIND);
    let object = match api.call(Operation { kind, action }).await {
        Ok(Reply::Object(object)) => object,
        Err(error) if error.kind == ErrorKind::NotFound => {
            bail!("no Plugin {name:?} in namespace {namespace:?} (-n chooses another)")
        }
        Err(error) => return Err(error.into()),
        Ok(Reply::Page(_) | Reply::Done) => bail!("the answer to a get is no object"),
    };
    let plugin: Plugin = serde_json::from_str(object.json()).context("the Plugin is not as its CRD says")?;
    let address = plugin.status.and_then(|status| status.host).filter(|address| !address.is_empty());
    address.with_context(|| format!("no host has taken up Plugin {name:?} yet: is `operetta run` running?"))
}

async fn read(address: &str, path: &str, output: Option<Output>) -> Result<()> {
    let unreachable =
        || format!("the host at {address} does not answer (is it running? In a Pod: port-forward and --host)");
    let stream = TcpStream::connect(address).await.with_context(unreachable)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.with_context(unreachable)?;
    tokio::spawn(connection);
    let request = http::Request::get(path).header(http::header::HOST, address).body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await.with_context(unreachable)?;
    let found = response.status().is_success();
    let mut body = response.into_body();
    let mut pending = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.context("the host went away")?.into_data() else { continue };
        pending.extend_from_slice(&data);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n').filter(|_| found) {
            let line: Vec<u8> = pending.drain(..=end).collect();
            // A closed pipe, as `head` leaves, is the reader's wish to stop.
            if print(&line, output).is_err() {
                return Ok(());
            }
        }
    }
    if found { Ok(()) } else { bail!("{}", String::from_utf8_lossy(&pending)) }
}

fn print(line: &[u8], output: Option<Output>) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    match (output, serde_json::from_slice::<LogLine>(line)) {
        (None, Ok(line)) => writeln!(stdout, "{}", human(&line))?,
        (Some(Output::Yaml), Ok(line)) => {
            write!(stdout, "---\n{}", serde_yaml_ng::to_string(&line).unwrap_or_default())?;
        }
        _ => stdout.write_all(line)?,
    }
    stdout.flush()
}

/// `2026-11-21T12:00:00.123Z INFO  default/a message name=value`
fn human(line: &LogLine) -> String {
    let time = line.time.split_once('.').map_or(line.time.clone(), |(seconds, rest)| {
        format!("{seconds}.{}Z", rest.chars().take(3).filter(char::is_ascii_digit).collect::<String>())
    });
    let key = if line.key.is_empty() { String::new() } else { format!("{} ", line.key) };
    let fields: String = line.fields.iter().map(|(name, value)| format!(" {name}={value:?}")).collect();
    format!("{time} {:5} {key}{}{fields}", line.level.to_uppercase(), line.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_people_has_time_level_key_message_and_fields() {
        let line = LogLine {
            time: "2026-11-21T12:00:00.123456789Z".into(),
            level: "info".into(),
            controller: "c".into(),
            key: "default/a".into(),
            reconcile_id: "r".into(),
            message: "hello".into(),
            fields: vec![("n".into(), "1".into())],
        };
        assert_eq!(human(&line), "2026-11-21T12:00:00.123Z INFO  default/a hello n=\"1\"");
    }
}
