//! Comparison of two states of an object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{
    error::ValidationErrors,
    list_items::item_element,
    validate::{invalid_atom, resolve, scalar_errors},
};
use crate::apply::{
    fieldpath::{FieldFilter, FieldSet, PathElement},
    schema::{Atom, ListType, MapType, ObjectType, Relationship, Scalar, Schema, TypeRef},
    value::equal,
};

/// The fields that differ between two states of an object. No field is in two of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Fields that the newer state does not have.
    pub removed: FieldSet,
    /// Fields of both states with different values.
    pub modified: FieldSet,
    /// Fields that only the newer state has.
    pub added: FieldSet,
}

impl Comparison {
    /// Keeps only the fields that count.
    #[must_use]
    pub fn filter(self, filter: Option<&FieldFilter>) -> Self {
        let Some(filter) = filter else { return self };
        Self {
            removed: filter.filter(&self.removed),
            modified: filter.filter(&self.modified),
            added: filter.filter(&self.added),
        }
    }
}

/// Compares two values of a type.
pub(super) fn compare(
    object_type: &ObjectType,
    old: &Value,
    new: &Value,
) -> Result<Comparison, ValidationErrors> {
    let mut comparer = Comparer {
        schema: &object_type.schema,
        path: Vec::new(),
        comparison: Comparison::default(),
        errors: ValidationErrors::default(),
    };

    comparer.value(&object_type.root, Some(old), Some(new));
    comparer.errors.check(comparer.comparison)
}

struct Comparer<'a> {
    schema: &'a Schema,
    path: Vec<PathElement>,
    comparison: Comparison,
    errors: ValidationErrors,
}

type Side<'a> = Option<&'a Value>;

