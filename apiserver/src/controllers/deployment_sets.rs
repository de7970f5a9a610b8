//! A Deployment's ReplicaSets: the one of its template, and their revisions and annotations.

use serde_json::{Value, json};

use super::{
    client::Refused,
    control_loop::Context,
    deployment::{DESIRED, GROUP, HASH, RESOURCE, Rollout, SETS, has_template, replicas},
    deployment_status, hash,
    object::{
        condition, controller_reference, is_controlled_by, is_terminating, name, namespace, number,
        text, uid,
    },
    pod_control::resource,
    world::Key,
};

/// The annotation with the revision number of a template.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// The annotation with earlier numbers of a template that came back.
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The annotation with the largest allowed total at the time of scaling.
pub(super) const MAXIMUM: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations that a Deployment does not pass on to its ReplicaSets.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAXIMUM,
    "deprecated.deployment.rollback.to",
];

fn revision_of(object: &Value) -> i64 {
    text(object, &["metadata", "annotations", REVISION])
        .parse()
        .unwrap_or_default()
}

/// Numbers the newest ReplicaSet and the Deployment. Creates that ReplicaSet if `create` is set.
pub(super) fn sync_newest(
    rollout: &mut Rollout,
    create: bool,
    context: &Context<'_>,
) -> Result<(), Refused> {
    let old = rollout.old_sets();
    let revision = old
        .iter()
        .map(|index| revision_of(&rollout.sets[*index]))
        .max()
        .unwrap_or_default()
        + 1;

    match rollout.newest {
        Some(index) => sync_existing(rollout, index, revision, context),
        None if create => create_newest(rollout, revision, context),
        None => Ok(()),
    }
}

fn sync_existing(
    rollout: &mut Rollout,
    index: usize,
    revision: i64,
    context: &Context<'_>,
) -> Result<(), Refused> {
    let mut set = rollout.sets[index].clone();
    annotate(&mut set, &rollout.deployment, revision);

    let min_ready = &rollout.deployment["spec"]["minReadySeconds"];
    let differs =
        number(&set, "/spec/minReadySeconds", 0) != min_ready.as_i64().unwrap_or_default();
    if differs {
        set["spec"]["minReadySeconds"] = min_ready.clone();
    }

    if set != rollout.sets[index] {
        rollout.sets[index] = context
            .client
            .update(&*resource(GROUP, SETS, context)?, &set, "")?;
    }

    let mut changed = rollout.deployment.clone();
    let own = revision_of(&rollout.sets[index]).to_string();
    changed["metadata"]["annotations"][REVISION] = own.into();

    let has_deadline = deployment_status::has_deadline(&changed);
    if has_deadline && condition(&changed["status"], "Progressing").is_none() {
        let message = format!("Found new replica set \"{}\"", name(&set));
        deployment_status::set(
            &mut changed,
            ("Progressing", "True", "FoundNewReplicaSet", &message),
            context.now,
        );
    }

    write_deployment(rollout, changed, context)
}

/// Writes a Deployment's status and its revision annotation.
fn write_deployment(
    rollout: &mut Rollout,
    changed: Value,
    context: &Context<'_>,
) -> Result<(), Refused> {
    if changed != rollout.deployment {
        let resource = resource(GROUP, RESOURCE, context)?;
        rollout.deployment = context.client.update(&resource, &changed, "status")?;
    }
    Ok(())
}

/// Gives a ReplicaSet its Deployment's annotations and a later number.
fn annotate(set: &mut Value, deployment: &Value, revision: i64) {
    let annotations = deployment["metadata"]["annotations"]
        .as_object()
        .into_iter()
        .flatten();
    for (key, value) in annotations.filter(|(key, _)| !NOT_COPIED.contains(&key.as_str())) {
        set["metadata"]["annotations"][key.as_str()] = value.clone();
    }

    let old = revision_of(set);
    if old >= revision {
        return;
    }

    let had_revision = set["metadata"]["annotations"][REVISION].is_string();
    let annotations = &mut set["metadata"]["annotations"];
    annotations[REVISION] = revision.to_string().into();

    if had_revision {
        let history = annotations[HISTORY].as_str().unwrap_or_default();
        let history = if history.is_empty() {
            old.to_string()
        } else {
            format!("{history},{old}")
        };
        annotations[HISTORY] = history.into();
    }
}

