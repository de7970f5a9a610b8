//! Retries a plugin's keys on request, as served at /retry/NAMESPACE/PLUGIN for `operetta retry`.

use operetta_core::{object::ObjectKey, ports::LogLevel};
use serde::{Deserialize, Serialize};

use crate::plugin::{history, hosted_plugins::HostedPlugins};

/// The result of a retry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Retried {
    /// How many keys were added to queues, counted once per controller.
    pub keys: usize,
    /// The requested keys that no controller knows.
    pub unknown: Vec<String>,
    /// True if other replicas run shards of the plugin and haven't retried their keys.
    pub has_others: bool,
}

/// Why no keys were retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryError {
    /// The host has no such plugin.
    Unknown,
    /// The plugin isn't running here: it is suspended or refused.
    NotRunning,
}

/// Retries these keys of a plugin now, or all failed ones if `keys` is empty. A key is
/// `NAMESPACE/NAME`, or just the name in the Plugin's namespace or of a cluster-scoped kind.
///
/// # Errors
/// See [`RetryError`].
pub async fn retry(
    hosted_plugins: &HostedPlugins,
    plugin: &ObjectKey,
    keys: &[String],
) -> Result<Retried, RetryError> {
    let hosted = hosted_plugins.get(plugin).ok_or(RetryError::Unknown)?;
    let state = hosted.state.lock().await;
    let running = state
        .running
        .as_ref()
        .filter(|_| hosted.is_owner())
        .ok_or(RetryError::NotRunning)?;
    let mut retried = Retried {
        has_others: running.has_others(),
        ..Retried::default()
    };
    if keys.is_empty() {
        retried.keys = running.retry_failed();
    }

    for key in keys {
        match history::keys(plugin, key)
            .iter()
            .map(|key| running.retry(key))
            .sum()
        {
            0 => retried.unknown.push(key.clone()),
            controllers => retried.keys += controllers,
        }
    }

    hosted.log.write_host_line(
        LogLevel::Info,
        format!("retry requested by a user: {} keys requeued", retried.keys),
    );
    Ok(retried)
}
