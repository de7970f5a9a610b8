//! The status of a Plugin that is split: each replica that runs shards writes its own view of the
//! Plugin, and the one that runs the first shard computes the conditions and the counts from all
//! views. Pure functions, tested as a table.

use std::collections::BTreeSet;

use operetta_api::{
    conditions::{DEGRADED, READY, THROTTLED},
    reasons,
};
use operetta_core::{gate::finalizers::is_same_kind, replicas::Epoch};

use crate::plugin::{
    crd::{Condition, ControllerStatus, PluginStatus, ReplicaStatus, Usage},
    ownership::owners::Owners,
};

/// The replica that computes the status.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Its identity.
    pub replica: &'a str,
    /// True if it runs the first shard: it then writes the conditions and the counts.
    pub is_leading: bool,
    /// The time in RFC 3339.
    pub now: &'a str,
}

/// Computes the status of a split Plugin. `own` is the status of the Plugin as this replica sees
/// it, `before` the stored one. `is_member` reports whether the replica with an epoch may act.
pub fn status(
    view: View<'_>,
    own: PluginStatus,
    before: &PluginStatus,
    owners: &Owners,
    is_member: impl Fn(Epoch) -> bool,
) -> PluginStatus {
    let running: BTreeSet<&str> = owners
        .entries()
        .iter()
        .filter_map(|entry| entry.replica.as_deref())
        .collect();
    let is_other = |replica: &&ReplicaStatus| {
        replica.replica != view.replica && running.contains(&*replica.replica)
    };
    let mut replicas: Vec<ReplicaStatus> = before
        .owner
        .replicas
        .iter()
        .filter(is_other)
        .cloned()
        .collect();
    replicas.push(replica_status(view.replica, &own));
    replicas.sort_by(|one, other| one.replica.cmp(&other.replica));

    let mut whole = match view.is_leading {
        true => aggregate(
            own,
            &replicas,
            unstarted_shard(owners, &replicas, is_member),
        ),
        false => with_finalizers(before.clone(), &own),
    };
    for condition in whole.conditions.iter_mut().filter(|_| view.is_leading) {
        let is_same =
            |other: &&Condition| other.type_ == condition.type_ && other.status == condition.status;
        let since = before
            .conditions
            .iter()
            .find(is_same)
            .map(|other| other.last_transition_time.clone());
        condition.last_transition_time = since.unwrap_or_else(|| view.now.to_owned());
    }
    whole.owner = before.owner.clone();
    whole.owner.replicas = replicas;

    whole
}

/// Adds the finalizers that this replica has seen. The one that computes the status learns of them
/// by this.
fn with_finalizers(mut whole: PluginStatus, own: &PluginStatus) -> PluginStatus {
    for of_kind in &own.finalizers {
        let kind = of_kind.group_version_kind();
        let mut all = whole.finalizers.iter_mut();
        let Some(known) = all.find(|known| is_same_kind(&known.group_version_kind(), &kind)) else {
            whole.finalizers.push(of_kind.clone());
            continue;
        };
        for finalizer in &of_kind.finalizers {
            if !known.finalizers.contains(finalizer) {
                known.finalizers.push(finalizer.clone());
            }
        }
    }
    whole
}

fn replica_status(replica: &str, own: &PluginStatus) -> ReplicaStatus {
    let holds = |type_: &str| {
        own.conditions
            .iter()
            .any(|condition| condition.type_ == type_ && condition.status == "True")
    };
    ReplicaStatus {
        replica: replica.to_owned(),
        host: own.host.clone(),
        ready: holds(READY),
        degraded: holds(DEGRADED),
        reason: own.reason.clone(),
        message: own.message.clone(),
        controllers: own.controllers.clone(),
        usage: own.usage.clone(),
    }
}

/// Describes the first shard that no replica runs yet.
fn unstarted_shard(
    owners: &Owners,
    replicas: &[ReplicaStatus],
    is_member: impl Fn(Epoch) -> bool,
) -> Option<String> {
    owners.iter().zip(owners.entries()).find_map(|((shard, owner), entry)| {
        let replica = entry.replica.as_deref().unwrap_or_default();
        match owner {
            Some(owner) if !is_member(owner.epoch) => {
                Some(format!("waiting for another replica to take over shard {shard} from {replica}, which is gone"))
            }
            None => Some(format!("waiting for a replica to run shard {shard}")),
            Some(_) if !replicas.iter().any(|view| view.replica == replica) => {
                Some(format!("waiting for replica {replica} to begin to run shard {shard}"))
            }
            Some(_) => None,
        }
    })
}

