//! The cluster's side of a grant: served resources, the form of impersonation, and the grant's
//! roles and bindings.

use std::{collections::BTreeSet, fmt::Debug};

use anyhow::{Context, Result};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        core::v1::Namespace,
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use operetta_api::finalizers::TEARDOWN_ROLE;
use operetta_core::{
    authz::access_review::ServiceAccount,
    object::bounded_name::{MAX_OBJECT_NAME, bounded},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use super::mirror::{Granted, Served};
use crate::{
    args::ImpersonationMode,
    commands::roles::{self, Rules, plain},
};

/// The field manager, and the value of the label `app.kubernetes.io/managed-by`.
const MANAGER: &str = "operetta-grant";
/// The first version of Kubernetes with constrained impersonation by default.
const CONSTRAINED_SINCE: (u32, u32) = (1, 36);

/// The name of a grant's roles and bindings. The policies of deploy/rbac know the prefix.
fn name(account: &ServiceAccount) -> String {
    let ServiceAccount { namespace, name } = account;
    bounded(format!("operetta-host:{namespace}:{name}"), MAX_OBJECT_NAME)
}

/// The name of the RoleBinding with which the host keeps what the account's plugins act with, until
/// they have cleaned up.
fn teardown_name(account: &ServiceAccount) -> String {
    let ServiceAccount { namespace, name } = account;
    bounded(
        format!("operetta-host:{namespace}:{name}:teardown"),
        MAX_OBJECT_NAME,
    )
}

/// The resources that the API server serves.
///
/// # Errors
/// Returns an error if discovery fails.
pub async fn served(client: &Client) -> Result<BTreeSet<Served>> {
    let mut served = BTreeSet::new();
    let groups = client
        .list_api_groups_aggregated()
        .await
        .context("failed to discover the API groups")?;
    let core = client
        .list_core_api_versions_aggregated()
        .await
        .context("failed to discover the core API")?;

    for group in groups.items.into_iter().chain(core.items) {
        let name = group
            .metadata
            .and_then(|metadata| metadata.name)
            .unwrap_or_default();
        for resource in group
            .versions
            .into_iter()
            .flat_map(|version| version.resources)
        {
            let Some(plural) = resource.resource else {
                continue;
            };

            let namespaced = resource.scope.as_deref() == Some("Namespaced");
            let subresources = resource
                .subresources
                .into_iter()
                .filter_map(|one| one.subresource);

            let all = subresources
                .map(|subresource| format!("{plural}/{subresource}"))
                .chain([plural.clone()]);

            served.extend(all.map(|resource| Served {
                group: name.clone(),
                resource,
                namespaced,
            }));
        }
    }

    Ok(served)
}

/// Detects whether the API server has constrained impersonation: by its metrics if they may be
/// read, else by its version.
///
/// # Errors
/// Returns an error if the request for the API server's version fails.
pub async fn mode(client: &Client) -> Result<ImpersonationMode> {
    let request = http::Request::get("/metrics").body(Vec::new())?;

    let has = match client
        .request_text(request)
        .await
        .ok()
        .as_deref()
        .and_then(feature)
    {
        Some(enabled) => enabled,
        None => {
            let info = client
                .apiserver_version()
                .await
                .context("failed to ask the API server for its version")?;
            (number(&info.major), number(&info.minor)) >= CONSTRAINED_SINCE
        }
    };

    Ok(if has {
        ImpersonationMode::Constrained
    } else {
        ImpersonationMode::Legacy
    })
}

/// Reads a feature gate in the API server's metrics; None if they do not contain it.
fn feature(metrics: &str) -> Option<bool> {
    let mut lines = metrics
        .lines()
        .filter(|line| line.starts_with("kubernetes_feature_enabled{"));
    let line = lines.find(|line| line.contains("name=\"ConstrainedImpersonation\""))?;
    Some(line.ends_with(" 1"))
}

/// Reads the leading digits of a version's part: some providers append a `+`.
fn number(text: &str) -> u32 {
    text.chars()
        .take_while(char::is_ascii_digit)
        .collect::<String>()
        .parse()
        .unwrap_or_default()
}

/// Formats the roles and bindings as YAML documents.
pub fn documents(account: &ServiceAccount, host: &ServiceAccount, granted: &Granted) -> String {
    let name = name(account);
    let no_rules = Rules::default();
    let of_grant = roles::Role {
        name: &name,
        managed_by: Some(MANAGER),
        cluster: false,
        namespace: Some(&account.namespace),
        account: &host.name,
        account_namespace: Some(&host.namespace),
        rules: &no_rules,
    };

    let documents = granted.iter().flat_map(|(namespace, rules)| {
        let role = roles::Role {
            cluster: namespace.is_none(),
            namespace: namespace.as_deref(),
            rules,
            ..of_grant
        };
        role.documents()
    });

    let comment = format!(
        "# What the host may do for ServiceAccount {}/{}.\n",
        account.namespace, account.name
    );
    let mut documents: Vec<String> = documents.collect();
    if !granted.is_empty() {
        let name = teardown_name(account);
        let teardown = roles::Role {
            name: &name,
            ..of_grant
        };
        documents.push(teardown.binding_to("ClusterRole", TEARDOWN_ROLE));
    }
    comment + &documents.join("---\n")
}

/// Returns the reference by which the roles and bindings of a grant are deleted with the
/// ServiceAccount's namespace, wherever they are: who creates a namespace of that name later must
/// not inherit them. An owner without a namespace may own objects [in any].
///
/// Printed documents have none, since another cluster's namespace has another UID, and objects of
/// an unknown owner are deleted.
///
/// [in any]: https://kubernetes.io/docs/concepts/overview/working-with-objects/owners-dependents/
///
/// # Errors
/// The API server's error.
async fn owner(client: &Client, namespace: &str) -> Result<OwnerReference> {
    let found = Api::<Namespace>::all(client.clone()).get(namespace).await;
    let found = found.with_context(|| format!("failed to get namespace {namespace}"))?;
    Ok(OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Namespace".to_owned(),
        name: namespace.to_owned(),
        uid: found.uid().unwrap_or_default(),
        ..OwnerReference::default()
    })
}

