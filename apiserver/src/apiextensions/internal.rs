//! The internal form of a definition, which the real server validates: what all versions have in
//! common stands once.
//!
//! So messages speak of `spec.validation.openAPIV3Schema` where all versions have the same schema.

use serde_json::Value;

use super::model::{Column, SelectableField, Spec, Subresources, Validation, Version};

/// The common parts of the versions of a definition, and the rest of them.
#[derive(Debug)]
pub struct Internal<'a> {
    /// The schema of all versions.
    pub validation: Option<&'a Validation>,
    /// The schema of all versions as it was given.
    pub raw_schema: &'a Value,
    /// The subresources of all versions.
    pub subresources: Option<&'a Subresources>,
    /// The columns of all versions.
    pub columns: &'a [Column],
    /// Reports that all versions have the same columns, or none.
    pub columns_are_common: bool,
    /// The selectable fields of all versions.
    pub selectable: &'a [SelectableField],
    /// Reports that all versions have the same selectable fields, or none.
    pub selectable_are_common: bool,
    /// The versions, without what they have in common.
    pub versions: Value,
}

impl<'a> Internal<'a> {
    /// Finds what the versions of a definition have in common; `raw` is the object that it was
    /// decoded from.
    pub fn of(spec: &'a Spec, raw: &'a Value) -> Self {
        let first = spec.versions.first();
        let common = |same: &dyn Fn(&Version, &Version) -> bool| {
            first.filter(|first| spec.versions.iter().all(|version| same(version, first)))
        };
        let with_schema = common(&|a, b| a.schema == b.schema);
        let with_subresources = common(&|a, b| a.subresources == b.subresources);
        let with_columns =
            common(&|a, b| a.additional_printer_columns == b.additional_printer_columns);
        let with_selectable = common(&|a, b| a.selectable_fields == b.selectable_fields);

        let mut versions = raw
            .pointer("/spec/versions")
            .cloned()
            .unwrap_or(Value::Null);
        let moved = [
            ("schema", with_schema),
            ("subresources", with_subresources),
            ("additionalPrinterColumns", with_columns),
            ("selectableFields", with_selectable),
        ];

        for version in versions
            .as_array_mut()
            .into_iter()
            .flatten()
            .filter_map(Value::as_object_mut)
        {
            moved
                .iter()
                .filter(|(_, common)| common.is_some())
                .for_each(|(field, _)| drop(version.remove(*field)));
        }

        let raw_schema = raw
            .pointer("/spec/versions/0/schema/openAPIV3Schema")
            .unwrap_or(&Value::Null);
        Self {
            validation: with_schema.and_then(|version| version.schema.as_ref()),
            raw_schema,
            subresources: with_subresources.and_then(|version| version.subresources.as_ref()),
            columns: with_columns.map_or(&[], |version| &version.additional_printer_columns),
            columns_are_common: with_columns.is_some(),
            selectable: with_selectable.map_or(&[], |version| &version.selectable_fields),
            selectable_are_common: with_selectable.is_some(),
            versions,
        }
    }
}
