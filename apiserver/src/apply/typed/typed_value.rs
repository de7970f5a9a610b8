//! A value with its type.

use std::sync::Arc;

use serde_json::Value;

use super::{
    compare::{Comparison, compare},
    ensure_named::ensure_named_fields,
    error::ValidationErrors,
    field_set::field_set,
    merge::merge,
    reconcile::reconcile,
    remove::{extract, remove},
    validate::{Duplicates, validate},
};
use crate::apply::{fieldpath::FieldSet, schema::ObjectType};

/// A value that is valid for its type. Copies share the value.
#[derive(Clone, Debug)]
pub struct TypedValue {
    object_type: ObjectType,
    value: Arc<Value>,
}

impl TypedValue {
    /// Checks that a value is of a type.
    ///
    /// # Errors
    /// Returns each field whose value is not of its type.
    pub fn new(
        value: Arc<Value>,
        object_type: ObjectType,
        duplicates: Duplicates,
    ) -> Result<Self, ValidationErrors> {
        validate(&object_type, &value, duplicates)?;
        Ok(Self { object_type, value })
    }

    /// Returns the value.
    pub fn value(&self) -> &Arc<Value> {
        &self.value
    }

    fn with(&self, value: Value) -> Self {
        Self {
            object_type: self.object_type.clone(),
            value: Arc::new(value),
        }
    }

    /// Returns all fields of the value.
    ///
    /// # Errors
    /// Returns which types are unknown.
    pub fn field_set(&self) -> Result<FieldSet, ValidationErrors> {
        field_set(&self.object_type, &self.value)
    }

    /// Merges a partial object into this one, removing nothing. Lists take the order of `applied`,
    /// with the other items where they were.
    ///
    /// # Errors
    /// Returns the fields that cannot be merged.
    pub fn merge(&self, applied: &Self) -> Result<Self, ValidationErrors> {
        Ok(self.with(merge(&self.object_type, &self.value, &applied.value)?))
    }

    /// Compares this object with a newer one.
    ///
    /// # Errors
    /// Returns the fields that cannot be compared.
    pub fn compare(&self, newer: &Self) -> Result<Comparison, ValidationErrors> {
        compare(&self.object_type, &self.value, &newer.value)
    }

    /// Returns the value without some fields and items.
    pub fn remove(&self, fields: &FieldSet) -> Self {
        self.with(remove(&self.object_type, &self.value, fields))
    }

    /// Returns only these fields and items. With `key_fields`, the items of lists keep their keys.
    pub fn extract(&self, fields: &FieldSet, key_fields: bool) -> Self {
        self.with(extract(&self.object_type, &self.value, fields, key_fields))
    }

    /// Returns a set with the structs that contain its fields.
    pub fn ensure_named_fields(&self, set: &FieldSet) -> FieldSet {
        ensure_named_fields(&self.object_type.schema, Some(&self.object_type.root), set)
    }

    /// Adapts a set to types that became atomic since it was written. Returns `None` if nothing
    /// changed.
    ///
    /// # Errors
    /// Returns which types are unknown.
    pub fn reconcile(&self, set: &FieldSet) -> Result<Option<FieldSet>, ValidationErrors> {
        reconcile(&self.object_type, set)
    }
}
