//! StatefulSets: Pods with stable names and claims, one after the other.

use std::time::Duration;

use super::{
    claims,
    client::{Refused, if_found},
    control_loop::{Context, Controller},
    object::is_terminating,
    pod_control::{self, resource},
    revisions::{self, Revisions, revision_of},
    stateful_rollout::Rollout,
    stateful_status,
    world::{Change, Key, World},
};

const GROUP: &str = "apps";
const RESOURCE: &str = "statefulsets";

/// Keeps the Pods and claims of StatefulSets.
pub(super) struct StatefulSets;

impl Controller for StatefulSets {
    fn affected(&mut self, change: &Change, world: &World, keys: &mut Vec<Key>) {
        if change.key.is_of(GROUP, RESOURCE) {
            keys.push(change.key.clone());
        } else if change.key.is_of("", "pods") {
            claims::owners(change, (GROUP, RESOURCE, "StatefulSet"), world, keys);
        }
    }

    fn reconcile(&mut self, key: &Key, context: &Context<'_>) -> Result<Option<Duration>, Refused> {
        let Some(set) = context.world.get(key) else {
            return Ok(None);
        };

        let pods = claims::claim(set, "", "pods", context)?;
        if is_terminating(set) {
            return Ok(None);
        }

        let hash = revisions::hash_of(set);
        let revisions = Revisions::sync(set, "controller.kubernetes.io/hash", &hash, context)?;
        let rollout = Rollout::new(set, pods, revisions);
        rollout.advance(context)?;

        let status = stateful_status::calculate(&rollout, context.now);
        if status != set["status"] {
            let mut changed = (**set).clone();
            changed["status"] = status;
            if_found(context.client.update(
                &*resource(GROUP, RESOURCE, context)?,
                &changed,
                "status",
            ))?;
        }

        let mut live: Vec<String> = rollout
            .pods
            .values()
            .map(|pod| revision_of(pod).to_owned())
            .collect();
        live.push(rollout.current.clone());
        rollout.revisions.truncate(set, &live, context)?;

        let pods = rollout.pods.values();
        Ok(pod_control::next_available(
            pods,
            rollout.min_ready,
            context.now,
        ))
    }
}
