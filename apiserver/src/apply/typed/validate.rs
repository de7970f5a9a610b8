//! Validation of values.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{error::ValidationErrors, list_items::item_element};
use crate::apply::{
    fieldpath::PathElement,
    schema::{Atom, ListType, MapType, ObjectType, Relationship, Scalar, Schema, TypeRef},
    value::{go_syntax, go_type, go_value},
};

/// The treatment of list items with the same key.
///
/// Live objects may have them, because older API servers did not check. Applied ones may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// Duplicates are valid.
    Allow,
    /// Duplicates are errors.
    Deny,
}

/// Checks that a value is of a type, and returns each field that is not.
pub(super) fn validate(
    object_type: &ObjectType,
    value: &Value,
    duplicates: Duplicates,
) -> Result<(), ValidationErrors> {
    let validator = Validator {
        schema: &object_type.schema,
        duplicates,
    };
    validator.value(&object_type.root, value).check(())
}

/// Resolves a type, or returns the error that it is unknown.
pub(super) fn resolve(schema: &Schema, type_ref: &TypeRef) -> Result<Atom, ValidationErrors> {
    let missing = || {
        ValidationErrors::one(format!(
            "schema error: no type found matching: {}",
            type_ref.describe()
        ))
    };

    schema.resolve(type_ref).ok_or_else(missing)
}

/// The error of an atom without any shape.
pub(super) fn invalid_atom(type_ref: &TypeRef) -> ValidationErrors {
    let name = type_ref
        .name
        .as_ref()
        .map_or("inlined".to_owned(), |name| format!("named type: {name}"));
    ValidationErrors::one(format!("schema error: invalid atom: {name}"))
}

/// The error of a value that is not a scalar of a kind. Null is valid.
pub(super) fn scalar_errors(
    scalar: Scalar,
    value: Option<&Value>,
    prefix: &str,
) -> ValidationErrors {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return ValidationErrors::default();
    };

    let message = match scalar {
        Scalar::Numeric if !value.is_number() => {
            format!(
                "{prefix}expected numeric (int or float), got {}",
                go_type(value)
            )
        }
        Scalar::String if !value.is_string() => {
            format!(
                "{prefix}expected string, got &value.valueUnstructured{{Value:{}}}",
                go_syntax(value)
            )
        }
        Scalar::Boolean if !value.is_boolean() => {
            format!("{prefix}expected boolean, got &{{{}}}", go_value(value))
        }
        Scalar::Untyped if value.is_array() || value.is_object() => {
            format!("{prefix}expected any scalar, got &{{{}}}", go_value(value))
        }
        _ => return ValidationErrors::default(),
    };

    ValidationErrors::one(message)
}

struct Validator<'a> {
    schema: &'a Schema,
    duplicates: Duplicates,
}

impl Validator<'_> {
    fn value(&self, type_ref: &TypeRef, value: &Value) -> ValidationErrors {
        let atom = match resolve(self.schema, type_ref) {
            Ok(atom) => atom.deduce(Some(value)),
            Err(errors) => return errors,
        };

        match (&atom.map, atom.scalar, &atom.list) {
            (Some(map), ..) => self.map(map, value),
            (None, Some(scalar), _) => scalar_errors(scalar, Some(value), ""),
            (None, None, Some(list)) => self.list(list, value),
            (None, None, None) => invalid_atom(type_ref),
        }
    }

    fn map(&self, map: &MapType, value: &Value) -> ValidationErrors {
        match value {
            Value::Null => ValidationErrors::default(),
            Value::Object(fields) => self.fields(map, fields),
            other => ValidationErrors::one(format!("expected map, got &{{{}}}", go_value(other))),
        }
    }

    /// Validates fields. Of undeclared ones only the first is reported, as upstream.
    fn fields(&self, map: &MapType, fields: &Map<String, Value>) -> ValidationErrors {
        let is_declared = |name: &String| map.fields.contains_key(name) || !map.element.is_empty();
        let mut errors = ValidationErrors::default();

        for (name, value) in fields.iter().filter(|(name, _)| is_declared(name)) {
            errors.extend(
                self.value(map.field_type(name), value)
                    .below(&PathElement::field(name)),
            );
        }

        if let Some(undeclared) = fields.keys().find(|name| !is_declared(name)) {
            let error = ValidationErrors::one("field not declared in schema");
            errors.extend(error.below(&PathElement::field(undeclared)));
        }

        errors
    }

    fn list(&self, list: &ListType, value: &Value) -> ValidationErrors {
        match value {
            Value::Null => ValidationErrors::default(),
            Value::Array(items) => self.items(list, items),
            other => ValidationErrors::one(format!("expected list, got &{{{}}}", go_value(other))),
        }
    }

    fn items(&self, list: &ListType, items: &[Value]) -> ValidationErrors {
        let mut errors = ValidationErrors::default();
        let mut seen = BTreeSet::new();

        for (index, item) in (0_i64..).zip(items) {
            let element = if list.relationship == Relationship::Associative {
                match item_element(self.schema, list, item) {
                    Ok(element) => element,
                    Err(message) => {
                        errors.extend(ValidationErrors::one(format!("element {index}: {message}")));
                        return errors;
                    }
                }
            } else {
                PathElement::Index(index)
            };

            if seen.contains(&element) && self.duplicates == Duplicates::Deny {
                errors.extend(ValidationErrors::one(format!(
                    "duplicate entries for key {element}"
                )));
            }

            errors.extend(self.value(&list.element, item).below(&element));
            seen.insert(element);
        }

        errors
    }
}
