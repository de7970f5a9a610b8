//! Team B's plugin, the attacker. It runs the attack in `data.do` of the ConfigMap `attack` in its
//! namespace: `probe` attempts to access team A's objects and logs the results (probe.rs); the
//! others exhaust resources of the shared host.

mod probe;

use std::hint::black_box;

use operetta_sdk::k8s_openapi::api::core::v1::ConfigMap;
use operetta_sdk::{
    Action, Context, Controller, Error, EventType, Object, Plugin, Source, tracing,
};

operetta_sdk::plugin!(plugin);

/// Returns the controller `attack` of labelled ConfigMaps in the Plugin's own namespace.
pub fn plugin() -> Plugin {
    let orders = Source::of::<ConfigMap>()
        .labels("multi-tenant.operetta.dev/attack=true")
        .own_namespace();
    Plugin::new().controller(Controller::new("attack", reconcile).for_source(orders))
}

fn reconcile(ctx: &Context, order: ConfigMap) -> Result<Action, Error> {
    let order_text = order
        .data
        .as_ref()
        .and_then(|data| data.get("do"))
        .map(String::as_str);
    match order_text.unwrap_or_default() {
        "probe" => probe::everything(ctx)?,
        "spin" => loop {
            black_box(());
        },
        "grow" => grow(),
        "log" => {
            let line = "x".repeat(1_024);
            (0..100_000).for_each(|n| tracing::info!(n, "{line}"));
        }
        "calls" => loop {
            black_box(ctx.get_live::<ConfigMap>(order.key())?);
        },
        "events" => {
            for n in 0..10_000 {
                ctx.event(
                    &order,
                    EventType::Warning,
                    &format!("Flood{n}"),
                    "one of very many",
                );
            }
        }
        other => tracing::info!("data.do is {other:?}: nothing is done"),
    }
    Ok(Action::done())
}

fn grow() {
    let mut all = Vec::new();
    loop {
        all.push(black_box(vec![1_u8; 1 << 20]));
    }
}

#[cfg(test)]
mod tests {
    use operetta_sdk::object_meta;
    use operetta_sdk::testing::Cluster;

    use super::*;

    #[test]
    fn ignores_unknown_attack() {
        let metadata = object_meta(("team-b", "attack"));
        let cluster = Cluster::new().with(ConfigMap {
            metadata,
            ..ConfigMap::default()
        });
        let request = operetta_sdk::Request::new("attack", ("team-b", "attack"));
        assert_eq!(
            cluster.reconcile_request(&plugin(), request).expect("done"),
            Action::done()
        );
        assert_eq!(
            cluster.logs()[0].message,
            "data.do is \"\": nothing is done"
        );
    }
}
