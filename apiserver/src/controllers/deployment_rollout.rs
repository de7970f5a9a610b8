//! How a Deployment scales its ReplicaSets: rolling, by recreation, and when its own size changes.

use std::time::Duration;

use serde_json::Value;

use super::{
    client::{Refused, if_found},
    control_loop::Context,
    deployment::{DESIRED, GROUP, Rollout, SETS, replicas},
    deployment_sets::{self, next_size, note_scale},
    deployment_status,
    object::{is_terminating, name, number, text, uid},
    pod_control,
};

fn available(set: &Value) -> i64 {
    number(set, "/status/availableReplicas", 0)
}

/// Scales a ReplicaSet. Returns whether its size changed.
fn resize(
    rollout: &mut Rollout,
    index: usize,
    size: i64,
    context: &Context<'_>,
) -> Result<bool, Refused> {
    let old = replicas(&rollout.sets[index]);
    let mut set = rollout.sets[index].clone();
    let is_noted = note_scale(&mut set, rollout);

    if old == size && is_noted {
        return Ok(false);
    }

    set["spec"]["replicas"] = size.into();
    let resource = pod_control::resource(GROUP, SETS, context)?;
    rollout.sets[index] = context.client.update(&resource, &set, "")?;

    if old != size {
        let direction = if size > old { "up" } else { "down" };
        let message = format!(
            "Scaled {direction} replica set {} from {old} to {size}",
            name(&set)
        );
        context
            .client
            .event(&rollout.deployment, "Normal", "ScalingReplicaSet", &message);
    }

    Ok(old != size)
}

/// Replaces outdated Pods by new ones, within the margins of the strategy.
pub(super) fn roll(
    rollout: &mut Rollout,
    context: &Context<'_>,
) -> Result<Option<Duration>, Refused> {
    deployment_sets::sync_newest(rollout, true, context)?;
    if !grow_newest(rollout, context)? {
        shrink_old(rollout, context)?;
    }
    clean_up(rollout, context)?;
    deployment_status::sync_progress(rollout, context)
}

fn grow_newest(rollout: &mut Rollout, context: &Context<'_>) -> Result<bool, Refused> {
    let (Some(index), wanted) = (rollout.newest, rollout.wanted()) else {
        return Ok(false);
    };
    let current = replicas(&rollout.sets[index]);
    if current == wanted {
        return Ok(false);
    }

    let total = rollout.sets.iter().map(replicas).sum();
    let size = if current > wanted {
        wanted
    } else {
        next_size(rollout, current, total)
    };

    resize(rollout, index, size, context)
}

fn shrink_old(rollout: &mut Rollout, context: &Context<'_>) -> Result<(), Refused> {
    let old = rollout.old_sets();
    if old.iter().all(|index| replicas(&rollout.sets[*index]) == 0) {
        return Ok(());
    }

    let minimum = rollout.wanted() - rollout.margins().1;
    let total: i64 = rollout.sets.iter().map(replicas).sum();
    let not_ready = rollout
        .new_set()
        .map_or(0, |set| replicas(set) - available(set));

    let mut surplus = total - minimum - not_ready;
    if surplus <= 0 {
        return Ok(());
    }

    // First those that are not available.
    for index in &old {
        let set = &rollout.sets[*index];
        let unhealthy = (replicas(set) - available(set)).clamp(0, surplus.max(0));
        if unhealthy > 0 {
            let size = replicas(set) - unhealthy;
            resize(rollout, *index, size, context)?;
            surplus -= unhealthy;
        }
    }

    let mut surplus = rollout.sets.iter().map(available).sum::<i64>() - minimum;
    for index in old {
        let set = &rollout.sets[index];
        let count = replicas(set).min(surplus);
        if count > 0 {
            let size = replicas(set) - count;
            resize(rollout, index, size, context)?;
            surplus -= count;
        }
    }
    Ok(())
}

/// Stops all outdated Pods, and then starts the new ones.
pub(super) fn recreate(
    rollout: &mut Rollout,
    context: &Context<'_>,
) -> Result<Option<Duration>, Refused> {
    deployment_sets::sync_newest(rollout, false, context)?;

    let mut is_ending = false;
    for index in rollout.old_sets() {
        if replicas(&rollout.sets[index]) > 0 {
            is_ending |= resize(rollout, index, 0, context)?;
        }
    }

    if is_ending || has_old_pods(rollout, context) {
        return deployment_status::sync_progress(rollout, context);
    }

    deployment_sets::sync_newest(rollout, true, context)?;
    if let (Some(index), wanted) = (rollout.newest, rollout.wanted()) {
        resize(rollout, index, wanted, context)?;
    }

    clean_up(rollout, context)?;
    deployment_status::sync_progress(rollout, context)
}

fn has_old_pods(rollout: &Rollout, context: &Context<'_>) -> bool {
    rollout.old_sets().into_iter().any(|index| {
        let mut pods = context
            .world
            .dependents(uid(&rollout.sets[index]))
            .filter(|(key, _)| key.is_of("", "pods"));
        pods.any(|(_, pod)| !pod_control::has_ended(pod))
    })
}

