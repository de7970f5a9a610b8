//! A guest with controllers written for kube-rs, after two of its examples:
//! `configmapgen_controller` (a custom resource becomes a ConfigMap by server-side apply, with an
//! owner reference) and `secret_syncer` (a ConfigMap becomes a Secret, with a finalizer in place of
//! an owner reference). They differ from the original programs in the function `plugin` in place of
//! `main`, and in the imports of `Action`, `finalizer` and `Recorder`.

mod config_map_generator;
mod secret_syncer;

use operetta_sdk::{Controller, Plugin, Source};

operetta_sdk::plugin!(plugin);

/// Returns two controllers, `generator` and `syncer`.
pub fn plugin() -> Plugin {
    let own_map =
        Source::resource::<k8s_openapi::api::core::v1::ConfigMap>().labels("made-by=generator");
    let synced = Source::resource::<k8s_openapi::api::core::v1::ConfigMap>().labels("sync=secret");

    Plugin::new()
        .controller(
            Controller::kube(
                "generator",
                config_map_generator::reconcile,
                config_map_generator::error_policy,
                config_map_generator::Data::new,
            )
            .owns_source(own_map)
            .own_namespace(),
        )
        .controller(
            Controller::kube(
                "syncer",
                secret_syncer::reconcile,
                secret_syncer::error_policy,
                |ctx| ctx.kube_client(),
            )
            .for_source(synced)
            .finalizer(secret_syncer::FINALIZER)
            .own_namespace(),
        )
}

#[cfg(test)]
mod tests;