/// Adds the views of all replicas to this replica's own. `unstarted` describes a shard that does not
/// run.
fn aggregate(
    own: PluginStatus,
    replicas: &[ReplicaStatus],
    unstarted: Option<String>,
) -> PluginStatus {
    let mut whole = own;
    let named = |view: &ReplicaStatus| {
        let message = format!(
            "replica {}: {}",
            view.replica,
            view.message.clone().unwrap_or_default()
        );
        (view.reason.clone().unwrap_or_default(), message)
    };

    let starting = || unstarted.map(|text| (reasons::SHARDS_STARTING.as_str().to_owned(), text));
    let not_ready = replicas
        .iter()
        .find(|view| !view.ready)
        .map(named)
        .or_else(starting);
    let degraded = replicas.iter().find(|view| view.degraded).map(named);
    if let Some((reason, message)) = not_ready {
        set(&mut whole, READY, "True", "False", &reason, &message);
    }
    if let Some((reason, message)) = degraded {
        set(&mut whole, DEGRADED, "False", "True", &reason, &message);
    }
    // A replica's summary says that it is throttled if nothing else is wrong with it.
    let throttled = |view: &&ReplicaStatus| {
        view.reason.as_deref() == Some(reasons::THROTTLED.as_str()) && view.ready
    };
    if let Some((reason, message)) = replicas.iter().find(throttled).map(named) {
        add_throttled(&mut whole);
        set(&mut whole, THROTTLED, "False", "True", &reason, &message);
    }

    let summary = [
        (DEGRADED, "True"),
        (READY, "False"),
        (THROTTLED, "True"),
        (READY, "True"),
    ];
    let find = |(type_, status): (&str, &str)| {
        whole
            .conditions
            .iter()
            .find(|condition| condition.type_ == type_ && condition.status == status)
    };

    if let Some(Condition {
        reason, message, ..
    }) = summary.into_iter().find_map(find).cloned()
    {
        whole.reason = Some(reason);
        whole.message = Some(message);
    }

    // The own counts are among the views.
    for controller in &mut whole.controllers {
        let ControllerStatus {
            name,
            for_,
            namespace,
            ..
        } = controller.clone();
        let mut sum = ControllerStatus {
            name,
            for_,
            namespace,
            ..ControllerStatus::default()
        };
        for view in replicas.iter().flat_map(|view| &view.controllers) {
            if view.name == sum.name {
                add(&mut sum, view);
            }
        }

        *controller = sum;
    }

    whole.usage = replicas
        .iter()
        .filter_map(|view| view.usage.clone())
        .reduce(sum);
    whole
}

/// Adds the condition of throttled plugins, which most don't have.
fn add_throttled(whole: &mut PluginStatus) {
    let has_it = whole
        .conditions
        .iter()
        .any(|condition| condition.type_ == THROTTLED);
    if has_it {
        return;
    }

    whole.conditions.push(Condition {
        type_: THROTTLED.to_owned(),
        status: "False".to_owned(),
        reason: reasons::AS_EXPECTED.into(),
        message: String::new(),
        last_transition_time: String::new(),
        observed_generation: whole.observed_generation,
    });
}

/// Changes a condition, if it has the status `from`.
fn set(whole: &mut PluginStatus, type_: &str, from: &str, to: &str, reason: &str, message: &str) {
    let conditions = whole.conditions.iter_mut();
    for condition in
        conditions.filter(|condition| condition.type_ == type_ && condition.status == from)
    {
        condition.status = to.to_owned();
        condition.reason = reason.to_owned();
        condition.message = message.to_owned();
    }
}

/// Adds the counts of a controller on another replica.
fn add(sum: &mut ControllerStatus, other: &ControllerStatus) {
    sum.reconciles += other.reconciles;
    sum.errors += other.errors;
    sum.queued += other.queued;
    sum.failing += other.failing;
    sum.last_error = sum.last_error.take().or_else(|| other.last_error.clone());
}

