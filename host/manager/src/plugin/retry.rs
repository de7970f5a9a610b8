//! Retrying keys of a plugin at a user's request, as the host serves it at /retry/NAMESPACE/PLUGIN
//! for `operetta retry`.

use operetta_core::{object::ObjectKey, ports::LogLevel};
use serde::{Deserialize, Serialize};

use crate::plugin::{history, hosted_plugins::HostedPlugins};

/// The result of a retry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Retried {
    /// The number of keys that were added to a queue, once for each controller.
    pub keys: usize,
    /// The named keys unknown to all controllers.
    pub unknown: Vec<String>,
    /// True if other replicas run shards of the plugin. Their keys were not retried.
    pub has_others: bool,
}

/// Why no keys are retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryError {
    /// The host has no such plugin.
    Unknown,
    /// The plugin does not reconcile here: it is suspended or refused.
    NotRunning,
}

/// Retries these keys of a plugin now, or all failed keys if none is named. A key is
/// `NAMESPACE/NAME`, or the name alone for the Plugin's namespace and for cluster-scoped kinds.
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
