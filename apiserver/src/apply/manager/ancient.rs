//! The limit on updating managers.
//!
//! An object that many clients update would collect entries forever, so the oldest ones are merged.
//! See
//! <https://github.com/kubernetes/kubernetes/blob/v1.36.2/staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/capmanagers.go>.

use std::collections::BTreeMap;

use super::entries::{Managed, manager_id};
use crate::apply::merge::{ManagerId, Operation};

/// How many updating managers an object keeps.
const MAX_UPDATE_MANAGERS: usize = 10;

/// The manager that takes over the fields of the oldest ones.
const ANCIENT_CHANGES: &str = "ancient-changes";

/// Merges the oldest updating managers, into one entry per version, until there are at most ten.
pub(super) fn cap_update_managers(managed: &mut Managed) {
    let mut updaters: Vec<_> = managed
        .sets
        .iter()
        .filter(|(_, fields)| !fields.applied)
        .map(|(manager, _)| manager.clone())
        .collect();

    let mut excess = updaters.len().saturating_sub(MAX_UPDATE_MANAGERS);
    if excess == 0 {
        return;
    }

    updaters.sort_by_cached_key(|manager| {
        let seconds = managed
            .times
            .get(manager)
            .map_or(0, |time| time.as_second());
        (seconds, manager.sort_key())
    });

    let mut oldest: BTreeMap<String, ManagerId> = BTreeMap::new();
    for manager in updaters {
        if excess == 0 {
            return;
        }

        let Some(version) = managed
            .sets
            .get(&manager)
            .map(|fields| fields.api_version.clone())
        else {
            continue;
        };

        match oldest.get(&version) {
            Some(first) => {
                merge_into_bucket(managed, first, &manager, &version);
                excess -= 1;
            }
            None => {
                oldest.insert(version, manager);
            }
        }
    }
}

/// Moves a manager's fields into the bucket of its version. The oldest manager of that version
/// becomes the bucket.
fn merge_into_bucket(managed: &mut Managed, first: &ManagerId, manager: &ManagerId, version: &str) {
    let bucket = manager_id(
        ANCIENT_CHANGES.into(),
        Operation::Update,
        version,
        String::new(),
    );
    let Some(fields) = managed.sets.get(manager).cloned() else {
        return;
    };

    if !managed.sets.contains_key(&bucket)
        && let Some(first) = managed.sets.remove(first)
    {
        managed.sets.insert(bucket.clone(), first);
    }

    let merged = managed
        .sets
        .entry(bucket.clone())
        .or_insert_with(|| fields.clone());
    merged.set.extend(&fields.set);
    managed.sets.remove(manager);

    if let Some(time) = managed.times.get(manager).copied() {
        managed.times.insert(bucket, time);
    }
}
