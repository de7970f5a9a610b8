//! The custom resource Plugin, with its types from `operetta-api`.

pub use operetta_api::plugin::{
    API_VERSION, CommandStatus, Condition, ConfigKind, ConfigMapSource, ConfigRef, ConfigSource,
    ControllerOverride, ControllerStatus, DownwardApiFile, FieldPath, GrpcAction, HttpGetAction,
    KIND, KeyToPath, KindFinalizers, Limits, MAX_SHARDS, Metrics, Owner, Plugin, PluginSpec,
    PluginStatus, Port, Probe, ProcessSpec, ProcessStatus, RemedyStatus, ReplicaStatus, Scheme,
    ShardStatus, Source, Termination, Usage, Volume, VolumeProjection, Warm,
};
use operetta_api::reasons;
use operetta_core::object::Object;
use operetta_wasm::WarmLimits;

use crate::{plugin::config::text, problem::Problem};

/// Returns the sandbox's limits of a warm instance, with defaults for missing ones.
pub fn warm_limits(warm: &Warm) -> WarmLimits {
    let defaults = WarmLimits::default();
    WarmLimits {
        max_calls: warm.max_calls.unwrap_or(defaults.max_calls),
        max_memory_growth_bytes: warm
            .max_memory_growth_bytes()
            .unwrap_or(defaults.max_memory_growth_bytes),
        ..defaults
    }
}

/// Decodes a Plugin. Limits its size in memory, because nobody has consented to it yet.
///
/// # Errors
/// What is wrong with it; the author must fix that.
pub fn decode(object: &Object) -> Result<Plugin, Problem> {
    let values = text::count_values(object.json());
    if values > text::MAX_VALUES {
        let most = text::MAX_VALUES;
        let message = format!(
            "the Plugin has {values} values, over the limit of {most}: shorten spec.config"
        );
        return Err(Problem::new(reasons::INVALID_PLUGIN, message));
    }

    serde_json::from_str(object.json()).map_err(|error| {
        let message = format!("failed to decode the Plugin: {error}");
        Problem::new(reasons::INVALID_PLUGIN, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_instance_has_default_bounds() {
        let limits = |text: &str| warm_limits(&serde_json::from_str::<Warm>(text).expect("json"));
        assert_eq!(limits("{}"), WarmLimits::default());
        let own = limits(r#"{"maxCalls":7,"maxMemoryGrowth":"1Mi"}"#);
        assert_eq!((own.max_calls, own.max_memory_growth_bytes), (7, 1 << 20));
    }
}
