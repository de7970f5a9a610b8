//! kube-rs on the host: its own [`Client`], and reconcilers in the form of its `Controller`. With
//! the feature `kube`.
//!
//! [`Context::kube_client`] is a `kube::Client`, so `Api<T>`, `Patch::Apply`, `entry`, `get_opt`
//! and list parameters are kube-rs's own, unmodified. The host's cache, which includes the plugin's
//! own writes, answers GETs and lists; `Context::kube_client_live` asks the API server.
//! `Controller::kube` takes the function, the error policy and the context that
//! `kube::runtime::Controller::run` takes. `kube::runtime` itself does not compile for WASI. The
//! parts that reconcilers use are here under the same names: write `operetta_sdk::kube_rs::` in
//! place of `kube::runtime::`.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use kube::api::{Api, Patch, PatchParams};
//! use kube::{Client, ResourceExt};
//! use operetta_sdk::k8s_openapi::api::core::v1::{ConfigMap, Secret};
//! use operetta_sdk::kube_rs::controller::Action;
//! use operetta_sdk::{Controller, Plugin};
//! use serde_json::json;
//!
//! struct Data {
//!     client: Client,
//! }
//!
//! async fn reconcile(map: Arc<ConfigMap>, data: Arc<Data>) -> Result<Action, kube::Error> {
//!     let secrets: Api<Secret> = Api::namespaced(data.client.clone(), &map.namespace().unwrap_or_default());
//!     if secrets.get_opt(&map.name_any()).await?.is_none() {
//!         let maps: Api<ConfigMap> = Api::namespaced(data.client.clone(), &map.namespace().unwrap_or_default());
//!         let seen = Patch::Merge(json!({"metadata": {"labels": {"secret": "missing"}}}));
//!         maps.patch(&map.name_any(), &PatchParams::default(), &seen).await?;
//!     }
//!     Ok(Action::requeue(Duration::from_secs(300)))
//! }
//!
//! fn error_policy(_: Arc<ConfigMap>, _: &kube::Error, _: Arc<Data>) -> Action {
//!     Action::requeue(Duration::from_secs(5))
//! }
//!
//! fn plugin() -> Plugin {
//!     let data = |ctx: &operetta_sdk::Context| Data { client: ctx.kube_client() };
//!     Plugin::new().controller(Controller::kube("check", reconcile, error_policy, data).owns::<Secret>())
//! }
//!
//! operetta_sdk::plugin!(plugin);
//! # use operetta_sdk::testing::Cluster;
//! # let map = json!({"metadata": {"name": "a", "namespace": "ns"}});
//! # let cluster = Cluster::new().with(serde_json::from_value::<ConfigMap>(map).unwrap());
//! # let action = cluster.reconcile(&plugin(), "check", ("ns", "a")).unwrap();
//! # assert_eq!(action, operetta_sdk::Action::requeue_after(Duration::from_secs(300)));
//! # assert_eq!(cluster.get::<ConfigMap>(("ns", "a")).unwrap().metadata.labels.unwrap()["secret"], "missing");
//! ```
//!
//! # Limits
//! The host watches: a watch through an `Api` fails with 405. `exec`, `attach`, `portforward` and
//! followed logs need a stream, which a plugin does not have. Nothing runs in parallel with the
//! reconciler or after it: a `tokio::spawn` that is not awaited may not run. `tokio::time::sleep`
//! occupies one of the controller's workers: return `Action::requeue` instead.
//!
//! # Building
//! Depend on `kube` with `default-features = false`: its TLS does not compile for WASI. kube-client
//! needs features of tokio that are unstable on WASI; `operetta build` sets their flag. For plain
//! `cargo` put `rustflags = ["--cfg", "tokio_unstable"]` under `[target.wasm32-wasip2]` in the
//! project's `.cargo/config.toml`.

pub mod controller;
pub mod events;
mod executor;
pub mod finalizer;
mod service;

use kube::Client;

pub use executor::block_on;

use crate::{Context, GroupVersionKind, Source};
use service::RawService;

impl Context {
    /// Returns kube-rs's client. The cache answers its GETs and lists where it can, including this
    /// plugin's own writes. Its default namespace is that of the key being reconciled.
    ///
    /// Use it in `Controller::kube`(crate::Controller::kube), in [`block_on`], or, in a test, in a
    /// tokio runtime.
    pub fn kube_client(&self) -> Client {
        self.client(true)
    }

    /// Returns kube-rs's client; the API server answers all of its reads.
    pub fn kube_client_live(&self) -> Client {
        self.client(false)
    }

    fn client(&self, cached: bool) -> Client {
        let namespace = self
            .request
            .key
            .namespace
            .clone()
            .unwrap_or_else(|| "default".to_owned());

        let service = RawService::new(&self.backend, cached);
        executor::entered(|| Client::new(service, namespace))
    }
}

/// Returns the kind of a kube-rs type, e.g. one that derives `CustomResource`.
pub fn kind_of<K: kube::Resource<DynamicType = ()>>() -> GroupVersionKind {
    GroupVersionKind::new(K::api_version(&()), K::kind(&()))
}

impl Source {
    /// Selects every object and every event of a kube-rs type's kind, e.g. one that derives
    /// `CustomResource`.
    pub fn resource<K: kube::Resource<DynamicType = ()>>() -> Self {
        Self::kind(kind_of::<K>())
    }
}

#[cfg(test)]
mod tests;
