//! Deployments: a ReplicaSet for each template, scaled so that the newest one takes over.
//!
//! The steps and their order are those of
//! <https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/controller/deployment/deployment_controller.go>:
//! `deployment` holds the ReplicaSets, `deployment_sets` numbers and creates them,
//! `deployment_rollout` scales them, `deployment_status` reports.

use std::time::Duration;

use super::{
    claims,
    client::Refused,
    control_loop::{Context, Controller},
    deployment::{GROUP, RESOURCE, Rollout, SETS},
    deployment_rollout, deployment_status,
    object::{is_terminating, text},
    world::{Change, Key, World},
};

/// Rolls out Deployments.
pub(super) struct Deployments;

impl Controller for Deployments {
    fn affected(&mut self, change: &Change, world: &World, keys: &mut Vec<Key>) {
        if change.key.is_of(GROUP, RESOURCE) {
            keys.push(change.key.clone());
        } else if change.key.is_of(GROUP, SETS) {
            claims::owners(change, (GROUP, RESOURCE, "Deployment"), world, keys);
        } else if change.key.is_of("", "pods") && change.new.is_none() {
            // A Deployment that recreates its Pods waits until the old ones are gone.
            let set = Key::of_controller(change.object(), (GROUP, SETS, "ReplicaSet"))
                .and_then(|set| world.get(&set));
            keys.extend(
                set.and_then(|set| Key::of_controller(set, (GROUP, RESOURCE, "Deployment"))),
            );
        }
    }

    fn reconcile(&mut self, key: &Key, context: &Context<'_>) -> Result<Option<Duration>, Refused> {
        let Some(deployment) = context.world.get(key) else {
            return Ok(None);
        };

        let sets = claims::claim(deployment, GROUP, SETS, context)?;
        let mut rollout = Rollout::new(
            (**deployment).clone(),
            sets.iter().map(|set| (**set).clone()).collect(),
        );

        if is_terminating(deployment) {
            return deployment_status::sync(&mut rollout, context).map(|()| None);
        }

        deployment_status::check_paused(&mut rollout, context)?;
        if deployment["spec"]["paused"] == true || rollout.is_scaled() {
            deployment_rollout::scale(&mut rollout, context)?;
            return deployment_status::sync(&mut rollout, context).map(|()| None);
        }

        match text(deployment, &["spec", "strategy", "type"]) {
            "Recreate" => deployment_rollout::recreate(&mut rollout, context),
            _ => deployment_rollout::roll(&mut rollout, context),
        }
    }
}
