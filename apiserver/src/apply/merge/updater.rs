//! Updates of an object's managers, as in
//! <https://github.com/kubernetes-sigs/structured-merge-diff/blob/v6.3.0/merge/update.go>.

use std::collections::BTreeMap;

use super::{
    conflict::{Conflict, conflicts_of},
    managers::{ManagedSets, ManagerId, VersionedSet},
    prune::{PruneError, prune},
    version::{ConvertError, VersionConverter},
};
use crate::apply::{
    fieldpath::{FieldFilter, FieldSet},
    typed::{Comparison, TypedValue, ValidationErrors},
    value::equal,
};

/// An error of an apply or an update.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// Other managers manage fields that would change.
    #[error("{} conflicts", .0.len())]
    Conflicts(Vec<Conflict>),
    /// The objects could not be merged or compared.
    #[error("{0}")]
    Failed(String),
}

impl From<PruneError> for UpdateError {
    fn from(error: PruneError) -> Self {
        Self::Failed(format!("failed to prune fields: {error}"))
    }
}

fn failed(what: &'static str) -> impl Fn(ValidationErrors) -> UpdateError {
    move |error| UpdateError::Failed(format!("failed to {what}: {error}"))
}

/// Computes objects and their managers.
pub struct Updater<'a> {
    /// Converts objects into the versions of the managers.
    pub converter: &'a dyn VersionConverter,
    /// The fields that count, by version.
    pub filters: &'a BTreeMap<String, FieldFilter>,
}

