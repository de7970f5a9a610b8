//! Adaptation of field sets to changed types.
//!
//! Whoever managed a part of a map or list that has become atomic manages the whole. The reverse
//! needs nothing: who managed the whole keeps it.
//! direction needs nothing: who managed the whole manages the whole.

use std::collections::BTreeSet;

use super::{error::ValidationErrors, validate::invalid_atom};
use crate::apply::{
    fieldpath::{FieldSet, PathElement},
    schema::{DEDUCED_TYPE, MapType, ObjectType, Relationship, Scalar, Schema, TypeRef},
};

/// The adapted set, or `None` if it already fits the type.
pub(super) fn reconcile(
    object_type: &ObjectType,
    set: &FieldSet,
) -> Result<Option<FieldSet>, ValidationErrors> {
    let mut reconciler = Reconciler {
        schema: &object_type.schema,
        path: Vec::new(),
        became_atomic: None,
        errors: ValidationErrors::default(),
    };

    reconciler.value(&object_type.root, Some(set), false);

    let adapted = reconciler
        .became_atomic
        .map(|atomic| set.recursive_difference(&atomic).union(&atomic));

    reconciler.errors.check(adapted)
}

struct Reconciler<'a> {
    schema: &'a Schema,
    path: Vec<PathElement>,
    /// Atomic fields that have managed fields below them.
    became_atomic: Option<FieldSet>,
    errors: ValidationErrors,
}

impl Reconciler<'_> {
    /// Visits a field. `is_leaf`: it is a member without anything below.
    fn value(&mut self, type_ref: &TypeRef, set: Option<&FieldSet>, is_leaf: bool) {
        let Some(atom) = self.schema.resolve(type_ref) else {
            return self.errors.extend(ValidationErrors::one(format!(
                "could not resolve {}",
                type_ref.describe()
            )));
        };

        match (&atom.map, atom.scalar, &atom.list) {
            (Some(map), ..) if is_deduced_map(map) => {}
            (Some(map), ..) if !is_leaf && map.relationship == Relationship::Atomic => {
                if set.is_some_and(|set| !set.is_empty()) {
                    self.mark_atomic();
                }
            }
            (Some(map), ..) => self.elements(set, |element| match element {
                PathElement::Field(name) => {
                    Some(map.field_type(name)).filter(|field_type| !field_type.is_empty())
                }
                _ => Some(&map.element).filter(|element| !element.is_empty()),
            }),
            (None, Some(_), _) => {}
            (None, None, Some(list)) if !is_leaf && list.relationship == Relationship::Atomic => {
                self.mark_atomic();
            }
            (None, None, Some(list)) => self.elements(set, |_| Some(&list.element)),
            (None, None, None) => self.errors.extend(invalid_atom(type_ref)),
        }
    }

    fn mark_atomic(&mut self) {
        self.became_atomic
            .get_or_insert_default()
            .insert(&self.path);
    }

    fn elements<'t>(
        &mut self,
        set: Option<&FieldSet>,
        type_of: impl Fn(&PathElement) -> Option<&'t TypeRef>,
    ) {
        let Some(set) = set else { return };

        let elements: BTreeSet<_> = set
            .members()
            .chain(set.children().map(|(element, _)| element))
            .collect();

        for element in elements {
            let Some(type_ref) = type_of(element) else {
                continue;
            };

            let below = set.child(element);
            self.path.push(element.clone());
            self.value(type_ref, below, below.is_none());
            self.path.pop();
        }
    }
}

fn is_deduced_map(map: &MapType) -> bool {
    let element = &map.element;
    let is_deduced = match &element.name {
        Some(name) => &**name == DEDUCED_TYPE,
        None => element.inline.scalar == Some(Scalar::Untyped),
    };
    is_deduced && map.fields.is_empty()
}
