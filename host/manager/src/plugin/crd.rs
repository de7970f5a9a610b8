//! The custom resource Plugin; `operetta-api` has its types.

pub use operetta_api::plugin::{
    API_VERSION, Condition, ConfigKind, ConfigMapSource, ConfigRef, ConfigSource, ControllerOverride, ControllerStatus,
    KIND, Limits, MAX_SHARDS, Owner, Plugin, PluginSpec, PluginStatus, ReplicaStatus, ShardStatus, Source, Usage, Warm,
};
use operetta_wasm::WarmLimits;

/// Returns the limits of a warm instance for the sandbox, with its defaults for those left out.
pub fn warm_limits(warm: &Warm) -> WarmLimits {
    let defaults = WarmLimits::default();
    WarmLimits {
        max_calls: warm.max_calls.unwrap_or(defaults.max_calls),
        max_memory_growth_bytes: warm.max_memory_growth_bytes().unwrap_or(defaults.max_memory_growth_bytes),
        ..defaults
    }
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