impl Updater<'_> {
    /// Returns the managers after `manager` changed `live` into `new`.
    ///
    /// # Errors
    /// Returns why the objects cannot be compared.
    pub fn update(
        &self,
        live: &TypedValue,
        new: &TypedValue,
        api_version: &str,
        managers: ManagedSets,
        manager: &ManagerId,
    ) -> Result<ManagedSets, UpdateError> {
        let managers = self.reconcile(live, managers)?;

        let change = Change {
            live,
            new,
            api_version,
            manager,
        };
        let (mut managers, comparison) = self.take_fields(&change, managers, true)?;

        let previous = managers
            .remove(manager)
            .map(|fields| fields.set)
            .unwrap_or_default();

        let mut set = previous.difference(&comparison.removed);
        set.extend(&comparison.modified);
        set.extend(&comparison.added);

        let set = self.filter(api_version, set);
        if !set.is_empty() {
            managers.insert(
                manager.clone(),
                VersionedSet {
                    set,
                    api_version: api_version.into(),
                    applied: false,
                },
            );
        }

        Ok(managers)
    }

    /// Returns the object and its managers after `manager` applied a configuration. The object is
    /// `None` if it did not change.
    ///
    /// Fields that the manager applied before and no longer applies are removed, unless somebody else
    /// manages them.
    ///
    /// # Errors
    /// Returns the conflicts, unless the apply is forced, or why the objects cannot be merged.
    pub fn apply(
        &self,
        live: &TypedValue,
        applied: &TypedValue,
        api_version: &str,
        managers: ManagedSets,
        (manager, force): (&ManagerId, bool),
    ) -> Result<(Option<TypedValue>, ManagedSets), UpdateError> {
        let mut managers = self.reconcile(live, managers)?;

        let merged = live.merge(applied).map_err(failed("merge config"))?;
        let set = self.filter(
            api_version,
            applied.field_set().map_err(failed("get field set"))?,
        );

        let fields = VersionedSet {
            set,
            api_version: api_version.into(),
            applied: true,
        };

        let previous = managers.insert(manager.clone(), fields);
        let new = match previous.filter(|previous| !previous.set.is_empty()) {
            Some(previous) => prune(self.converter, &merged, &managers, &previous, api_version)?,
            None => merged,
        };

        let change = Change {
            live,
            new: &new,
            api_version,
            manager,
        };

        let (managers, _) = self.take_fields(&change, managers, force)?;
        let changed = !equal(live.value(), new.value());
        Ok((changed.then_some(new), managers))
    }

    fn filter(&self, api_version: &str, set: FieldSet) -> FieldSet {
        match self.filters.get(api_version) {
            Some(filter) => filter.filter(&set),
            None => set,
        }
    }

    /// Takes changed fields from the other managers, and removed fields from all of them.
    fn take_fields(
        &self,
        change: &Change<'_>,
        mut managers: ManagedSets,
        force: bool,
    ) -> Result<(ManagedSets, Comparison), UpdateError> {
        let unfiltered = change
            .live
            .compare(change.new)
            .map_err(failed("compare objects"))?;
        let comparison = unfiltered.filter(self.filters.get(change.api_version));

        let mut comparisons =
            BTreeMap::from([(change.api_version.to_owned(), Some(comparison.clone()))]);

        let mut conflicts = ManagedSets::new();
        let others: Vec<_> = managers
            .keys()
            .filter(|other| *other != change.manager)
            .cloned()
            .collect();

        for other in others {
            let Some(fields) = managers.get_mut(&other) else {
                continue;
            };

            if !comparisons.contains_key(&fields.api_version) {
                comparisons.insert(
                    fields.api_version.clone(),
                    self.compare_in(change, &fields.api_version)?,
                );
            }

            let Some(Some(comparison)) = comparisons.get(&fields.api_version) else {
                managers.remove(&other);
                continue;
            };

            let taken = fields
                .set
                .intersection(&comparison.modified.union(&comparison.added));
            fields.set = fields
                .set
                .difference(&taken)
                .difference(&comparison.removed);

            if !taken.is_empty() {
                conflicts.insert(
                    other,
                    VersionedSet {
                        set: taken,
                        ..fields.clone()
                    },
                );
            }
        }

        if !force && !conflicts.is_empty() {
            return Err(UpdateError::Conflicts(conflicts_of(&conflicts)));
        }

        managers.retain(|_, fields| !fields.set.is_empty());
        Ok((managers, comparison))
    }

    /// Compares the objects in another version, or returns `None` if that version does not exist.
    fn compare_in(
        &self,
        change: &Change<'_>,
        api_version: &str,
    ) -> Result<Option<Comparison>, UpdateError> {
        let convert =
            |object: &TypedValue, what: &str| match self.converter.convert(object, api_version) {
                Ok(object) => Ok(Some(object)),
                Err(ConvertError::MissingVersion(_)) => Ok(None),
                Err(error) => Err(UpdateError::Failed(format!(
                    "failed to convert {what} object: {error}"
                ))),
            };

        let (Some(live), Some(new)) = (convert(change.live, "old")?, convert(change.new, "new")?)
        else {
            return Ok(None);
        };

        let comparison = live.compare(&new).map_err(failed("compare objects"))?;
        Ok(Some(comparison.filter(self.filters.get(api_version))))
    }

    /// Adapts the managers' sets to changed types, and drops managers in versions that no longer
    /// exist.
    fn reconcile(
        &self,
        live: &TypedValue,
        managers: ManagedSets,
    ) -> Result<ManagedSets, UpdateError> {
        let mut converted: BTreeMap<String, Option<TypedValue>> = BTreeMap::new();
        let mut reconciled = ManagedSets::new();

        for (manager, mut fields) in managers {
            if !converted.contains_key(&fields.api_version) {
                let object = match self.converter.convert(live, &fields.api_version) {
                    Ok(object) => Some(object),
                    Err(ConvertError::MissingVersion(_)) => None,
                    Err(error) => return Err(UpdateError::Failed(error.to_string())),
                };
                converted.insert(fields.api_version.clone(), object);
            }

            let Some(Some(object)) = converted.get(&fields.api_version) else {
                continue;
            };

            let adapted = object.reconcile(&fields.set).map_err(failed_to_reconcile)?;
            fields.set = adapted.unwrap_or(fields.set);
            reconciled.insert(manager, fields);
        }

        Ok(reconciled)
    }
}

fn failed_to_reconcile(error: ValidationErrors) -> UpdateError {
    UpdateError::Failed(format!("errors reconciling field set with schema: {error}"))
}

/// A change of an object by a manager.
struct Change<'a> {
    live: &'a TypedValue,
    new: &'a TypedValue,
    api_version: &'a str,
    manager: &'a ManagerId,
}
