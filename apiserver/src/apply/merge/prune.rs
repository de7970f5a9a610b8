//! Removal of fields that a manager no longer applies. Upstream is `prune` in
//! <https://github.com/kubernetes-sigs/structured-merge-diff/blob/v6.3.0/merge/update.go>.

use std::collections::BTreeMap;

use super::{
    managers::{ManagedSets, VersionedSet},
    version::{ConvertError, VersionConverter},
};
use crate::apply::{
    fieldpath::FieldSet,
    typed::{TypedValue, ValidationErrors},
};

/// Why fields could not be removed.
#[derive(Debug, thiserror::Error)]
pub(super) enum PruneError {
    #[error("failed to convert {object} object at version {api_version}: {error}")]
    Convert {
        object: &'static str,
        api_version: String,
        error: ConvertError,
    },
    #[error("failed to create field set: {0}")]
    FieldSet(#[from] ValidationErrors),
    #[error("{0}")]
    Back(ConvertError),
}

/// Removes from a merged object those fields of `previous` that no manager has any longer.
///
/// `managers` includes the applying manager's new set. The result is in `api_version`.
pub(super) fn prune(
    converter: &dyn VersionConverter,
    merged: &TypedValue,
    managers: &ManagedSets,
    previous: &VersionedSet,
    api_version: &str,
) -> Result<TypedValue, PruneError> {
    let Some(merged_before) = convert(converter, merged, &previous.api_version, "merged")? else {
        return Ok(merged.clone());
    };

    let pruned = merged_before.remove(&merged_before.ensure_named_fields(&previous.set));
    let pruned = add_back_owned(
        converter,
        &merged_before,
        pruned,
        (&previous.api_version, managers),
    )?;

    let pruned = add_back_dangling(converter, merged_before, &pruned, previous)?;
    converter
        .convert(&pruned, api_version)
        .map_err(PruneError::Back)
}

/// Converts an object. Returns `None` if the version does not exist.
fn convert(
    converter: &dyn VersionConverter,
    object: &TypedValue,
    api_version: &str,
    name: &'static str,
) -> Result<Option<TypedValue>, PruneError> {
    match converter.convert(object, api_version) {
        Ok(object) => Ok(Some(object)),
        Err(ConvertError::MissingVersion(_)) => Ok(None),
        Err(error) => Err(PruneError::Convert {
            object: name,
            api_version: api_version.into(),
            error,
        }),
    }
}

/// Adds back the fields that have managers, those in the version of the previous apply first:
/// converting to the other versions may need them.
fn add_back_owned(
    converter: &dyn VersionConverter,
    merged: &TypedValue,
    pruned: TypedValue,
    (previous_version, managers): (&str, &ManagedSets),
) -> Result<TypedValue, PruneError> {
    let mut managed: BTreeMap<&str, FieldSet> = BTreeMap::new();
    for fields in managers.values() {
        managed
            .entry(&fields.api_version)
            .or_default()
            .extend(&fields.set);
    }

    let first = managed.remove_entry(previous_version);
    let mut merged = merged.clone();
    let mut pruned = pruned;

    for (api_version, managed) in first.into_iter().chain(managed) {
        let Some(merged_here) = convert(converter, &merged, api_version, "merged")? else {
            continue;
        };

        merged = merged_here;
        let Some(pruned_here) = convert(converter, &pruned, api_version, "pruned")? else {
            continue;
        };

        let present = merged.ensure_named_fields(&merged.field_set()?);
        let kept = merged
            .ensure_named_fields(&pruned_here.field_set()?)
            .union(&merged.ensure_named_fields(&managed));
        pruned = merged.remove(&present.difference(&kept));
    }

    Ok(pruned)
}

/// Adds back what was removed without belonging to the applying manager: items that others put into
/// its lists and maps.
fn add_back_dangling(
    converter: &dyn VersionConverter,
    merged: TypedValue,
    pruned: &TypedValue,
    previous: &VersionedSet,
) -> Result<TypedValue, PruneError> {
    let Some(pruned) = convert(converter, pruned, &previous.api_version, "pruned")? else {
        return Ok(merged);
    };

    let kept = merged.ensure_named_fields(&pruned.field_set()?);
    let present = merged.ensure_named_fields(&merged.field_set()?);
    let previous = merged.ensure_named_fields(&previous.set);

    Ok(merged.remove(&present.difference(&kept).intersection(&previous)))
}
