//! Sets with the structs that contain their fields.

use crate::apply::{
    fieldpath::{FieldSet, PathElement},
    schema::{Atom, Schema, TypeRef},
};

/// Adds the declared fields that contain a set's fields: to `.a.b` also `.a`, if `a` is declared.
pub(super) fn ensure_named_fields(
    schema: &Schema,
    type_ref: Option<&TypeRef>,
    set: &FieldSet,
) -> FieldSet {
    let atom = type_ref
        .and_then(|type_ref| schema.resolve(type_ref))
        .unwrap_or_default();

    let is_declared = |element: &PathElement| match (element, &atom.map) {
        (PathElement::Field(name), Some(map)) => map.fields.contains_key(name),
        _ => false,
    };

    let members = set.members().chain(
        set.children()
            .map(|(element, _)| element)
            .filter(|element| is_declared(element)),
    );

    let children = set.children().map(|(element, child)| {
        (
            element.clone(),
            ensure_named_fields(schema, element_type(&atom, element), child),
        )
    });

    FieldSet::from_parts(members.cloned().collect(), children.collect())
}

fn element_type<'a>(atom: &'a Atom, element: &PathElement) -> Option<&'a TypeRef> {
    match (element, &atom.map, &atom.list) {
        (PathElement::Field(name), Some(map), _) => Some(map.field_type(name)),
        (PathElement::Key(_), _, Some(list)) => Some(&list.element),
        _ => None,
    }
}
