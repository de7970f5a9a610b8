//! Removal and extraction of fields.

use serde_json::{Map, Value};

use super::{field_set::field_set, list_items::item_element};
use crate::apply::{
    fieldpath::{FieldSet, PathElement},
    schema::{ListType, MapType, ObjectType, Relationship, Schema, TypeRef},
};

/// Returns a value without some fields. An atomic value that contains one of them is removed as a
/// whole.
pub(super) fn remove(object_type: &ObjectType, value: &Value, fields: &FieldSet) -> Value {
    Remover {
        schema: &object_type.schema,
        extract: false,
    }
    .value(&object_type.root, value, fields)
}

pub(super) fn extract(
    object_type: &ObjectType,
    value: &Value,
    fields: &FieldSet,
    key_fields: bool,
) -> Value {
    let extractor = Remover {
        schema: &object_type.schema,
        extract: true,
    };

    let keys = if key_fields {
        field_set(object_type, value).ok()
    } else {
        None
    };

    match keys {
        Some(present) => {
            let fields = fields.union(&key_fields_of(fields, &present));
            extractor.value(&object_type.root, value, &fields)
        }
        None => extractor.value(&object_type.root, value, fields),
    }
}

/// The key fields of list items along the paths of a set.
fn key_fields_of(fields: &FieldSet, present: &FieldSet) -> FieldSet {
    let mut keys = FieldSet::new();

    for path in fields
        .paths()
        .into_iter()
        .filter(|path| present.contains(&path.0))
    {
        for (at, element) in path.0.iter().enumerate() {
            let PathElement::Key(names) = element else {
                continue;
            };
            for (name, _) in names {
                let mut key = path.0[..=at].to_vec();
                key.push(PathElement::field(name));
                keys.insert(&key);
            }
        }
    }

    keys
}

struct Remover<'a> {
    schema: &'a Schema,
    /// Whether the fields are kept and all others removed.
    extract: bool,
}

impl Remover<'_> {
    fn value(&self, type_ref: &TypeRef, value: &Value, fields: &FieldSet) -> Value {
        let Some(atom) = self
            .schema
            .resolve(type_ref)
            .map(|atom| atom.deduce(Some(value)))
        else {
            return Value::Null;
        };

        match (&atom.map, atom.scalar, &atom.list, value) {
            (Some(map), _, _, Value::Object(content)) => self.map(map, value, content, fields),
            (None, Some(_), ..) => value.clone(),
            (None, None, Some(list), Value::Array(items)) => self.list(list, value, items, fields),
            _ => Value::Null,
        }
    }

    /// An empty or atomic value, which is kept or removed as a whole.
    fn whole(&self, value: &Value) -> Value {
        if self.extract {
            value.clone()
        } else {
            Value::Null
        }
    }

    fn map(
        &self,
        map: &MapType,
        value: &Value,
        content: &Map<String, Value>,
        fields: &FieldSet,
    ) -> Value {
        if content.is_empty() || map.relationship == Relationship::Atomic {
            return self.whole(value);
        }

        let mut kept = Map::new();
        let mut matched = false;

        for (name, value) in content {
            let element = PathElement::field(name);
            let field_type = map.field_type(name);
            let below = fields.child(&element);

            let value = match (fields.has_member(&element), below, self.extract) {
                // The whole field is kept.
                (true, _, true) => self.value(field_type, value, fields),
                (true, _, false) | (false, None, true) => continue,
                (false, None, false) => value.clone(),
                (false, Some(below), _) => {
                    matched = true;
                    self.below(field_type, value, below)
                }
            };

            kept.insert(name.clone(), value);
        }

        let keep_empty = matched && !self.extract;
        if kept.is_empty() && !keep_empty {
            Value::Null
        } else {
            Value::Object(kept)
        }
    }

    fn list(&self, list: &ListType, value: &Value, items: &[Value], fields: &FieldSet) -> Value {
        if items.is_empty() || list.relationship == Relationship::Atomic {
            return self.whole(value);
        }

        let mut kept = Vec::new();
        let mut matched = false;

        for item in items {
            let element = item_element(self.schema, list, item).ok();
            let is_member = element
                .as_ref()
                .is_some_and(|element| fields.has_member(element));
            let below = element.as_ref().and_then(|element| fields.child(element));

            match (is_member, below, self.extract) {
                (_, Some(below), true) => kept.push(self.value(&list.element, item, below)),
                (true, None, true) | (false, None, false) => kept.push(item.clone()),
                (true, _, false) | (false, None, true) => {}
                (false, Some(below), false) => {
                    matched = true;
                    kept.push(self.below(&list.element, item, below));
                }
            }
        }

        let keep_empty = matched && !self.extract;
        if kept.is_empty() && !keep_empty {
            Value::Null
        } else {
            Value::Array(kept)
        }
    }

    /// Removes or extracts below a field. A container stays even if it has become empty.
    fn below(&self, type_ref: &TypeRef, value: &Value, fields: &FieldSet) -> Value {
        match (self.value(type_ref, value, fields), value) {
            (Value::Null, Value::Object(_)) if !self.extract => Value::Object(Map::new()),
            (Value::Null, Value::Array(_)) if !self.extract => Value::Array(Vec::new()),
            (kept, _) => kept,
        }
    }
}
