//! The controller of Greetings.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Client, CustomResource, Resource, ResourceExt,
    api::{Api, ObjectMeta, Patch, PatchParams},
    runtime::{
        controller::{Action, Controller},
        finalizer::{Event as Finalizer, finalizer},
        watcher::Config,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::{info, warn};

const FINALIZER: &str = "greetings.example.com/cleanup";

/// The desired state of a Greeting.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "hello.example.com", version = "v1", kind = "Greeting", namespaced)]
#[kube(status = "GreetingStatus")]
pub struct GreetingSpec {
    /// The text of the ConfigMap.
    pub message: String,
}

/// The observed state of a Greeting.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct GreetingStatus {
    /// True if the ConfigMap is written.
    pub written: bool,
}

/// The error of a reconcile.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request failed.
    #[error("request failed: {0}")]
    Kube(#[source] kube::Error),
    /// The finalizer could not be written, or the wrapped function failed.
    #[error("finalizer: {0}")]
    Finalizer(#[source] Box<kube::runtime::finalizer::Error<Error>>),
    /// The Greeting has no namespace or no uid.
    #[error("the Greeting was not read from the API server")]
    Incomplete,
}

type Result<T, E = Error> = std::result::Result<T, E>;

/// The data of each reconcile.
pub struct Context {
    /// kube-rs's client.
    client: Client,
}

/// Runs the controller until the process ends.
pub async fn run(client: Client) {
    let greetings = Api::<Greeting>::all(client.clone());
    let maps: Api<ConfigMap> = Api::all(client.clone());
    Controller::new(greetings, Config::default().any_semantic())
        .owns(maps, Config::default())
        .shutdown_on_signal()
        .run(reconcile, error_policy, Arc::new(Context { client }))
        .for_each(|result| async move {
            match result {
                Ok(object) => info!("reconciled {object:?}"),
                Err(error) => warn!("reconcile failed: {error}"),
            }
        })
        .await;
}

async fn reconcile(greeting: Arc<Greeting>, ctx: Arc<Context>) -> Result<Action> {
    let namespace = greeting.namespace().ok_or(Error::Incomplete)?;
    let greetings: Api<Greeting> = Api::namespaced(ctx.client.clone(), &namespace);
    finalizer(&greetings, FINALIZER, greeting, |event| async {
        match event {
            Finalizer::Apply(greeting) => apply(&greeting, &ctx, &namespace).await,
            Finalizer::Cleanup(greeting) => {
                info!("cleaning up after {}", greeting.name_any());
                Ok(Action::await_change())
            }
        }
    })
    .await
    .map_err(|error| Error::Finalizer(Box::new(error)))
}

async fn apply(greeting: &Greeting, ctx: &Context, namespace: &str) -> Result<Action> {
    let maps: Api<ConfigMap> = Api::namespaced(ctx.client.clone(), namespace);
    let greetings: Api<Greeting> = Api::namespaced(ctx.client.clone(), namespace);
    let name = greeting.name_any();
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            owner_references: Some(vec![greeting.controller_owner_ref(&()).ok_or(Error::Incomplete)?]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("message".to_owned(), greeting.spec.message.clone())])),
        ..ConfigMap::default()
    };
    let params = PatchParams::apply("greetings.example.com").force();
    maps.patch(&name, &params, &Patch::Apply(&map)).await.map_err(Error::Kube)?;
    let status = json!({"status": {"written": true}});
    greetings
        .patch_status(&name, &PatchParams::default(), &Patch::Merge(&status))
        .await
        .map_err(Error::Kube)?;
    Ok(Action::requeue(Duration::from_secs(300)))
}

fn error_policy(_: Arc<Greeting>, error: &Error, _: Arc<Context>) -> Action {
    warn!("reconcile failed: {error}");
    Action::requeue(Duration::from_secs(5))
}
