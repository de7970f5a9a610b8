//! Conflicts between an applier and other managers.

use super::managers::{ManagedSets, ManagerId};
use crate::apply::fieldpath::FieldPath;

/// A field that an applier would change although another manager manages it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The other manager.
    pub manager: ManagerId,
    /// The field.
    pub path: FieldPath,
}

/// One conflict for each field of each manager, ordered by manager and path.
pub(super) fn conflicts_of(managers: &ManagedSets) -> Vec<Conflict> {
    let mut managers: Vec<_> = managers.iter().collect();
    managers.sort_by_key(|(manager, _)| manager.sort_key());

    let conflicts = managers.into_iter().flat_map(|(manager, fields)| {
        fields.set.paths().into_iter().map(|path| Conflict {
            manager: manager.clone(),
            path,
        })
    });
    conflicts.collect()
}
