//! Objects in a cluster: server-side apply, deletion, and waiting for both.

use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow, bail};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PropagationPolicy},
    core::GroupVersionKind,
    discovery::{Scope, pinned_kind},
};
use operetta_core::gate::path::encoded;
use serde_json::Value;
use tokio::time::{Instant, sleep};

/// The pause between two reads while a command waits for an object.
const PAUSE: Duration = Duration::from_millis(500);

/// How long to wait until a definition's kinds are served.
const SERVED: Duration = Duration::from_secs(10);
/// The pause between two reads of a definition, which is served within milliseconds.
const SERVED_PAUSE: Duration = Duration::from_millis(10);

/// The name of an object as kubectl prints it: `deployment.apps/operetta`.
pub fn display(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&object["kind"]).to_lowercase();
    let group = text(&object["apiVersion"])
        .split_once('/')
        .map(|(group, _)| format!(".{group}"))
        .unwrap_or_default();

    format!("{kind}{group}/{}", text(&object["metadata"]["name"]))
}

/// How an object is applied.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    /// The field manager.
    pub manager: &'static str,
    /// True if it takes over other managers' fields.
    pub force: bool,
    /// True if nothing is stored.
    pub dry_run: bool,
}

/// Applies an object.
///
/// # Errors
/// Returns an error if the API server refuses the object, for example because of a conflict.
pub async fn apply(client: &Client, object: &Value, write: Write) -> Result<()> {
    applied(client, object, write).await.map(drop)
}

/// Applies an object as [`apply`] does, and returns it with the fields of all managers.
///
/// # Errors
/// As [`apply`].
pub async fn applied(client: &Client, object: &Value, write: Write) -> Result<DynamicObject> {
    let Write {
        manager,
        force,
        dry_run,
    } = write;

    let name = object["metadata"]["name"].as_str().unwrap_or_default();

    let params = PatchParams {
        dry_run,
        force,
        ..PatchParams::apply(manager)
    };

    let api = api(client, object)
        .await?
        .with_context(|| format!("the API server does not serve {}", display(object)))?;

    let applied = api
        .patch(&encoded(name), &params, &Patch::Apply(object))
        .await;
    applied
        .map_err(cause)
        .with_context(|| format!("failed to apply {}", display(object)))
}

/// Deletes an object; `propagation` decides what happens to the objects it owns. Returns false if
/// it does not exist.
///
/// The API server's garbage collector learns of a new kind within half a minute. Until then, an
/// object of that kind stays if it is deleted in the foreground.
///
/// # Errors
/// Returns an error if the API server refuses the deletion.
pub async fn delete(
    client: &Client,
    object: &Value,
    propagation: PropagationPolicy,
) -> Result<bool> {
    let Some(api) = api(client, object).await? else {
        return Ok(false);
    };

    let params = DeleteParams {
        propagation_policy: Some(propagation),
        ..DeleteParams::default()
    };

    match api
        .delete(
            &encoded(object["metadata"]["name"].as_str().unwrap_or_default()),
            &params,
        )
        .await
    {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => {
            Err(cause(error)).with_context(|| format!("failed to delete {}", display(object)))
        }
    }
}

/// Waits until an object no longer exists.
///
/// # Errors
/// Returns an error after the timeout, or if the object cannot be read.
pub async fn until_deleted(client: &Client, object: &Value, timeout: Duration) -> Result<()> {
    let end = Instant::now() + timeout;

    while read(client, object).await?.is_some() {
        if Instant::now() > end {
            bail!(
                "{} still exists after {} s",
                display(object),
                timeout.as_secs()
            );
        }
        sleep(PAUSE).await;
    }

    Ok(())
}