impl Comparer<'_> {
    fn value(&mut self, type_ref: &TypeRef, old: Side<'_>, new: Side<'_>) {
        let atom = match resolve(self.schema, type_ref) {
            Ok(atom) => atom,
            Err(errors) => return self.errors.extend(errors),
        };

        let old_atom = atom.deduce(old);
        let new_atom = atom.deduce(new);

        let is_leaf = if new.is_none() {
            self.shape(&old_atom, type_ref, old, new)
        } else {
            if old.is_some() && !old_atom.same_shapes(&new_atom) {
                self.shape(&old_atom, type_ref, old, new);
            }
            self.shape(&new_atom, type_ref, old, new)
        };

        if !is_leaf {
            self.record_presence(old, new);
        }
    }

    /// Compares values of one shape. Returns true if they are leaves.
    fn shape(&mut self, atom: &Atom, type_ref: &TypeRef, old: Side<'_>, new: Side<'_>) -> bool {
        match (&atom.map, atom.scalar, &atom.list) {
            (Some(map), ..) => self.map(map, old, new),
            (None, Some(scalar), _) => self.scalar(scalar, old, new),
            (None, None, Some(list)) => self.list(list, old, new),
            (None, None, None) => {
                self.errors.extend(invalid_atom(type_ref));
                false
            }
        }
    }

    fn record_presence(&mut self, old: Side<'_>, new: Side<'_>) {
        if old.is_none() {
            self.comparison.added.insert(&self.path);
        } else if new.is_none() {
            self.comparison.removed.insert(&self.path);
        }
    }

    fn leaf(&mut self, old: Side<'_>, new: Side<'_>) -> bool {
        match (old, new) {
            (Some(old), Some(new)) if !equal(old, new) => {
                self.comparison.modified.insert(&self.path);
            }
            (Some(_), Some(_)) => {}
            _ => self.record_presence(old, new),
        }
        true
    }

    fn scalar(&mut self, scalar: Scalar, old: Side<'_>, new: Side<'_>) -> bool {
        let old_errors = scalar_errors(scalar, old, "lhs: ");
        let new_errors = scalar_errors(scalar, new, "rhs: ");

        if !old_errors.0.is_empty() && !new_errors.0.is_empty() {
            self.errors.extend(old_errors);
            self.errors.extend(new_errors);
            return false;
        }
        self.leaf(old, new)
    }

    fn map(&mut self, map: &MapType, old: Side<'_>, new: Side<'_>) -> bool {
        let old_fields = old
            .and_then(Value::as_object)
            .filter(|fields| !fields.is_empty());
        let new_fields = new
            .and_then(Value::as_object)
            .filter(|fields| !fields.is_empty());

        if map.relationship == Relationship::Atomic
            || (old_fields.is_none() && new_fields.is_none())
        {
            return self.leaf(old, new);
        }

        let names: BTreeSet<_> = old_fields
            .into_iter()
            .chain(new_fields)
            .flat_map(Map::keys)
            .collect();

        for name in names {
            let old = old_fields.and_then(|fields| fields.get(name));
            let new = new_fields.and_then(|fields| fields.get(name));
            self.descend(PathElement::field(name), map.field_type(name), old, new);
        }

        false
    }

    fn list(&mut self, list: &ListType, old: Side<'_>, new: Side<'_>) -> bool {
        let old_items = old
            .and_then(Value::as_array)
            .filter(|items| !items.is_empty());
        let new_items = new
            .and_then(Value::as_array)
            .filter(|items| !items.is_empty());
        if list.relationship == Relationship::Atomic || (old_items.is_none() && new_items.is_none())
        {
            return self.leaf(old, new);
        }

        let old_items = self.items_by_element(list, old_items);
        let new_items = self.items_by_element(list, new_items);

        let elements: BTreeSet<_> = old_items.keys().chain(new_items.keys()).collect();
        for element in elements {
            let old = old_items
                .get(element)
                .map(Vec::as_slice)
                .unwrap_or_default();
            let new = new_items
                .get(element)
                .map(Vec::as_slice)
                .unwrap_or_default();

            self.items(list, element, old, new);
        }
        false
    }

    fn items_by_element<'v>(
        &mut self,
        list: &ListType,
        items: Option<&'v Vec<Value>>,
    ) -> BTreeMap<PathElement, Vec<&'v Value>> {
        let mut by_element: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (index, item) in items.into_iter().flatten().enumerate() {
            match item_element(self.schema, list, item) {
                Ok(element) => by_element.entry(element).or_default().push(item),
                Err(message) => self
                    .errors
                    .extend(ValidationErrors::one(format!("element {index}: {message}"))),
            }
        }

        by_element
    }

    /// Compares the items with one key. Duplicates are compared as a whole, as one change.
    fn items(&mut self, list: &ListType, element: &PathElement, old: &[&Value], new: &[&Value]) {
        let mut path = self.path.clone();
        path.push(element.clone());

        match (old.len(), new.len()) {
            (0 | 1, 0 | 1) => {
                self.descend(
                    element.clone(),
                    &list.element,
                    old.first().copied(),
                    new.first().copied(),
                );
            }
            (2.., 2..) => {
                let same =
                    old.len() == new.len() && old.iter().zip(new).all(|(old, new)| equal(old, new));
                if !same {
                    self.comparison.modified.insert(&path);
                }
            }
            (2.., _) => {
                if let Some(new) = new.first() {
                    self.descend(element.clone(), &list.element, None, Some(new));
                }
                self.comparison.removed.insert(&path);
            }
            (_, _) => {
                if let Some(old) = old.first() {
                    self.descend(element.clone(), &list.element, Some(old), None);
                }
                self.comparison.added.insert(&path);
            }
        }
    }

    fn descend(&mut self, element: PathElement, type_ref: &TypeRef, old: Side<'_>, new: Side<'_>) {
        let before = self.errors.0.len();
        self.path.push(element);
        self.value(type_ref, old, new);
        if let Some(element) = self.path.pop() {
            let errors = ValidationErrors(self.errors.0.split_off(before));
            self.errors.extend(errors.below(&element));
        }
    }
}
