//! Reads the contents of pages: an object as YAML, and the log of a Plugin.

use std::time::Duration;

use anyhow::{Context, Result};
use operetta_core::object::{ObjectKey, kind::GroupVersionKind};
use operetta_host::describe_with_code;
use operetta_manager::logs::store::LogLine;
use serde_json::json;
use tokio::sync::mpsc::Sender;

use super::{access::Access, document, feed::explained, view::Update};
use crate::commands::{
    host_client::{address, get, plugin},
    logs::human,
    objects,
};

/// How many earlier lines a log begins with.
const TAIL: usize = 200;
/// The pause before a log is followed again.
const PAUSE: Duration = Duration::from_secs(2);

/// Reads an object.
pub async fn read(
    access: &Access<'_>,
    kind: &GroupVersionKind,
    key: ObjectKey,
    out: &Sender<Update>,
) {
    let found = document(access, kind, &key)
        .await
        .map_err(|error| explained(&error));
    // The view may be gone.
    let _sent = out.send(Update::Document(key, found)).await;
}

async fn document(access: &Access<'_>, kind: &GroupVersionKind, key: &ObjectKey) -> Result<String> {
    let (client, _) = access.client().await?;
    let metadata = match &key.namespace {
        Some(namespace) => json!({"name": key.name, "namespace": namespace}),
        None => json!({"name": key.name}),
    };

    let wanted = json!({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata});

    let found = objects::read(&client, &wanted)
        .await?
        .context("it no longer exists")?;

    Ok(document::yaml(serde_json::to_value(found)?))
}

/// Follows the log of a Plugin until the receiver is gone.
pub async fn follow(access: &Access<'_>, key: ObjectKey, out: &Sender<Update>) {
    while out.send(Update::LogBegins(key.clone())).await.is_ok() {
        let end = match log(access, &key, out).await {
            Ok(()) => {
                "the log ends here: the plugin was removed or moves to another replica, or the host stops".to_owned()
            }
            Err(error) => describe_with_code(&error),
        };

        if out.send(Update::Log(key.clone(), vec![end])).await.is_err() {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Sends lines until the log ends.
async fn log(access: &Access<'_>, key: &ObjectKey, out: &Sender<Update>) -> Result<()> {
    let (client, _) = access.client().await?;
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let host = access.host_with_token(&client, namespace).await?;
    let path = format!("/logs/{namespace}/{}?follow=true&tail={TAIL}", key.name);

    let outside = async || address(&plugin(client.clone(), namespace, &key.name).await?);
    let mut response = get(&client, &host, namespace, &path, outside)
        .await?
        .checked()
        .await?;

    let mut pending = Vec::new();
    while let Some(data) = response.next().await? {
        pending.extend_from_slice(&data);
        let Some(end) = pending.iter().rposition(|byte| *byte == b'\n') else {
            continue;
        };

        let whole: Vec<u8> = pending.drain(..=end).collect();
        let lines = whole
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());

        let lines = lines.map(|line| match serde_json::from_slice::<LogLine>(line) {
            Ok(line) => human(&line),
            Err(_) => String::from_utf8_lossy(line).into_owned(),
        });

        out.send(Update::Log(key.clone(), lines.collect())).await?;
    }

    Ok(())
}
