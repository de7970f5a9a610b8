//! A StatefulSet's Pods and claims.

use serde_json::{Value, json};

use super::{
    client::Refused,
    control_loop::Context,
    object::{name, namespace, text},
    pod_control::{self, resource},
    world::Key,
};

const CLAIMS: &str = "persistentvolumeclaims";

/// The ordinal of a StatefulSet's Pod, from the end of its name.
pub(super) fn ordinal(pod: &Value, set: &Value) -> Option<i64> {
    name(pod)
        .strip_prefix(name(set))?
        .strip_prefix('-')?
        .parse()
        .ok()
}

fn templates(set: &Value) -> impl Iterator<Item = &Value> {
    set["spec"]["volumeClaimTemplates"]
        .as_array()
        .into_iter()
        .flatten()
}

fn claim_name(template: &Value, set: &Value, ordinal: i64) -> String {
    format!("{}-{}-{ordinal}", name(template), name(set))
}

/// Creates the Pod of an ordinal and its claims.
pub(super) fn create(
    set: &Value,
    ordinal: i64,
    template: &Value,
    revision: &str,
    context: &Context<'_>,
) -> Result<(), Refused> {
    let pod_name = format!("{}-{ordinal}", name(set));
    for template in templates(set) {
        create_claim(template, set, ordinal, &pod_name, context)?;
    }

    let mut pod = pod_control::from_template(template, set);
    pod["metadata"]["name"] = pod_name.as_str().into();
    for (label, value) in [
        ("statefulset.kubernetes.io/pod-name", pod_name.as_str()),
        ("apps.kubernetes.io/pod-index", &ordinal.to_string()),
        ("controller-revision-hash", revision),
    ] {
        pod["metadata"]["labels"][label] = value.into();
    }

    pod["spec"]["hostname"] = pod_name.as_str().into();
    let service = text(set, &["spec", "serviceName"]);
    if !service.is_empty() {
        pod["spec"]["subdomain"] = service.into();
    }

    set_volumes(&mut pod, set, ordinal);

    let answer = context
        .client
        .create(&*pod_control::pods(context)?, Some(namespace(set)), &pod);

    let (verb, kind, reason) = match &answer {
        Err(error) if error.is_conflict() => return Ok(()),
        Ok(_) => ("successful".to_owned(), "Normal", "SuccessfulCreate"),
        Err(error) => (format!("failed error: {error}"), "Warning", "FailedCreate"),
    };

    let message = format!("create Pod {pod_name} in StatefulSet {} {verb}", name(set));
    context.client.event(set, kind, reason, &message);

    answer.map(drop)
}

/// Mounts a Pod's own claims in place of volumes with the same names.
fn set_volumes(pod: &mut Value, set: &Value, ordinal: i64) {
    let own = templates(set).map(|template| {
        let claim = json!({"claimName": claim_name(template, set, ordinal)});
        json!({"name": name(template), "persistentVolumeClaim": claim})
    });

    let own: Vec<Value> = own.collect();
    if own.is_empty() {
        return;
    }

    let others = pod["spec"]["volumes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|volume| own.iter().all(|claim| claim["name"] != volume["name"]));
    pod["spec"]["volumes"] = own.iter().chain(others).cloned().collect();
}

fn create_claim(
    template: &Value,
    set: &Value,
    ordinal: i64,
    pod: &str,
    context: &Context<'_>,
) -> Result<(), Refused> {
    let claim = claim_name(template, set, ordinal);
    if context
        .world
        .get(&Key::new("", CLAIMS, Some(namespace(set)), &claim))
        .is_some()
    {
        return Ok(());
    }

    let mut metadata = json!({"name": claim, "namespace": namespace(set)});
    for member in ["labels", "annotations"] {
        if let Some(value) = template["metadata"].get(member) {
            metadata[member] = value.clone();
        }
    }
    for (label, value) in set["spec"]["selector"]["matchLabels"]
        .as_object()
        .into_iter()
        .flatten()
    {
        metadata["labels"][label.as_str()] = value.clone();
    }

    let object = json!({"metadata": metadata, "spec": template["spec"]});
    let claims = resource("", CLAIMS, context)?;

    match context
        .client
        .create(&claims, Some(namespace(set)), &object)
    {
        Err(error) if error.is_conflict() => Ok(()),
        Err(error) => {
            let message = format!(
                "create Claim {claim} for Pod {pod} in StatefulSet {} failed error: {error}",
                name(set)
            );
            context
                .client
                .event(set, "Warning", "FailedCreate", &message);
            Err(error)
        }
        Ok(_) => {
            let message = format!(
                "create Claim {claim} Pod {pod} in StatefulSet {} success",
                name(set)
            );
            context
                .client
                .event(set, "Normal", "SuccessfulCreate", &message);
            Ok(())
        }
    }
}

/// Deletes a Pod, but not its claims.
pub(super) fn delete(set: &Value, pod: &Value, context: &Context<'_>) -> Result<(), Refused> {
    context
        .client
        .delete(&*pod_control::pods(context)?, pod, "")?;

    let message = format!(
        "delete Pod {} in StatefulSet {} successful",
        name(pod),
        name(set)
    );
    context
        .client
        .event(set, "Normal", "SuccessfulDelete", &message);
    Ok(())
}
