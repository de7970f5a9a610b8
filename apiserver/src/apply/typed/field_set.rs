//! The fields of a value.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{
    error::ValidationErrors,
    list_items::item_element,
    validate::{invalid_atom, resolve},
};
use crate::apply::{
    fieldpath::{FieldSet, PathElement},
    schema::{ListType, MapType, ObjectType, Relationship, Schema, TypeRef},
};

pub(super) fn field_set(
    object_type: &ObjectType,
    value: &Value,
) -> Result<FieldSet, ValidationErrors> {
    let mut collector = Collector {
        schema: &object_type.schema,
        path: Vec::new(),
        set: FieldSet::new(),
        errors: ValidationErrors::default(),
    };

    collector.value(&object_type.root, value);
    collector.errors.check(collector.set)
}

struct Collector<'a> {
    schema: &'a Schema,
    path: Vec<PathElement>,
    set: FieldSet,
    errors: ValidationErrors,
}

impl Collector<'_> {
    fn value(&mut self, type_ref: &TypeRef, value: &Value) {
        let atom = match resolve(self.schema, type_ref) {
            Ok(atom) => atom.deduce(Some(value)),
            Err(errors) => return self.errors.extend(errors),
        };

        match (&atom.map, atom.scalar, &atom.list) {
            (Some(map), ..) if map.relationship == Relationship::Atomic => self.insert(),
            (Some(map), ..) => value
                .as_object()
                .into_iter()
                .for_each(|fields| self.fields(map, fields)),
            (None, Some(_), _) => self.insert(),
            (None, None, Some(list)) if list.relationship == Relationship::Atomic => self.insert(),
            (None, None, Some(list)) => value
                .as_array()
                .into_iter()
                .for_each(|items| self.items(list, items)),
            (None, None, None) => self.errors.extend(invalid_atom(type_ref)),
        }
    }

    fn insert(&mut self) {
        self.set.insert(&self.path);
    }

    /// Collects fields. Empty and null ones, and those of maps, are members themselves.
    fn fields(&mut self, map: &MapType, fields: &Map<String, Value>) {
        for (name, value) in fields {
            self.path.push(PathElement::field(name));
            self.value(map.field_type(name), value);

            let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
            if is_empty || !map.fields.contains_key(name) {
                self.insert();
            }

            self.path.pop();
        }
    }

    /// Collects items. Items that share a key count as one leaf.
    fn items(&mut self, list: &ListType, items: &[Value]) {
        let elements: Vec<_> = items
            .iter()
            .filter_map(|item| Some((item_element(self.schema, list, item).ok()?, item)))
            .collect();

        let duplicates = duplicates(&elements);
        for (element, item) in elements {
            let is_duplicate = duplicates.contains(&element);
            self.path.push(element);

            if !is_duplicate {
                self.value(&list.element, item);
            }
            self.insert();
            self.path.pop();
        }
    }
}

fn duplicates(elements: &[(PathElement, &Value)]) -> BTreeSet<PathElement> {
    let mut counts = BTreeMap::new();
    for (element, _) in elements {
        *counts.entry(element).or_insert(0) += 1;
    }

    counts
        .into_iter()
        .filter(|(_, count)| *count > 1)
        .map(|(element, _)| element.clone())
        .collect()
}
