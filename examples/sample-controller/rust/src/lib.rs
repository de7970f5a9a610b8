//! Kubernetes' sample-controller as an Operetta plugin: each Foo gets a Deployment of the name and
//! size in its spec, and a status with the number of available replicas.

#![allow(clippy::disallowed_names, reason = "Foo is the kind's name")]

use std::collections::BTreeMap;

use operetta_sdk::k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use operetta_sdk::k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use operetta_sdk::k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use operetta_sdk::{
    Action, Context, Controller, Error, EventType, Object, ObjectMeta, Plugin, Predicate, Resource,
    Source, is_controlled_by, object_meta, owner_reference, tracing,
};
use serde::{Deserialize, Serialize};

operetta_sdk::plugin!(plugin);

/// The desired Deployment, as crd.yaml defines it.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(
    group = "samplecontroller.k8s.io",
    version = "v1alpha1",
    kind = "Foo",
    status = "FooStatus"
)]
#[serde(rename_all = "camelCase", default)]
pub struct FooSpec {
    /// The Deployment's name.
    pub deployment_name: String,
    /// The Deployment's replicas, 1 to 10. If absent, the plugin leaves them alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

/// The observed Deployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FooStatus {
    /// The Deployment's available replicas.
    pub available_replicas: i32,
}

/// Returns the controller of the Foos in the Plugin's own namespace, and of the Deployments that
/// they control. A Deployment's periodic resync, with the resourceVersion unchanged, does not
/// trigger a reconcile.
pub fn plugin() -> Plugin {
    let deployments = Source::of::<Deployment>().predicate(Predicate::ResourceVersionChanged);
    Plugin::new().controller(
        Controller::new("foo", reconcile)
            .owns_source(deployments)
            .workers(2)
            .own_namespace(),
    )
}

fn reconcile(ctx: &Context, foo: Option<Foo>) -> Result<Action, Error> {
    let key = &ctx.request().key;
    let Some(foo) = foo else {
        // The garbage collector deletes its Deployment.
        tracing::info!(%key, "Foo in work queue no longer exists");
        return Ok(Action::done());
    };
    if foo.spec.deployment_name.is_empty() {
        return Err(Error::terminal(format!(
            "{key}: deployment name must be specified"
        )));
    }

    let wanted = new_deployment(&foo);
    let mut deployment = match ctx.get_opt::<Deployment>(wanted.key())? {
        Some(deployment) => deployment,
        None => ctx.create(&wanted)?,
    };
    if !is_controlled_by(&deployment, &foo) {
        let message = format!(
            "Resource {:?} already exists and is not managed by Foo",
            deployment.name()
        );
        ctx.event(&foo, EventType::Warning, "ErrResourceExists", &message);
        return Err(Error::msg(message));
    }
    let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
    if foo.spec.replicas.is_some() && foo.spec.replicas != replicas {
        tracing::debug!(%key, from = replicas, to = foo.spec.replicas, "Update deployment resource");
        deployment.spec.get_or_insert_default().replicas = foo.spec.replicas;
        deployment = ctx.update(&deployment)?;
    }

    let available_replicas = deployment
        .status
        .and_then(|status| status.available_replicas)
        .unwrap_or(0);
    let status = Some(FooStatus { available_replicas });
    if foo.status != status {
        ctx.update_status(&Foo {
            status,
            ..foo.clone()
        })?;
    }
    ctx.event(&foo, EventType::Normal, "Synced", "Foo synced successfully");
    Ok(Action::done())
}

/// Returns the Deployment that a Foo describes, controlled by it.
fn new_deployment(foo: &Foo) -> Deployment {
    let labels = [("app", "nginx"), ("controller", foo.name())]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let labels = Some(BTreeMap::from(labels));
    let nginx = Container {
        name: "nginx".to_owned(),
        image: Some("nginx:latest".to_owned()),
        ..Container::default()
    };
    Deployment {
        metadata: ObjectMeta {
            owner_references: Some(vec![owner_reference(foo)]),
            ..object_meta(foo.key().beside(&foo.spec.deployment_name))
        },
        spec: Some(DeploymentSpec {
            replicas: foo.spec.replicas,
            selector: LabelSelector {
                match_labels: labels.clone(),
                ..LabelSelector::default()
            },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels,
                    ..ObjectMeta::default()
                }),
                spec: Some(PodSpec {
                    containers: vec![nginx],
                    ..PodSpec::default()
                }),
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

#[cfg(test)]
mod tests;
