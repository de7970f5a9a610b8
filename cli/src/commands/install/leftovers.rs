//! What an uninstallation leaves in a cluster.

use std::fmt::Write;

use anyhow::{Context, Result};
use k8s_openapi::{
    api::{
        core::v1::Namespace,
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource,
    api::{DynamicObject, ListParams},
};
use operetta_api::{Class, labels::CLASS};
use serde::de::DeserializeOwned;

use super::finalizers::plugin;

/// The selector of the roles and bindings of grants.
const GRANTS: &str = "app.kubernetes.io/managed-by=operetta-grant";
/// The label of a namespace that is opted in.
const OPT_IN: &str = "operetta.dev/plugins";

/// Lists what is left and how to delete it, or nothing if nothing is left.
///
/// # Errors
/// Returns an error if a list of objects cannot be read.
pub async fn describe(client: &Client) -> Result<String> {
    let mut text = String::new();

    let definition = "plugins.operetta.dev";
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let found = definitions
        .get_opt(definition)
        .await
        .context("failed to read the CustomResourceDefinition")?;

    // If it has a deletion timestamp, its objects are being deleted already.
    if found.is_some_and(|found| found.metadata.deletion_timestamp.is_none()) {
        let plugins = Api::<DynamicObject>::all_with(client.clone(), &plugin());

        let count = plugins
            .list(&ListParams::default())
            .await
            .context("failed to list Plugins")?
            .items
            .len();
        writeln!(
            text,
            "  customresourcedefinition.apiextensions.k8s.io/{definition} and its Plugins ({count}): `operetta uninstall --delete-plugins`"
        )?;
    }

    let grants = count::<Role>(client, GRANTS).await?
        + count::<RoleBinding>(client, GRANTS).await?
        + count::<ClusterRole>(client, GRANTS).await?
        + count::<ClusterRoleBinding>(client, GRANTS).await?;
    if grants > 0 {
        writeln!(
            text,
            "  roles and bindings of grants ({grants}), for a ServiceAccount that no longer exists: `operetta grant --revoke NAME`"
        )?;
    }

    let namespaces = count::<Namespace>(client, OPT_IN).await?;
    if namespaces > 0 {
        writeln!(text, "  the label {OPT_IN} of namespaces ({namespaces})")?;
    }

    if text.is_empty() {
        return Ok("Only objects that plugins created are left.\n".to_owned());
    }

    Ok(format!(
        "Left in the cluster, besides objects that plugins created:\n{text}"
    ))
}

/// Says how many namespaces have lost the hosts of their class.
///
/// # Errors
/// Returns an error if the namespaces cannot be listed.
pub async fn describe_class(client: &Client, class: &Class) -> Result<String> {
    let label = format!("{CLASS}={class}");
    let namespaces = count::<Namespace>(client, &label).await?;
    if namespaces == 0 {
        return Ok(String::new());
    }
    Ok(format!(
        "Left in the cluster: the label {label} of namespaces ({namespaces}). No host runs their plugins any more.\n"
    ))
}

/// Counts the objects of a kind with a label.
async fn count<K>(client: &Client, selector: &str) -> Result<usize>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let listed = Api::<K>::all(client.clone())
        .list_metadata(&ListParams::default().labels(selector))
        .await;

    Ok(listed
        .with_context(|| format!("failed to list {}", K::plural(&())))?
        .items
        .len())
}
