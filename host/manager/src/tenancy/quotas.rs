//! The quotas of plugins and tenants: the section `quotas` of the host's configuration.
//!
//! Processors and requests to the API server are shared by weight: what one namespace leaves,
//! another may use. A quota is a bound that an administrator sets on top. It throttles: a plugin
//! over its quota waits, is counted (`operetta_plugin_throttled_seconds_total`), says so in its
//! status, and loses nothing. The quotas of plugins, controllers and sources decide which Plugins
//! run: see [`super::admission`].

use std::{collections::BTreeMap, sync::Arc};

use operetta_core::gate::{
    in_flight::{Flow, Seats},
    throttle::CallRate,
};
use operetta_scheduler::Share;
use schemars::JsonSchema;
use serde::Deserialize;

/// The default of a namespace's reconciles in flight: a tenth of the host's.
pub const NAMESPACE_CONCURRENCY: u32 = 100;
/// The default of the requests to the API server that all plugins have in flight: a quarter of the
/// seats that a kube-apiserver with default flags gives to ServiceAccounts (`workload-low`).
pub const API_IN_FLIGHT: u32 = 64;
/// The default of a namespace's requests to the API server in flight.
pub const NAMESPACE_API_IN_FLIGHT: u32 = 16;
/// The default of the bytes that the host caches for a namespace's plugins.
pub const NAMESPACE_CACHE_BYTES: u64 = 256 << 20;
/// The default of a namespace's memory, in bytes.
pub const NAMESPACE_MEMORY_BYTES: u64 = 256 << 20;
/// The default of a namespace's Plugins.
pub const NAMESPACE_PLUGINS: u32 = 100;
/// The default of the controllers of a namespace's plugins: two for each plugin.
pub const NAMESPACE_CONTROLLERS: u32 = 200;
/// The default of the sources of a namespace's plugins: ten for each plugin.
pub const NAMESPACE_SOURCES: u32 = 1_000;
/// The default of the keys in the queues of a namespace's plugins. With long names they take some
/// 200 MB.
pub const NAMESPACE_QUEUED_KEYS: u32 = 300_000;

/// Quotas of plugins, and of the namespaces that they are in.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Quotas {
    /// The requests to the API server that all plugins together have in flight at once, without
    /// watches. Namespaces share them by weight. Zero counts as 1.
    #[schemars(extend("default" = API_IN_FLIGHT))]
    pub api_in_flight: Option<u32>,
    /// The quota of each plugin.
    pub plugin: PluginQuota,
    /// The quota of each namespace, for all of its plugins together.
    pub namespace: NamespaceQuota,
    /// The quotas of single namespaces; a field that one leaves out is taken from `namespace`.
    pub namespaces: BTreeMap<String, NamespaceQuota>,
}

/// The quota of one plugin. A field that is left out has no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PluginQuota {
    /// The weight among the plugins of its namespace when processors are short: 1 to 10000; 100 if
    /// left out.
    pub weight: Option<u32>,
    /// The processor seconds in each second, 0.001 at least.
    pub cpu: Option<f64>,
    /// The reconciles in flight at once.
    pub concurrency: Option<u32>,
    /// The requests to the API server in each second.
    pub api_qps: Option<u32>,
    /// The burst of requests beyond `apiQps`; as many as in a second if left out.
    pub api_burst: Option<u32>,
    /// The bytes that the host caches; an informer that several plugins use counts in equal parts.
    pub cache_bytes: Option<u64>,
}

/// The quota of one namespace. A field that is left out has the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NamespaceQuota {
    /// The weight among the namespaces when processors or requests in flight are short: 1 to 10000;
    /// 100 if left out.
    pub weight: Option<u32>,
    /// The processor seconds in each second, 0.001 at least.
    pub cpu: Option<f64>,
    /// The reconciles in flight at once.
    #[schemars(extend("default" = NAMESPACE_CONCURRENCY))]
    pub concurrency: Option<u32>,
    /// The requests to the API server in each second; no limit if left out.
    pub api_qps: Option<u32>,
    /// The burst of requests beyond `apiQps`; as many as in a second if left out.
    pub api_burst: Option<u32>,
    /// The requests to the API server in flight at once, without watches. Zero counts as 1.
    #[schemars(extend("default" = NAMESPACE_API_IN_FLIGHT))]
    pub api_in_flight: Option<u32>,
    /// The bytes that the host caches; an informer that several plugins use counts in equal parts.
    #[schemars(extend("default" = NAMESPACE_CACHE_BYTES))]
    pub cache_bytes: Option<u64>,
    /// The bytes of memory that reconciles take at once: of guests, and of what the host reads for
    /// them.
    #[schemars(extend("default" = NAMESPACE_MEMORY_BYTES))]
    pub memory_bytes: Option<u64>,
    /// The Plugins that are loaded.
    #[schemars(extend("default" = NAMESPACE_PLUGINS))]
    pub plugins: Option<u32>,
    /// The controllers of all plugins.
    #[schemars(extend("default" = NAMESPACE_CONTROLLERS))]
    pub controllers: Option<u32>,
    /// The sources of all controllers: `for`, `owns` and `watches`.
    #[schemars(extend("default" = NAMESPACE_SOURCES))]
    pub sources: Option<u32>,
    /// The keys in the queues of all controllers from which mappings add no new ones.
    #[schemars(extend("default" = NAMESPACE_QUEUED_KEYS))]
    pub queued_keys: Option<u32>,
}

