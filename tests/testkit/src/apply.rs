//! Frequent requests of tests, sent as the administrator without kubectl, which takes a sixth of a
//! second of processor time for each.

use std::path::PathBuf;

use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    coordination::v1::Lease,
    core::v1::ServiceAccount,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
    discovery::{Scope, pinned_kind},
};
use serde::Deserialize;
use serde_json::json;

use crate::controlplane::config_of;

/// The field manager of `kubectl apply --server-side`, so that tests can continue with kubectl.
const MANAGER: &str = "kubectl";

/// Applies the YAML or JSON documents of a text in their order, as `kubectl apply --server-side`
/// does.
pub(crate) async fn apply(client: Client, manifest: &str, force: bool) -> Result<(), String> {
    let params = PatchParams {
        force,
        ..PatchParams::apply(MANAGER)
    };

    for document in serde_yaml_ng::Deserializer::from_str(manifest) {
        let object =
            Option::<DynamicObject>::deserialize(document).map_err(|error| error.to_string())?;
        // The document has only comments.
        let Some(object) = object else { continue };

        let types = object.types.clone().ok_or("an object without kind")?;
        let failed =
            |error: kube::Error| format!("apply of {} {}: {error}", types.kind, object.name_any());

        let kind = GroupVersionKind::try_from(&types).map_err(|error| error.to_string())?;
        let (resource, capabilities) = pinned_kind(&client, &kind).await.map_err(failed)?;
        let api: Api<DynamicObject> = match capabilities.scope {
            Scope::Cluster => Api::all_with(client.clone(), &resource),
            Scope::Namespaced => Api::namespaced_with(
                client.clone(),
                object.namespace().as_deref().unwrap_or("default"),
                &resource,
            ),
        };

        api.patch(&object.name_any(), &params, &Patch::Apply(&object))
            .await
            .map_err(failed)?;
    }

    Ok(())
}

/// Requests a ServiceAccount token that is valid for a day.
pub(crate) async fn token(
    client: Client,
    namespace: &str,
    service_account: &str,
) -> Result<String, String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client, namespace);

    let spec = TokenRequestSpec {
        expiration_seconds: Some(24 * 3600),
        ..TokenRequestSpec::default()
    };
    let request = TokenRequest {
        spec,
        ..TokenRequest::default()
    };

    let made = accounts
        .create_token_request(service_account, &PostParams::default(), &request)
        .await;
    let made = made.map_err(|error| format!("token of {namespace}/{service_account}: {error}"))?;
    Ok(made.status.ok_or("an answer without a token")?.token)
}

/// Ends the epochs of all replicas, as if each had left the group.
pub(crate) async fn end_epochs(client: Client, namespace: &str) -> Result<(), String> {
    let leases: Api<Lease> = Api::namespaced(client, namespace);
    let failed = |error: kube::Error| format!("end of the epochs in {namespace}: {error}");

    let of_replicas = ListParams::default().labels("operetta.dev/lease=replica");
    leases
        .delete_collection(&DeleteParams::default(), &of_replicas)
        .await
        .map_err(failed)?;

    let none = json!({"metadata": {"annotations": {"operetta.dev/members": "", "operetta.dev/leaving": ""}}});
    match leases
        .patch("operetta", &PatchParams::default(), &Patch::Merge(none))
        .await
    {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        ended => ended.map(drop).map_err(failed),
    }
}

/// Runs a request with its own client and runtime, so that it works within a runtime as well.
/// Blocks.
///
/// # Panics
/// Panics if the request fails.
pub(crate) fn block_on<T: Send, F: Future<Output = Result<T, String>>>(
    kubeconfig: PathBuf,
    request: impl FnOnce(Client) -> F + Send,
) -> T {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let client = Client::try_from(config_of(&kubeconfig).await).expect("a client");
            request(client).await
        })
    };

    let done = std::thread::scope(|scope| scope.spawn(run).join().expect("no panic"));
    done.unwrap_or_else(|error| panic!("{error}"))
}