/// Adds the use of two replicas.
fn sum(one: Usage, other: Usage) -> Usage {
    Usage {
        cpu_milliseconds: one.cpu_milliseconds + other.cpu_milliseconds,
        peak_memory_bytes: one.peak_memory_bytes.max(other.peak_memory_bytes),
        calls: one.calls + other.calls,
        cached_bytes: one.cached_bytes + other.cached_bytes,
    }
}

#[cfg(test)]
mod tests {
    use operetta_core::replicas::Shard;

    use super::*;
    use crate::plugin::crd::KindFinalizers;

    const DEAD: Epoch = Epoch(9);

    fn condition(type_: &str, status: &str, reason: &str) -> Condition {
        Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: format!("{reason} here"),
            last_transition_time: "t1".to_owned(),
            observed_generation: Some(3),
        }
    }

    /// The status as a replica sees it whose controller has made `reconciles`.
    fn seen(reconciles: i64, ready: bool, degraded: bool) -> PluginStatus {
        let controller = ControllerStatus {
            name: "c".into(),
            for_: "Pod.v1".into(),
            namespace: Some("n".into()),
            reconciles,
            ..Default::default()
        };
        let word = |holds: bool| if holds { "True" } else { "False" };
        let reason = match (ready, degraded) {
            (_, true) => "ReconcileTrapped",
            (true, false) => "Running",
            (false, false) => "Syncing",
        };
        let ready_reason = if ready { "Running" } else { "Syncing" };

        PluginStatus {
            reason: Some(reason.to_owned()),
            message: Some(format!("{reason} here")),
            controllers: vec![controller],
            usage: Some(Usage {
                calls: reconciles,
                peak_memory_bytes: reconciles,
                ..Usage::default()
            }),
            conditions: vec![
                condition("Loaded", "True", "Loaded"),
                condition(READY, word(ready), ready_reason),
                condition(
                    DEGRADED,
                    word(degraded),
                    if degraded { reason } else { "AsExpected" },
                ),
            ],
            ..PluginStatus::default()
        }
    }

    /// Four shards of which `a` runs two, `b` one, and the last has this owner.
    fn owners(last: Option<(&str, Epoch)>) -> Owners {
        let mut owners = Owners::none(4);
        let of = [
            Some(("a", Epoch(1))),
            Some(("b", Epoch(2))),
            Some(("a", Epoch(1))),
            last,
        ];
        Shard::all(4)
            .zip(of)
            .for_each(|(shard, owner)| owners.set(shard, owner));

        owners
    }

    /// The status that replica `a` computes, when `b` has written this view.
    fn computed(own: PluginStatus, view: Option<PluginStatus>, owners: &Owners) -> PluginStatus {
        let mut before = seen(0, true, false);
        before.owner.replicas = view.iter().map(|view| replica_status("b", view)).collect();
        before
            .owner
            .replicas
            .push(replica_status("gone", &seen(100, false, true)));

        let view = View {
            replica: "a",
            is_leading: true,
            now: "t2",
        };
        status(view, own, &before, owners, |epoch| epoch != DEAD)
    }

    #[test]
    fn finalizers_that_another_replica_has_seen_are_added() {
        let of = |kind: &str, names: &[&str]| KindFinalizers {
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            finalizers: names.iter().map(ToString::to_string).collect(),
        };
        let with = |finalizers: Vec<KindFinalizers>| PluginStatus {
            finalizers,
            ..seen(1, true, false)
        };
        let view = View {
            replica: "b",
            is_leading: false,
            now: "t2",
        };
        let own = with(vec![of("Pod", &["x/b", "x/a"]), of("Node", &["x/n"])]);
        let before = with(vec![of("Pod", &["x/a"])]);
        let whole = status(view, own, &before, &owners(None), |_| true);
        assert_eq!(
            whole.finalizers,
            [of("Pod", &["x/a", "x/b"]), of("Node", &["x/n"])]
        );
    }

    #[test]
    fn conditions_are_those_of_all_replicas() {
        let all = owners(Some(("b", Epoch(2))));
        let well = || seen(1, true, false);
        let table = [
            (
                computed(well(), Some(well()), &all),
                ["True", "False"],
                "Running",
                "Running here",
            ),
            (
                computed(well(), Some(seen(1, false, false)), &all),
                ["False", "False"],
                "Syncing",
                "replica b: Syncing here",
            ),
            (
                computed(well(), Some(seen(1, true, true)), &all),
                ["True", "True"],
                "ReconcileTrapped",
                "replica b: ReconcileTrapped here",
            ),
            (
                computed(seen(1, false, false), Some(well()), &all),
                ["False", "False"],
                "Syncing",
                "Syncing here",
            ),
            (
                computed(well(), None, &all),
                ["False", "False"],
                "ShardsStarting",
                "waiting for replica b to begin to run shard 1/4",
            ),
            (
                computed(well(), Some(well()), &owners(None)),
                ["False", "False"],
                "ShardsStarting",
                "waiting for a replica to run shard 3/4",
            ),
            (
                computed(well(), Some(well()), &owners(Some(("c", DEAD)))),
                ["False", "False"],
                "ShardsStarting",
                "waiting for another replica to take over shard 3/4 from c, which is gone",
            ),
        ];
        for (status, conditions, reason, message) in table {
            let found = [&status.conditions[1], &status.conditions[2]]
                .map(|condition| condition.status.as_str());
            assert_eq!(
                (found, status.reason.as_deref()),
                (conditions, Some(reason)),
                "{status:?}"
            );
            assert_eq!(status.message.as_deref(), Some(message));

            let times = [&status.conditions[1], &status.conditions[2]]
                .map(|one| one.last_transition_time.as_str());
            let since = |status: &str, before: &str| if status == before { "t1" } else { "t2" };
            assert_eq!(
                times,
                [since(conditions[0], "True"), since(conditions[1], "False")]
            );
        }
    }

    #[test]
    fn throttled_replica_throttles_the_whole() {
        let all = owners(Some(("b", Epoch(2))));
        let mut waits = seen(1, true, false);
        waits.reason = Some("Throttled".to_owned());
        waits.message = Some("it waits".to_owned());

        let status = computed(seen(1, true, false), Some(waits.clone()), &all);
        assert_eq!(
            (status.reason.as_deref(), status.message.as_deref()),
            (Some("Throttled"), Some("replica b: it waits"))
        );
        let throttled = &status.conditions[3];
        assert_eq!(
            (
                throttled.type_.as_str(),
                throttled.status.as_str(),
                throttled.reason.as_str(),
                throttled.last_transition_time.as_str()
            ),
            ("Throttled", "True", "Throttled", "t2")
        );
        assert_eq!(status.conditions[1].status, "True", "it is still ready");

        let degraded = computed(seen(1, true, true), Some(waits), &all);
        assert_eq!(degraded.reason.as_deref(), Some("ReconcileTrapped"));
        let well = computed(seen(1, true, false), Some(seen(1, true, false)), &all);
        assert_eq!(well.conditions.len(), 3, "most plugins never wait");
    }

    #[test]
    fn counts_are_summed_and_replicas_without_shards_forgotten() {
        let status = computed(
            seen(2, true, false),
            Some(seen(5, true, false)),
            &owners(Some(("b", Epoch(2)))),
        );
        assert_eq!(
            (
                status.controllers[0].reconciles,
                status.controllers[0].namespace.as_deref(),
                status.controllers[0].name.as_str()
            ),
            (7, Some("n"), "c")
        );

        let usage = status.usage.expect("usage");
        assert_eq!((usage.calls, usage.peak_memory_bytes), (7, 5));

        let replicas: Vec<&str> = status
            .owner
            .replicas
            .iter()
            .map(|replica| replica.replica.as_str())
            .collect();
        assert_eq!(replicas, ["a", "b"]);
    }

    #[test]
    fn replica_of_other_shards_writes_its_view_only() {
        let mut before = seen(1, true, false);
        before.owner.replicas = vec![replica_status("a", &seen(1, true, false))];
        let view = View {
            replica: "b",
            is_leading: false,
            now: "t2",
        };
        let own = seen(4, false, false);
        let mut status = status(view, own.clone(), &before, &owners(None), |_| true);
        assert_eq!(status.owner.replicas[1], replica_status("b", &own));

        status.owner.replicas.truncate(1);
        assert_eq!(status, before);
    }
}
