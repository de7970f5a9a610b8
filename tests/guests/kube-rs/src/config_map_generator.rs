//! kube-rs's example `configmapgen_controller`, with a status, a list and an Event added.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, ObjectMeta, Patch, PatchParams, Resource};
use kube::{Client, CustomResource};
use operetta_sdk::Context;
use operetta_sdk::kube_rs::controller::Action;
use operetta_sdk::kube_rs::events::{Event, EventType, Recorder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The error of a reconcile.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused.
    #[error("Failed to create ConfigMap: {0}")]
    ConfigMapCreationFailed(#[source] kube::Error),
    /// The API server refused.
    #[error("Failed to {0}: {1}")]
    Other(&'static str, #[source] kube::Error),
    /// The object lacks a part of its key.
    #[error("MissingObjectKey: {0}")]
    MissingObjectKey(&'static str),
}

/// The content of the ConfigMap.
#[derive(CustomResource, Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[kube(group = "nullable.se", version = "v1", kind = "ConfigMapGenerator")]
#[kube(shortname = "cmg", status = "ConfigMapGeneratorStatus", namespaced)]
pub struct ConfigMapGeneratorSpec {
    /// The value of the key `content`.
    pub content: String,
}

/// The observed state.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
pub struct ConfigMapGeneratorStatus {
    /// The number of ConfigMaps that the generators of the namespace have created.
    #[serde(default)]
    pub made: usize,
}

/// The context, in kube-rs's sense.
pub struct Data {
    client: Client,
    recorder: Recorder,
}

impl Data {
    /// Returns the context of one reconcile.
    pub fn new(ctx: &Context) -> Self {
        Self {
            client: ctx.kube_client(),
            recorder: ctx.kube_recorder(),
        }
    }
}

/// Applies the ConfigMap of a generator.
///
/// # Errors
/// Returns an error if the generator has no key or uid, or a request fails.
pub async fn reconcile(
    generator: Arc<ConfigMapGenerator>,
    ctx: Arc<Data>,
) -> Result<Action, Error> {
    let client = &ctx.client;
    let mut contents = BTreeMap::new();
    contents.insert("content".to_string(), generator.spec.content.clone());

    let oref = generator
        .controller_owner_ref(&())
        .ok_or(Error::MissingObjectKey(".metadata.uid"))?;
    let cm = ConfigMap {
        metadata: ObjectMeta {
            name: generator.metadata.name.clone(),
            labels: Some([("made-by".to_string(), "generator".to_string())].into()),
            owner_references: Some(vec![oref]),
            ..ObjectMeta::default()
        },
        data: Some(contents),
        ..Default::default()
    };

    let namespace = generator
        .metadata
        .namespace
        .as_ref()
        .ok_or(Error::MissingObjectKey(".metadata.namespace"))?;
    let cm_api = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let name = cm
        .metadata
        .name
        .as_ref()
        .ok_or(Error::MissingObjectKey(".metadata.name"))?;

    let before = cm_api
        .get_opt(name)
        .await
        .map_err(|error| Error::Other("read the ConfigMap", error))?;
    cm_api
        .patch(
            name,
            &PatchParams::apply("configmapgenerator.kube-rt.nullable.se"),
            &Patch::Apply(&cm),
        )
        .await
        .map_err(Error::ConfigMapCreationFailed)?;

    // The list comes from the cache, which has the plugin's own write.
    let made = cm_api
        .list(&ListParams::default().labels("made-by=generator"))
        .await;
    let made = made
        .map_err(|error| Error::Other("list ConfigMaps", error))?
        .items
        .len();

    if generator.status.as_ref().map(|status| status.made) != Some(made) {
        let generators: Api<ConfigMapGenerator> = Api::namespaced(client.clone(), namespace);
        let status = Patch::Merge(json!({"status": ConfigMapGeneratorStatus { made }}));
        let written = generators
            .patch_status(name, &PatchParams::default(), &status)
            .await;
        written.map_err(|error| Error::Other("write the status", error))?;
    }

    if before.is_none() {
        let event = Event {
            type_: EventType::Normal,
            reason: "Generated".to_string(),
            note: Some(format!("ConfigMap {name} is there")),
            action: "Create".to_string(),
            secondary: None,
        };
        let published = ctx
            .recorder
            .publish(&event, &generator.object_ref(&()))
            .await;
        published.map_err(|error| Error::Other("record an Event", error))?;
    }

    Ok(Action::requeue(Duration::from_secs(300)))
}

/// Requeues a failed object after a second.
pub fn error_policy(_object: Arc<ConfigMapGenerator>, _error: &Error, _ctx: Arc<Data>) -> Action {
    Action::requeue(Duration::from_secs(1))
}