/// Records in a ReplicaSet the Deployment's size at this scaling. Returns whether it was recorded
/// before.
pub(super) fn note_scale(set: &mut Value, rollout: &Rollout) -> bool {
    let wanted = rollout.wanted();
    let noted =
        [(DESIRED, wanted), (MAXIMUM, wanted + rollout.margins().0)].map(|(key, number)| {
            let number = Value::from(number.to_string());
            let is_same = set["metadata"]["annotations"][key] == number;
            set["metadata"]["annotations"][key] = number;
            is_same
        });

    noted == [true, true]
}

fn create_newest(
    rollout: &mut Rollout,
    revision: i64,
    context: &Context<'_>,
) -> Result<(), Refused> {
    let deployment = rollout.deployment.clone();

    let set = new_set(rollout, revision);
    let sets = resource(GROUP, SETS, context)?;

    let created = match context
        .client
        .create(&sets, Some(namespace(&deployment)), &set)
    {
        Err(error) if error.is_conflict() => {
            return resolve_collision(rollout, &set, error, context);
        }
        Err(error) => {
            let message = format!(
                "Failed to create new replica set \"{}\": {error}",
                name(&set)
            );
            let mut changed = deployment;
            deployment_status::set(
                &mut changed,
                ("Progressing", "False", "ReplicaSetCreateError", &message),
                context.now,
            );
            write_deployment(rollout, changed, context)?;
            return Err(error);
        }
        Ok(created) => created,
    };

    if replicas(&created) > 0 {
        let message = format!(
            "Scaled up replica set {} from 0 to {}",
            name(&created),
            replicas(&created)
        );
        context
            .client
            .event(&deployment, "Normal", "ScalingReplicaSet", &message);
    }

    let message = format!("Created new replica set \"{}\"", name(&created));
    rollout.newest = Some(rollout.sets.len());
    rollout.sets.push(created);

    let mut changed = deployment;
    changed["metadata"]["annotations"][REVISION] = revision.to_string().into();
    if deployment_status::has_deadline(&changed) {
        deployment_status::set(
            &mut changed,
            ("Progressing", "True", "NewReplicaSetCreated", &message),
            context.now,
        );
    }

    write_deployment(rollout, changed, context)
}

/// The ReplicaSet for a Deployment's template.
fn new_set(rollout: &Rollout, revision: i64) -> Value {
    let deployment = &rollout.deployment;
    let mut template = deployment["spec"]["template"].clone();
    let hash = hash::of_template(&template, number(deployment, "/status/collisionCount", 0));

    template["metadata"]["labels"][HASH] = hash.as_str().into();
    let mut selector = deployment["spec"]["selector"].clone();
    selector["matchLabels"][HASH] = hash.as_str().into();

    let mut set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{}-{hash}", name(deployment)), "namespace": namespace(deployment),
            "labels": template["metadata"]["labels"], "ownerReferences": [controller_reference(deployment)],
        },
        "spec": {"replicas": 0, "selector": selector, "template": template},
    });

    if let Some(seconds) = deployment["spec"].get("minReadySeconds") {
        set["spec"]["minReadySeconds"] = seconds.clone();
    }

    let others = rollout.sets.iter().map(replicas).sum();
    set["spec"]["replicas"] = next_size(rollout, 0, others).into();
    annotate(&mut set, deployment, revision);
    note_scale(&mut set, rollout);

    set
}

/// The size to which the newest ReplicaSet may grow now, if all together have `total` replicas.
pub(super) fn next_size(rollout: &Rollout, current: i64, total: i64) -> i64 {
    let wanted = rollout.wanted();
    if rollout.deployment["spec"]["strategy"]["type"] == "Recreate" {
        return wanted;
    }

    let maximum = wanted + rollout.margins().0;
    if total >= maximum {
        current
    } else {
        current + (maximum - total).min(wanted - current)
    }
}

/// Uses the ReplicaSet that already has the name, or counts a collision, which changes the next
/// name.
fn resolve_collision(
    rollout: &mut Rollout,
    set: &Value,
    error: Refused,
    context: &Context<'_>,
) -> Result<(), Refused> {
    let key = Key::new(GROUP, SETS, Some(namespace(set)), name(set));

    // If the world does not have it yet, the next attempt will.
    let Some(found) = context.world.get(&key) else {
        return Err(error);
    };

    let is_own = is_controlled_by(found, uid(&rollout.deployment))
        && has_template(found, &rollout.deployment);
    if !is_own && !is_terminating(found) {
        let mut changed = rollout.deployment.clone();
        changed["status"]["collisionCount"] =
            (number(&changed, "/status/collisionCount", 0) + 1).into();
        write_deployment(rollout, changed, context)?;
    }

    Err(error)
}
