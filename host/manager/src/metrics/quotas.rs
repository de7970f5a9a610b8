//! Samples of quotas: how many plugins, controllers, sources and queued keys each namespace uses.

use crate::{
    metrics::samples::{Labels, Samples},
    tenancy::tenants::Tenants,
};

/// Adds samples for all namespaces with Plugins.
pub fn sample(tenants: &Tenants, samples: &mut Samples) {
    let mut used = Vec::new();
    let mut limits = Vec::new();
    let mut over = Vec::new();

    for (namespace, usage, limit) in tenants.admission.usage() {
        let labels: Labels = vec![("namespace", namespace.clone())];
        for (quota, of_quota, most) in [
            ("plugins", usage.plugins, limit.plugins),
            (
                "controllers",
                usage.demand.controllers,
                limit.demand.controllers,
            ),
            ("sources", usage.demand.sources, limit.demand.sources),
            (
                "queuedKeys",
                tenants.queued_keys(&namespace),
                tenants.max_queued_keys(&namespace),
            ),
        ] {
            let mut labels = labels.clone();
            labels.push(("quota", quota.to_owned()));
            used.push((labels.clone(), of_quota as u64));
            limits.push((labels, most as u64));
        }

        over.push((labels, usage.over as u64));
    }

    samples.gauge(
        "operetta_quota_used",
        "Plugins, controllers, sources and queued keys that count under a quota",
        used,
    );
    samples.gauge(
        "operetta_quota_limit",
        "The most plugins, controllers, sources and queued keys of a namespace",
        limits,
    );
    samples.gauge(
        "operetta_plugins_over_quota",
        "Plugins that do not run for lack of a quota",
        over,
    );
}