/// Deletes the oldest ReplicaSets without Pods beyond the history limit.
fn clean_up(rollout: &Rollout, context: &Context<'_>) -> Result<(), Refused> {
    let Some(limit) = rollout.deployment["spec"]["revisionHistoryLimit"].as_i64() else {
        return Ok(());
    };
    if !deployment_status::is_complete(rollout, &deployment_status::calculate(rollout, context.now))
    {
        return Ok(());
    }

    let old = rollout.old_sets();
    let mut old: Vec<&Value> = old
        .iter()
        .map(|index| &rollout.sets[*index])
        .filter(|set| !is_terminating(set))
        .collect();

    let surplus = old
        .len()
        .saturating_sub(usize::try_from(limit).unwrap_or_default());

    let revision = |set: &Value| {
        text(set, &["metadata", "annotations", deployment_sets::REVISION]).parse::<i64>()
    };
    old.sort_by_key(|set| revision(set).unwrap_or_default());

    for set in old.into_iter().take(surplus) {
        let is_observed =
            number(set, "/metadata/generation", 0) <= number(set, "/status/observedGeneration", 0);
        if replicas(set) == 0 && number(set, "/status/replicas", 0) == 0 && is_observed {
            let resource = pod_control::resource(GROUP, SETS, context)?;
            if_found(
                context
                    .client
                    .delete(&resource, set, "Background")
                    .map(|()| Value::Null),
            )?;
        }
    }

    Ok(())
}

/// Scales the ReplicaSets to the Deployment's size, in proportion.
pub(super) fn scale(rollout: &mut Rollout, context: &Context<'_>) -> Result<(), Refused> {
    deployment_sets::sync_newest(rollout, false, context)?;

    let wanted = rollout.wanted();
    if let Some(only) = active_or_latest(rollout) {
        if replicas(&rollout.sets[only]) != wanted {
            resize(rollout, only, wanted, context)?;
        }
        return Ok(());
    }

    let is_saturated = rollout.new_set().is_some_and(|set| {
        let desired = text(set, &["metadata", "annotations", DESIRED]);
        desired == wanted.to_string() && replicas(set) == wanted && available(set) == wanted
    });

    if is_saturated {
        for index in rollout.old_sets() {
            if replicas(&rollout.sets[index]) > 0 {
                resize(rollout, index, 0, context)?;
            }
        }
        return Ok(());
    }

    if rollout.deployment["spec"]["strategy"]["type"] == "Recreate" {
        return Ok(());
    }

    scale_in_proportion(rollout, context)
}

/// The only ReplicaSet with replicas, or the newest if none has any; None if several have.
fn active_or_latest(rollout: &Rollout) -> Option<usize> {
    let active: Vec<usize> = (0..rollout.sets.len())
        .filter(|index| replicas(&rollout.sets[*index]) > 0)
        .collect();

    match active.as_slice() {
        [] => rollout.newest.or_else(|| rollout.sets.len().checked_sub(1)),
        [only] => Some(*only),
        _ => None,
    }
}

fn scale_in_proportion(rollout: &mut Rollout, context: &Context<'_>) -> Result<(), Refused> {
    let mut active: Vec<usize> = (0..rollout.sets.len())
        .filter(|index| replicas(&rollout.sets[*index]) > 0)
        .collect();

    let allowed = if rollout.wanted() > 0 {
        rollout.wanted() + rollout.margins().0
    } else {
        0
    };

    let to_add = allowed
        - active
            .iter()
            .map(|index| replicas(&rollout.sets[*index]))
            .sum::<i64>();

    // The largest first. Among equals, the newest when growing and the oldest when shrinking.
    let age = |index: usize| i64::try_from(index).unwrap_or(i64::MAX);
    active.sort_by_key(|index| {
        let order = if to_add > 0 {
            -age(*index)
        } else {
            age(*index)
        };
        (-replicas(&rollout.sets[*index]), order)
    });

    let mut added = 0;
    let mut sizes = Vec::new();
    for index in &active {
        let share = if to_add == 0 {
            0
        } else {
            share(rollout, *index, to_add - added)
        };
        sizes.push(replicas(&rollout.sets[*index]) + share);
        added += share;
    }

    // The largest one takes what rounding left over.
    if let Some(largest) = sizes.first_mut() {
        *largest = (*largest + to_add - added).max(0);
    }

    for (index, size) in active.into_iter().zip(sizes) {
        resize(rollout, index, size, context)?;
    }

    Ok(())
}

/// How many of the remaining replicas a ReplicaSet gains, or loses.
fn share(rollout: &Rollout, index: usize, left: i64) -> i64 {
    let set = &rollout.sets[index];
    let (own, wanted) = (replicas(set), rollout.wanted());

    if left == 0 || own == 0 {
        return 0;
    }

    let noted = text(set, &["metadata", "annotations", deployment_sets::MAXIMUM])
        .parse::<i64>()
        .ok();
    let before = noted.unwrap_or_else(|| number(&rollout.deployment, "/status/replicas", 0));

    let fraction = match (wanted, before) {
        (0, _) => -own,
        (_, 0) => 0,
        _ => rounded(own * (wanted + rollout.margins().0), before) - own,
    };

    if left > 0 {
        fraction.min(left)
    } else {
        fraction.max(left)
    }
}

/// A quotient of natural numbers, rounded to the nearest, halves up.
fn rounded(dividend: i64, divisor: i64) -> i64 {
    (2 * dividend + divisor) / (2 * divisor)
}
