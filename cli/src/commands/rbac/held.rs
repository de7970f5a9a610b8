//! Lists the roles of a ServiceAccount.

use anyhow::{Error, Result, anyhow};
use kube::{Api, Client, api::ListParams};
use operetta_core::{
    authz::access_review::ServiceAccount,
    remedy::{Advice, Remedy},
};
use operetta_kube::authz::granted_roles::{Bindings, GrantedRole};
use serde::de::DeserializeOwned;

/// # Errors
/// Returns an error if roles or bindings cannot be listed; a permission error has the command that
/// grants the permission.
pub async fn held(client: &Client, account: &ServiceAccount) -> Result<Vec<GrantedRole>> {
    let bindings = Bindings {
        roles: list(client, "roles").await?,
        cluster_roles: list(client, "clusterroles").await?,
        bindings: list(client, "rolebindings").await?,
        cluster_bindings: list(client, "clusterrolebindings").await?,
    };

    Ok(bindings.granted_to(account))
}

async fn list<K>(client: &Client, resource: &str) -> Result<Vec<K>>
where
    K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let listed = Api::<K>::all(client.clone())
        .list(&ListParams::default())
        .await;

    listed
        .map(|list| list.items)
        .map_err(|error| unlisted(resource, error))
}

fn unlisted(resource: &str, error: kube::Error) -> Error {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            let user = status
                .message
                .split("User \"")
                .nth(1)
                .and_then(|rest| rest.split('"').next());

            let message = format!(
                "failed to read the permissions of its ServiceAccount: you may not list {resource} in all namespaces"
            );
            let remedy = may_list(user.unwrap_or("YOUR-USER"));
            anyhow!(Advice::from(message).with(": ", remedy).text)
        }
        error => anyhow!(
            "failed to read the permissions of its ServiceAccount: list of {resource}: {error}"
        ),
    }
}

/// Returns the commands that let a user list roles and bindings.
fn may_list(user: &str) -> Option<Remedy> {
    let role = Remedy::new([
        "kubectl",
        "create",
        "clusterrole",
        "rbac-reader",
        "--verb=list",
        "--resource=roles,rolebindings,clusterroles,clusterrolebindings",
    ])?;
    role.then(Remedy::new([
        "kubectl",
        "create",
        "clusterrolebinding",
        "rbac-reader",
        "--clusterrole=rbac-reader",
        &format!("--user={user}"),
    ]))
}
