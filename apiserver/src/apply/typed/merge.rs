//! Merging of an applied object into a live one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{
    error::ValidationErrors,
    list_items::item_element,
    merge_order::{MergedItem, merge_order},
    validate::{invalid_atom, resolve, scalar_errors},
};
use crate::apply::{
    fieldpath::PathElement,
    schema::{Atom, ListType, MapType, ObjectType, Relationship, Scalar, Schema, TypeRef},
};

pub(super) fn merge(
    object_type: &ObjectType,
    live: &Value,
    applied: &Value,
) -> Result<Value, ValidationErrors> {
    let mut merger = Merger {
        schema: &object_type.schema,
        errors: ValidationErrors::default(),
    };
    let merged = merger.value(&object_type.root, Some(live), Some(applied));
    merger.errors.check(merged.unwrap_or_default())
}

struct Merger<'a> {
    schema: &'a Schema,
    errors: ValidationErrors,
}

type Side<'a> = Option<&'a Value>;

impl Merger<'_> {
    fn value(&mut self, type_ref: &TypeRef, live: Side<'_>, applied: Side<'_>) -> Option<Value> {
        let atom = match resolve(self.schema, type_ref) {
            Ok(atom) => atom,
            Err(errors) => {
                self.errors.extend(errors);
                return None;
            }
        };

        let live_atom = atom.deduce(live);
        if applied.is_none() {
            return self.shape(&live_atom, type_ref, live, applied);
        }

        let applied_atom = atom.deduce(applied);
        if live.is_some() && !live_atom.same_shapes(&applied_atom) {
            // The value changes its shape. The old one is visited only for its errors.
            self.shape(&live_atom, type_ref, live, applied);
        }

        self.shape(&applied_atom, type_ref, live, applied)
    }

    fn shape(
        &mut self,
        atom: &Atom,
        type_ref: &TypeRef,
        live: Side<'_>,
        applied: Side<'_>,
    ) -> Option<Value> {
        match (&atom.map, atom.scalar, &atom.list) {
            (Some(map), ..) => self.map(map, live, applied),
            (None, Some(scalar), _) => self.scalar(scalar, live, applied),
            (None, None, Some(list)) => self.list(list, live, applied),
            (None, None, None) => {
                self.errors.extend(invalid_atom(type_ref));
                None
            }
        }
    }

    fn scalar(&mut self, scalar: Scalar, live: Side<'_>, applied: Side<'_>) -> Option<Value> {
        let live_errors = scalar_errors(scalar, live, "lhs: ");
        let applied_errors = scalar_errors(scalar, applied, "rhs: ");

        if !live_errors.0.is_empty() && !applied_errors.0.is_empty() {
            self.errors.extend(live_errors);
            self.errors.extend(applied_errors);
            return None;
        }

        leaf(live, applied)
    }

    fn map(&mut self, map: &MapType, live: Side<'_>, applied: Side<'_>) -> Option<Value> {
        let live_fields = live
            .and_then(Value::as_object)
            .filter(|fields| !fields.is_empty());
        let applied_fields = applied
            .and_then(Value::as_object)
            .filter(|fields| !fields.is_empty());

        if map.relationship == Relationship::Atomic
            || (live_fields.is_none() && applied_fields.is_none())
        {
            return leaf(live, applied);
        }

        let names: BTreeSet<_> = live_fields
            .into_iter()
            .chain(applied_fields)
            .flat_map(Map::keys)
            .collect();

        let mut merged = Map::new();
        for name in names {
            let before = self.errors.0.len();
            let live = live_fields.and_then(|fields| fields.get(name));
            let applied = applied_fields.and_then(|fields| fields.get(name));

            let value = self.value(map.field_type(name), live, applied);
            merged.extend(value.map(|value| (name.clone(), value)));

            let errors = ValidationErrors(self.errors.0.split_off(before));
            self.errors.extend(errors.below(&PathElement::field(name)));
        }

        (!merged.is_empty()).then_some(Value::Object(merged))
    }

    fn list(&mut self, list: &ListType, live: Side<'_>, applied: Side<'_>) -> Option<Value> {
        let live_items = live
            .and_then(Value::as_array)
            .filter(|items| !items.is_empty());
        let applied_items = applied
            .and_then(Value::as_array)
            .filter(|items| !items.is_empty());

        if list.relationship == Relationship::Atomic
            || (live_items.is_none() && applied_items.is_none())
        {
            return leaf(live, applied);
        }

        let before = self.errors.0.len();
        let applied_elements = self.elements(list, applied_items, false);
        let live_elements = self.elements(list, live_items, true);
        if self.errors.0.len() > before {
            return None;
        }

        let merged = self.items(
            list,
            (&live_elements, live_items),
            (&applied_elements, applied_items),
        );

        (!merged.is_empty()).then_some(Value::Array(merged))
    }

    fn elements(
        &mut self,
        list: &ListType,
        items: Option<&Vec<Value>>,
        duplicates: bool,
    ) -> Vec<PathElement> {
        let mut elements = Vec::new();
        let mut seen = BTreeSet::new();

        for (index, item) in items.into_iter().flatten().enumerate() {
            match item_element(self.schema, list, item) {
                Ok(element) if duplicates || seen.insert(element.clone()) => elements.push(element),
                Ok(element) => {
                    self.errors.extend(ValidationErrors::one(format!(
                        "duplicate entries for key {element}"
                    )));
                }
                Err(message) => self
                    .errors
                    .extend(ValidationErrors::one(format!("element {index}: {message}"))),
            }
        }

        elements
    }

    /// Merges the items of two lists. Like structured-merge-diff, it drops the items' errors.
    fn items(&mut self, list: &ListType, live: Indexed<'_>, applied: Indexed<'_>) -> Vec<Value> {
        let by_element = unique_items(live);
        let before = self.errors.0.len();
        let mut merged = Vec::new();

        for item in merge_order(live.0, applied.0) {
            let (live, applied) = match item {
                MergedItem::Old(at) => (item_at(live, at), None),
                MergedItem::New(at) => (
                    by_element.get(&applied.0[at]).copied(),
                    item_at(applied, at),
                ),
            };

            merged.extend(self.value(&list.element, live, applied));
        }

        self.errors.0.truncate(before);
        merged
    }
}

/// The path elements of a list's items, with the items.
type Indexed<'a> = (&'a [PathElement], Option<&'a Vec<Value>>);

fn item_at<'a>(list: Indexed<'a>, at: usize) -> Side<'a> {
    list.1.and_then(|items| items.get(at))
}

/// The items by element. Items that share an element become null, because they are replaced instead
/// of merged.
fn unique_items<'a>(list: Indexed<'a>) -> BTreeMap<&'a PathElement, &'a Value> {
    let mut unique = BTreeMap::new();

    for (at, element) in list.0.iter().enumerate() {
        let item = item_at(list, at).unwrap_or(&Value::Null);
        unique
            .entry(element)
            .and_modify(|item| *item = &Value::Null)
            .or_insert(item);
    }

    unique
}

fn leaf(live: Side<'_>, applied: Side<'_>) -> Option<Value> {
    applied.or(live).cloned()
}