impl Quotas {
    /// Returns the seats of all plugins' requests.
    pub fn seats(&self) -> Arc<Seats> {
        Seats::new(self.api_in_flight.unwrap_or(API_IN_FLIGHT))
    }

    /// Returns where the configuration has this quota of a plugin: its own (`of_plugin`), or that of
    /// its namespace, or of all namespaces.
    pub fn path(&self, of_plugin: bool, namespace: &str, field: &str) -> String {
        match () {
            () if of_plugin => format!("quotas.plugin.{field}"),
            () if self.namespaces.contains_key(namespace) => {
                format!("quotas.namespaces.{namespace}.{field}")
            }
            () => format!("quotas.namespace.{field}"),
        }
    }

    /// Returns the quota of a namespace.
    pub fn of_namespace(&self, namespace: &str) -> NamespaceQuota {
        let own = self.namespaces.get(namespace).copied().unwrap_or_default();
        let all = self.namespace;
        NamespaceQuota {
            weight: own.weight.or(all.weight),
            cpu: own.cpu.or(all.cpu),
            concurrency: own.concurrency.or(all.concurrency),
            api_qps: own.api_qps.or(all.api_qps),
            api_burst: own.api_burst.or(all.api_burst),
            api_in_flight: own.api_in_flight.or(all.api_in_flight),
            cache_bytes: own.cache_bytes.or(all.cache_bytes),
            memory_bytes: own.memory_bytes.or(all.memory_bytes),
            plugins: own.plugins.or(all.plugins),
            controllers: own.controllers.or(all.controllers),
            sources: own.sources.or(all.sources),
            queued_keys: own.queued_keys.or(all.queued_keys),
        }
        .or_defaults()
    }
}

impl NamespaceQuota {
    /// Fills in the defaults.
    fn or_defaults(self) -> Self {
        Self {
            concurrency: self.concurrency.or(Some(NAMESPACE_CONCURRENCY)),
            api_in_flight: self.api_in_flight.or(Some(NAMESPACE_API_IN_FLIGHT)),
            cache_bytes: self.cache_bytes.or(Some(NAMESPACE_CACHE_BYTES)),
            memory_bytes: self.memory_bytes.or(Some(NAMESPACE_MEMORY_BYTES)),
            plugins: self.plugins.or(Some(NAMESPACE_PLUGINS)),
            controllers: self.controllers.or(Some(NAMESPACE_CONTROLLERS)),
            sources: self.sources.or(Some(NAMESPACE_SOURCES)),
            queued_keys: self.queued_keys.or(Some(NAMESPACE_QUEUED_KEYS)),
            ..self
        }
    }

    /// The namespace's value of each limit that a single plugin can have.
    fn shared(&self) -> PluginQuota {
        let Self {
            weight,
            cpu,
            concurrency,
            api_qps,
            api_burst,
            cache_bytes,
            ..
        } = *self;

        PluginQuota {
            weight,
            cpu,
            concurrency,
            api_qps,
            api_burst,
            cache_bytes,
        }
    }

    /// Returns the share that the scheduler enforces.
    pub fn share(&self) -> Share {
        self.shared().share()
    }

    /// Returns a rate limiter that the gate enforces; None without a limit.
    pub fn call_rate(&self) -> Option<Arc<CallRate>> {
        self.shared().call_rate()
    }

    /// Returns the namespace's share of the requests in flight.
    pub fn flow(&self, seats: &Arc<Seats>) -> Arc<Flow> {
        let limit = self.api_in_flight.unwrap_or(u32::MAX);
        seats.flow(self.share().weight, limit)
    }
}

impl PluginQuota {
    /// Returns the share that the scheduler enforces.
    pub fn share(&self) -> Share {
        let weight = self.weight.unwrap_or(Share::DEFAULT_WEIGHT);
        Share {
            weight,
            cpu_limit: self.cpu,
            concurrency: self.concurrency,
        }
    }

    /// Returns a rate limiter that the gate enforces; None without a limit.
    pub fn call_rate(&self) -> Option<Arc<CallRate>> {
        self.api_qps
            .map(|qps| Arc::new(CallRate::new(qps, self.api_burst.unwrap_or(qps))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_quota_overrides_the_default() {
        let text = "{namespace: {weight: 50, cpu: 0.5}, namespaces: {a: {weight: 200}}, plugin: {apiQps: 20}}";
        let quotas: Quotas = serde_yaml_ng::from_str(text).expect("yaml");
        assert_eq!(
            quotas.of_namespace("a").share(),
            Share {
                weight: 200,
                cpu_limit: Some(0.5),
                concurrency: Some(100)
            }
        );
        assert_eq!(
            quotas.of_namespace("b").share(),
            Share {
                weight: 50,
                cpu_limit: Some(0.5),
                concurrency: Some(100)
            }
        );
        assert!(
            quotas.plugin.call_rate().is_some() && quotas.of_namespace("a").call_rate().is_none()
        );
        assert_eq!(Quotas::default().plugin.share(), Share::default());
    }

    #[test]
    fn error_names_an_unknown_quota() {
        // A quota of namespaces is unknown to a plugin's.
        for (text, field) in [
            ("plugin: {cpus: 1}", "cpus"),
            ("plugin: {plugins: 1}", "plugins"),
        ] {
            let error = serde_yaml_ng::from_str::<Quotas>(text)
                .expect_err("unknown")
                .to_string();
            assert!(
                error.contains(&format!("unknown field `{field}`")),
                "{error}"
            );
        }
    }
}