/// Applies the roles and bindings of a grant, and deletes those that an earlier grant to the same
/// ServiceAccount created in other namespaces. Returns a line for each change.
///
/// # Errors
/// The API server's error, with the object.
pub async fn apply(
    client: &Client,
    account: &ServiceAccount,
    yaml: &str,
    granted: &Granted,
) -> Result<Vec<String>> {
    let owner = match granted.is_empty() {
        true => None,
        false => Some(owner(client, &account.namespace).await?),
    };

    let mut lines = Vec::new();
    for document in serde_yaml_ng::Deserializer::from_str(yaml) {
        let mut object: serde_json::Value = serde::Deserialize::deserialize(document)?;
        if object.is_null() {
            // Nothing is granted: the text has a comment only.
            continue;
        }

        if let Some(owner) = &owner {
            object["metadata"]["ownerReferences"] = json!([owner]);
        }
        let namespace = object["metadata"]["namespace"].as_str();
        match (object["kind"].as_str().unwrap_or_default(), namespace) {
            ("Role", Some(at)) => {
                apply_one(Api::<Role>::namespaced(client.clone(), at), &object).await?;
            }
            ("RoleBinding", Some(at)) => {
                apply_one(Api::<RoleBinding>::namespaced(client.clone(), at), &object).await?;
            }
            ("ClusterRole", _) => {
                apply_one(Api::<ClusterRole>::all(client.clone()), &object).await?;
            }
            _ => apply_one(Api::<ClusterRoleBinding>::all(client.clone()), &object).await?,
        }

        let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
        let location = namespace
            .map(|namespace| format!(" in namespace {namespace}"))
            .unwrap_or_default();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();

        lines.push(format!(
            "{kind}.rbac.authorization.k8s.io/{name} applied{location}"
        ));
    }

    let name = name(account);
    let kept: BTreeSet<Option<&str>> = granted.keys().map(Option::as_deref).collect();
    // Bindings first, because deleting them ends the grant.
    lines.extend(delete_others::<RoleBinding>(client, &name, &kept).await?);
    lines.extend(delete_others::<Role>(client, &name, &kept).await?);

    // Last, so that the host can remove its finalizers from the others.
    let home = (!granted.is_empty()).then_some(account.namespace.as_str());
    let home = BTreeSet::from([home]);
    let teardown = teardown_name(account);
    lines.extend(delete_others::<RoleBinding>(client, &teardown, &home).await?);

    if !kept.contains(&None) {
        lines.extend(delete::<ClusterRoleBinding>(Api::all(client.clone()), &name, None).await?);
        lines.extend(delete::<ClusterRole>(Api::all(client.clone()), &name, None).await?);
    }

    Ok(lines)
}

