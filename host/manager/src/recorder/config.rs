//! The configuration of the flight recorder.

use std::time::Duration;

use operetta_core::recorder::Limits;
use schemars::JsonSchema;
use serde::Deserialize;

/// The bounds of the flight recorder: the reconciles of all plugins and the changes of objects,
/// without values.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct FlightRecorderConfig {
    /// The memory of all records, in MiB; 0 records nothing. When it is full, the plugin with most
    /// records loses its oldest.
    #[serde(rename = "sizeMiB")]
    pub size_mib: u64,
    /// The age of the oldest record, in seconds.
    pub window_seconds: u64,
}

impl Default for FlightRecorderConfig {
    fn default() -> Self {
        Self {
            size_mib: 16,
            window_seconds: 3600,
        }
    }
}

impl FlightRecorderConfig {
    pub(crate) fn limits(self) -> Limits {
        let bytes = usize::try_from(self.size_mib.saturating_mul(1 << 20)).unwrap_or(usize::MAX);
        Limits {
            bytes,
            window: Duration::from_secs(self.window_seconds),
        }
    }
}