/// Waits until the API server serves a CustomResourceDefinition's kinds.
///
/// # Errors
/// Returns an error with the definition's conditions if they are not served within ten seconds.
pub async fn until_served(client: &Client, definition: &Value) -> Result<()> {
    let end = Instant::now() + SERVED;
    loop {
        let found = read(client, definition)
            .await?
            .with_context(|| format!("{} was deleted", display(definition)))?;

        let conditions = found.data["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();

        let is_true = |condition: &&Value| {
            condition["type"] == "Established" && condition["status"] == "True"
        };

        if conditions.iter().any(|condition| is_true(&condition)) {
            return Ok(());
        }

        if Instant::now() > end {
            let conditions = Value::from(conditions);
            bail!(
                "{} is not served after {} s: {conditions}",
                display(definition),
                SERVED.as_secs()
            );
        }

        sleep(SERVED_PAUSE).await;
    }
}

/// Waits until all Pods of a Deployment are available and have its current template.
///
/// # Errors
/// Returns an error with the state after the timeout, or if the Deployment cannot be read.
pub async fn until_available(client: &Client, deployment: &Value, timeout: Duration) -> Result<()> {
    let end = Instant::now() + timeout;
    loop {
        let read = read(client, deployment).await?;

        let found =
            read.with_context(|| format!("{} was deleted meanwhile", display(deployment)))?;
        let Err(state) = rolled_out(&found) else {
            return Ok(());
        };

        if Instant::now() > end {
            bail!(
                "{} is not available after {} s: {state}",
                display(deployment),
                timeout.as_secs()
            );
        }

        sleep(PAUSE).await;
    }
}

/// Checks that a rollout is complete, as `kubectl rollout status` does. If it is not, returns its
/// state as the error.
fn rolled_out(deployment: &DynamicObject) -> Result<(), String> {
    let status = &deployment.data["status"];
    let number = |name: &str| status[name].as_i64().unwrap_or_default();
    let wanted = deployment.data["spec"]["replicas"].as_i64().unwrap_or(1);

    if number("observedGeneration") < deployment.metadata.generation.unwrap_or_default() {
        return Err("the Deployment controller has not seen it yet".to_owned());
    }

    let state = [
        number("updatedReplicas"),
        number("replicas"),
        number("availableReplicas"),
    ];

    if state == [wanted; 3] {
        return Ok(());
    }

    let [updated, all, available] = state;
    Err(format!(
        "{updated} of {wanted} replicas are updated, {available} are available, {all} exist"
    ))
}

/// The API server's message alone: kube's error text repeats it within the whole Status.
fn cause(error: kube::Error) -> Error {
    match error {
        kube::Error::Api(status) => anyhow!("{}", status.message),
        other => other.into(),
    }
}

/// Reads an object; None if it does not exist, or its kind is not served.
///
/// # Errors
/// Returns an error if the API server refuses it.
pub async fn read(client: &Client, object: &Value) -> Result<Option<DynamicObject>> {
    let Some(api) = api(client, object).await? else {
        return Ok(None);
    };

    let read = api
        .get_opt(&encoded(
            object["metadata"]["name"].as_str().unwrap_or_default(),
        ))
        .await;
    read.map_err(cause)
        .with_context(|| format!("failed to read {}", display(object)))
}

/// The API of an object's kind and namespace, or None if the API server does not serve the kind.
async fn api(client: &Client, object: &Value) -> Result<Option<Api<DynamicObject>>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&object["apiVersion"]);
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    let kind = GroupVersionKind::gvk(group, version, &text(&object["kind"]));

    let (resource, capabilities) = match pinned_kind(client, &kind).await {
        Ok(found) => found,
        Err(kube::Error::Discovery(_)) => return Ok(None),
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
        Err(error) => {
            return Err(cause(error)).with_context(|| format!("failed to discover {}", kind.kind));
        }
    };

    Ok(Some(match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => Api::namespaced_with(
            client.clone(),
            &text(&object["metadata"]["namespace"]),
            &resource,
        ),
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(generation: i64, status: Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "operetta", "generation": generation},
            "spec": {"replicas": 2}, "status": status,
        }))
        .expect("a Deployment")
    }

    #[test]
    fn rollout_is_complete_when_all_replicas_are_new_and_available() {
        let status = |observed: i64, updated: i64, all: i64, available: i64| json!({"observedGeneration": observed, "updatedReplicas": updated, "replicas": all, "availableReplicas": available});
        for (status, complete) in [
            (status(2, 2, 2, 2), true),
            (status(1, 2, 2, 2), false),
            (status(2, 1, 2, 2), false),
            (status(2, 2, 3, 2), false),
            (status(2, 2, 2, 1), false),
            (Value::Null, false),
        ] {
            assert_eq!(
                rolled_out(&deployment(2, status.clone())).is_ok(),
                complete,
                "{status}"
            );
        }
    }

    #[test]
    fn objects_are_named_as_kubectl_names_them() {
        let object = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}});
        assert_eq!(display(&object("v1", "Namespace")), "namespace/a");
        assert_eq!(
            display(&object("apps/v1", "Deployment")),
            "deployment.apps/a"
        );
    }
}