async fn apply_one<K>(api: Api<K>, object: &serde_json::Value) -> Result<()>
where
    K: Clone + DeserializeOwned + Debug,
{
    let name = object["metadata"]["name"].as_str().unwrap_or_default();

    let params = PatchParams::apply(MANAGER).force();
    let applied = api.patch(name, &params, &Patch::Apply(object)).await;
    applied
        .map(drop)
        .with_context(|| format!("failed to apply {} {name}", object["kind"]))
}

/// Deletes the objects with a name in all other namespaces.
async fn delete_others<K>(
    client: &Client,
    name: &str,
    kept: &BTreeSet<Option<&str>>,
) -> Result<Vec<String>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Serialize
        + Debug,
{
    let managed = ListParams::default().labels(&format!("app.kubernetes.io/managed-by={MANAGER}"));
    let all = Api::<K>::all(client.clone()).list(&managed).await;
    let all = all.with_context(|| format!("failed to list {}", K::plural(&())))?;

    let mut lines = Vec::new();
    for object in all.items.iter().filter(|object| object.name_any() == name) {
        let namespace = object.namespace().unwrap_or_default();
        if !kept.contains(&Some(namespace.as_str())) {
            lines.extend(
                delete(
                    Api::<K>::namespaced(client.clone(), &namespace),
                    name,
                    Some(&namespace),
                )
                .await?,
            );
        }
    }
    Ok(lines)
}

async fn delete<K>(api: Api<K>, name: &str, namespace: Option<&str>) -> Result<Option<String>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let kind = K::kind(&()).to_lowercase();

    match api.delete(name, &DeleteParams::default()).await {
        Ok(_) => {
            let location = namespace
                .map(|namespace| format!(" in namespace {namespace}"))
                .unwrap_or_default();
            Ok(Some(format!(
                "{kind}.rbac.authorization.k8s.io/{name} deleted{location}"
            )))
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => {
            Err(error).with_context(|| format!("failed to delete {kind} {}", plain(name)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feature_gate_is_read_from_metrics() {
        let metrics = "kubernetes_feature_enabled{name=\"Other\",stage=\"BETA\"} 1\n\
                       kubernetes_feature_enabled{name=\"ConstrainedImpersonation\",stage=\"BETA\"} ";
        for (value, wanted) in [("1", Some(true)), ("0", Some(false))] {
            assert_eq!(feature(&format!("{metrics}{value}\nother 1\n")), wanted);
        }
        assert_eq!(
            feature("kubernetes_feature_enabled{name=\"Other\",stage=\"BETA\"} 1"),
            None
        );
    }

    #[test]
    fn version_with_a_suffix_is_a_number() {
        assert_eq!([number("36"), number("36+"), number("")], [36, 36, 0]);
    }
}
