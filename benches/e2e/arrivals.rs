//! The ends of the objects' work, as this program's own watches see them.

use std::{fmt::Debug, time::Instant};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::{NamespaceResourceScope, api::apps::v1::Deployment};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    runtime::{WatchStreamExt, watcher},
};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::mpsc;

/// Receives the name of an object and the time when the watch received the end of its work, once
/// for each.
pub type Arrivals = mpsc::UnboundedReceiver<(String, Instant)>;

/// Watches Deployments: the work has ended when the one of the same name is there. Nobody changes a
/// Deployment: there are no controllers.
pub fn of_deployments(client: Client, namespace: &str) -> Arrivals {
    arrivals(Api::<Deployment>::namespaced(client, namespace), |_| true)
}

/// Watches objects of a kind: the work has ended when `status.phase` has this value, which is the
/// last change.
pub fn of_phase(
    client: Client,
    namespace: &str,
    kind: &ApiResource,
    phase: &'static str,
) -> Arrivals {
    arrivals(
        Api::<DynamicObject>::namespaced_with(client, namespace, kind),
        move |object| object.data["status"]["phase"] == phase,
    )
}

/// Reports each new object of a kind of workload as ready, as its controller would once kubelets
/// have started its Pod.
pub fn make_ready<K>(client: Client, namespace: &str)
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    let api: Api<K> = Api::namespaced(client, namespace);
    let ready = Patch::Merge(json!({"status": {"replicas": 1, "readyReplicas": 1}}));
    tokio::spawn(async move {
        let mut events = watcher(api.clone(), watcher::Config::default())
            .default_backoff()
            .boxed();
        while let Ok(Some(event)) = events.try_next().await {
            // The first version: nobody else has written it yet.
            if let watcher::Event::Apply(object) | watcher::Event::InitApply(object) = event
                && !object
                    .managed_fields()
                    .iter()
                    .any(|fields| fields.subresource.as_deref() == Some("status"))
                && let Err(error) = api
                    .patch_status(&object.name_any(), &PatchParams::default(), &ready)
                    .await
            {
                println!("{}: {error}", object.name_any());
            }
        }
    });
}

fn arrivals<K>(api: Api<K>, has_arrived: impl Fn(&K) -> bool + Send + 'static) -> Arrivals
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let (arrived, arrivals) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut events = watcher(api, watcher::Config::default())
            .default_backoff()
            .boxed();
        while let Ok(Some(event)) = events.try_next().await {
            if let watcher::Event::Apply(object) | watcher::Event::InitApply(object) = event
                && has_arrived(&object)
                && arrived.send((object.name_any(), Instant::now())).is_err()
            {
                return;
            }
        }
    });
    arrivals
}
