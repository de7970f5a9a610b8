//! The host's finalizers. Only the host removes them, so an uninstallation must not leave any.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind, PartialObjectMeta},
};
use operetta_api::{Class, finalizers::TEARDOWN, labels::CLASS};
use serde_json::json;
use tokio::time::{Instant, sleep};

/// How often to look whether the Plugins are gone.
const PAUSE: Duration = Duration::from_millis(500);

/// Deletes all Plugins and waits, at most `timeout`, until the host has let them go. Returns the
/// number of those that are left.
///
/// # Errors
/// The API server's error.
pub async fn delete_plugins(client: &Client, timeout: Duration) -> Result<usize> {
    for found in plugins(client).await? {
        let name = found.name_any();
        let namespace = found.namespace().unwrap_or_default();
        let api = Api::<DynamicObject>::namespaced_with(client.clone(), &namespace, &plugin());
        match api.delete(&name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            deleted => {
                deleted.with_context(|| format!("failed to delete Plugin {namespace}/{name}"))?;
            }
        }
    }

    let end = Instant::now() + timeout;
    loop {
        let left = plugins(client).await?.len();
        if left == 0 || Instant::now() > end {
            return Ok(left);
        }
        sleep(PAUSE).await;
    }
}

async fn plugins(client: &Client) -> Result<Vec<PartialObjectMeta<DynamicObject>>> {
    list(client, &plugin()).await
}

/// Lists the metadata of a kind's objects; none if the kind isn't served.
async fn list(
    client: &Client,
    resource: &ApiResource,
) -> Result<Vec<PartialObjectMeta<DynamicObject>>> {
    let all = Api::<DynamicObject>::all_with(client.clone(), resource);
    match all.list_metadata(&ListParams::default()).await {
        Ok(found) => Ok(found.items),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("failed to list {}", resource.plural)),
    }
}

/// Removes the finalizers that stopped hosts have left, of Plugins and of what they act with, in the
/// namespaces of this trust class, or without one. Returns the number of objects.
///
/// # Errors
/// The API server's error, with the object.
pub async fn release(client: &Client, class: Option<&Class>) -> Result<usize> {
    let selector = class.map_or_else(|| format!("!{CLASS}"), |class| format!("{CLASS}={class}"));
    let namespaces = Api::<Namespace>::all(client.clone())
        .list_metadata(&ListParams::default().labels(&selector))
        .await
        .context("failed to list namespaces")?;
    let namespaces: BTreeSet<String> = namespaces.iter().map(ResourceExt::name_any).collect();

    let kind = |group: &str, version: &str, kind: &str| {
        ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
    };
    let rbac = "rbac.authorization.k8s.io";

    let mut released = 0;
    for resource in [
        plugin(),
        kind("", "v1", "ServiceAccount"),
        kind(rbac, "v1", "Role"),
        kind(rbac, "v1", "RoleBinding"),
    ] {
        let found = list(client, &resource).await?;
        let is_of_class = |found: &PartialObjectMeta<DynamicObject>| {
            found
                .namespace()
                .is_some_and(|namespace| namespaces.contains(&namespace))
        };
        for found in found.iter().filter(|one| is_of_class(one) && is_held(one)) {
            release_one(client, &resource, found).await?;
            released += 1;
        }
    }
    Ok(released)
}

/// The resource of Plugins.
pub(super) fn plugin() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("operetta.dev", "v1alpha1", "Plugin"))
}

fn is_held(found: &PartialObjectMeta<DynamicObject>) -> bool {
    let mut finalizers = found.metadata.finalizers.iter().flatten();
    finalizers.any(|one| one == TEARDOWN)
}

async fn release_one(
    client: &Client,
    resource: &ApiResource,
    found: &PartialObjectMeta<DynamicObject>,
) -> Result<()> {
    let name = found.name_any();
    let namespace = found.namespace().unwrap_or_default();
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), &namespace, resource);

    let kept = found.metadata.finalizers.iter().flatten();
    let kept: Vec<_> = kept.filter(|one| *one != TEARDOWN).collect();
    let metadata = json!({"finalizers": kept, "resourceVersion": found.resource_version()});
    let patch = Patch::Merge(json!({ "metadata": metadata }));

    match api.patch_metadata(&name, &PatchParams::default(), &patch).await {
        // It has gone meanwhile.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        patched => patched.map(drop).with_context(|| {
            format!("failed to remove the finalizer {TEARDOWN} of {} {namespace}/{name}: run the command again", resource.kind)
        }),
    }
}
