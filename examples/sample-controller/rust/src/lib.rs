//! Kubernetes' sample-controller as an Operetta plugin: each Foo has a Deployment of the name and size it asks for, and
//! reports in its status how many replicas are available.

#![allow(clippy::disallowed_names, reason = "Foo is the kind's name")]

mod foo;

use std::collections::BTreeMap;

use operetta_sdk::k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use operetta_sdk::k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use operetta_sdk::k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use operetta_sdk::{
    Action, ApiError, Context, Controller, Error, EventType, Object, ObjectMeta, Plugin, Predicate, Source,
    is_controlled_by, set_controller_reference, tracing,
};

pub use foo::{Foo, FooSpec, FooStatus};

operetta_sdk::plugin!(plugin);

/// Foos of the Plugin's own namespace, and the Deployments that they control. A Deployment's periodic resync, its
/// resourceVersion unchanged, is no reason to reconcile.
pub fn plugin() -> Plugin {
    let deployments = Source::of::<Deployment>().predicate(Predicate::ResourceVersionChanged);
    Plugin::new().controller(Controller::new("foo", reconcile).owns_source(deployments).workers(2).own_namespace())
}

fn reconcile(ctx: &Context, foo: Option<Foo>) -> Result<Action, Error> {
    let key = &ctx.request().key;
    let Some(foo) = foo else {
        // Its Deployment goes by garbage collection.
        tracing::info!(%key, "Foo in work queue no longer exists");
        return Ok(Action::done());
    };
    if foo.spec.deployment_name.is_empty() {
        return Err(Error::terminal(format!("{key}: deployment name must be specified")));
    }

    let wanted = new_deployment(&foo)?;
    let mut deployment = match ctx.get::<Deployment>(wanted.key()) {
        Err(error) if error.is_not_found() => ctx.create(&wanted)?,
        read => read?,
    };
    if !is_controlled_by(&deployment, &foo) {
        let message = format!("Resource {:?} already exists and is not managed by Foo", deployment.name());
        ctx.event(&foo, EventType::Warning, "ErrResourceExists", &message);
        return Err(Error::msg(message));
    }
    if let Some(replicas) = foo.spec.replicas.filter(|replicas| Some(*replicas) != replicas_of(&deployment)) {
        tracing::debug!(%key, from = replicas_of(&deployment), to = replicas, "Update deployment resource");
        deployment.spec.get_or_insert_default().replicas = Some(replicas);
        deployment = ctx.update(&deployment)?;
    }

    write_status(ctx, &foo, &deployment)?;
    ctx.event(&foo, EventType::Normal, "Synced", "Foo synced successfully");
    Ok(Action::done())
}

/// Writes the status if it is to change: the API server would drop a write that changes nothing all the same.
fn write_status(ctx: &Context, foo: &Foo, deployment: &Deployment) -> Result<(), ApiError> {
    let available_replicas = deployment.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0);
    let status = Some(FooStatus { available_replicas });
    if foo.status != status {
        ctx.update_status(&Foo { status, ..foo.clone() })?;
    }
    Ok(())
}

fn replicas_of(deployment: &Deployment) -> Option<i32> {
    deployment.spec.as_ref()?.replicas
}

/// The Deployment that a Foo asks for, controlled by it.
fn new_deployment(foo: &Foo) -> Result<Deployment, Error> {
    let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let labels = Some(BTreeMap::from([label("app", "nginx"), label("controller", foo.name())]));
    let nginx = Container { name: "nginx".to_owned(), image: Some("nginx:latest".to_owned()), ..Container::default() };
    let mut deployment = Deployment {
        metadata: ObjectMeta {
            name: Some(foo.spec.deployment_name.clone()),
            namespace: foo.metadata.namespace.clone(),
            ..ObjectMeta::default()
        },
        spec: Some(DeploymentSpec {
            replicas: foo.spec.replicas,
            selector: LabelSelector { match_labels: labels.clone(), ..LabelSelector::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels, ..ObjectMeta::default() }),
                spec: Some(PodSpec { containers: vec![nginx], ..PodSpec::default() }),
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    };
    set_controller_reference(foo, &mut deployment)?;
    Ok(deployment)
}

#[cfg(test)]
mod tests;
