//! Kubernetes' sample-controller on kube-rs: the native counterpart of
//! examples/sample-controller/rust, for the comparison in docs/sdks.md. `NAMESPACE` is the
//! namespace to watch.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::api::{
    apps::v1::{Deployment, DeploymentSpec},
    core::v1::{Container, PodSpec, PodTemplateSpec},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::{
    Api, Client, CustomResource, Resource, ResourceExt,
    api::{Patch, PatchParams, PostParams},
    runtime::{
        Config, Controller,
        controller::Action,
        events::{Event, EventType, Recorder},
        watcher,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The kind of examples/sample-controller/crd.yaml.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
#[kube(
    group = "samplecontroller.k8s.io",
    version = "v1alpha1",
    kind = "Foo",
    namespaced,
    status = "FooStatus"
)]
#[kube(schema = "disabled")]
#[serde(rename_all = "camelCase")]
struct FooSpec {
    #[serde(default)]
    deployment_name: String,
    replicas: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FooStatus {
    available_replicas: i32,
}

struct Data {
    client: Client,
    recorder: Recorder,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    /// Retrying cannot help.
    #[error("{0}")]
    Terminal(String),
    #[error("{0}")]
    Failed(String),
    #[error(transparent)]
    Kube(#[from] kube::Error),
}

#[tokio::main]
async fn main() -> Result<(), kube::Error> {
    let client = Client::try_default().await?;
    let namespace =
        std::env::var("NAMESPACE").unwrap_or_else(|_| client.default_namespace().to_owned());
    let recorder = Recorder::new(client.clone(), "sample-controller".into());
    let data = Arc::new(Data {
        client: client.clone(),
        recorder,
    });
    Controller::new(
        Api::<Foo>::namespaced(client.clone(), &namespace),
        watcher::Config::default(),
    )
    .owns(
        Api::<Deployment>::namespaced(client, &namespace),
        watcher::Config::default(),
    )
    .with_config(Config::default().concurrency(2))
    .run(reconcile, error_policy, data)
    .for_each(|result| async move {
        if let Err(error) = result {
            eprintln!("reconcile failed: {error}");
        }
    })
    .await;
    Ok(())
}

/// Brings the Deployment and the status of one Foo to the desired state.
async fn reconcile(object: Arc<Foo>, data: Arc<Data>) -> Result<Action, Error> {
    let namespace = object.namespace().unwrap_or_default();
    if object.spec.deployment_name.is_empty() {
        let key = format!("{namespace}/{}", object.name_any());
        return Err(Error::Terminal(format!(
            "{key}: deployment name must be specified"
        )));
    }
    let deployments: Api<Deployment> = Api::namespaced(data.client.clone(), &namespace);
    let mut deployment = match deployments.get_opt(&object.spec.deployment_name).await? {
        Some(found) => found,
        None => {
            deployments
                .create(&PostParams::default(), &new_deployment(&object))
                .await?
        }
    };
    if !deployment.owner_references().iter().any(|owner| {
        owner.controller == Some(true) && owner.uid == object.uid().unwrap_or_default()
    }) {
        let message = format!(
            "Resource {:?} already exists and is not managed by Foo",
            deployment.name_any()
        );
        publish(
            &data,
            &object,
            EventType::Warning,
            "ErrResourceExists",
            &message,
        )
        .await?;
        return Err(Error::Failed(message));
    }
    let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
    if object.spec.replicas.is_some() && object.spec.replicas != replicas {
        let patch = Patch::Merge(json!({"spec": {"replicas": object.spec.replicas}}));
        deployment = deployments
            .patch(
                &object.spec.deployment_name,
                &PatchParams::default(),
                &patch,
            )
            .await?;
    }
    let available_replicas = deployment
        .status
        .and_then(|status| status.available_replicas)
        .unwrap_or_default();
    let status = FooStatus { available_replicas };
    if object.status.as_ref() != Some(&status) {
        let patch = Patch::Merge(json!({"status": status}));
        let foos: Api<Foo> = Api::namespaced(data.client.clone(), &namespace);
        foos.patch_status(&object.name_any(), &PatchParams::default(), &patch)
            .await?;
    }
    publish(
        &data,
        &object,
        EventType::Normal,
        "Synced",
        "Foo synced successfully",
    )
    .await?;
    Ok(Action::await_change())
}

fn error_policy(_: Arc<Foo>, error: &Error, _: Arc<Data>) -> Action {
    match error {
        Error::Terminal(_) => Action::await_change(),
        Error::Failed(_) | Error::Kube(_) => Action::requeue(Duration::from_secs(5)),
    }
}

async fn publish(
    data: &Data,
    object: &Foo,
    type_: EventType,
    reason: &str,
    note: &str,
) -> Result<(), Error> {
    let event = Event {
        type_,
        reason: reason.into(),
        note: Some(note.into()),
        action: "Sync".into(),
        secondary: None,
    };
    Ok(data
        .recorder
        .publish(&event, &object.object_ref(&()))
        .await?)
}

/// Returns the Deployment that a Foo asks for, controlled by it.
fn new_deployment(object: &Foo) -> Deployment {
    let labels = BTreeMap::from([
        ("app".to_owned(), "nginx".to_owned()),
        ("controller".to_owned(), object.name_any()),
    ]);
    let container = Container {
        name: "nginx".to_owned(),
        image: Some("nginx:latest".to_owned()),
        ..Container::default()
    };
    Deployment {
        metadata: ObjectMeta {
            name: Some(object.spec.deployment_name.clone()),
            namespace: object.namespace(),
            owner_references: object.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(DeploymentSpec {
            replicas: object.spec.replicas,
            selector: LabelSelector {
                match_labels: Some(labels.clone()),
                ..LabelSelector::default()
            },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels),
                    ..ObjectMeta::default()
                }),
                spec: Some(PodSpec {
                    containers: vec![container],
                    ..PodSpec::default()
                }),
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}
