//! The fields of an object without a schema.

use serde_json::Value;

use super::{element::PathElement, set::FieldSet};

/// The fields that identify a list item where there is no schema. Upstream they are
/// `AssociativeListCandidateFieldNames` in
/// <https://github.com/kubernetes-sigs/structured-merge-diff/blob/v6.3.0/fieldpath/fromvalue.go>.
const KEY_CANDIDATES: [&str; 3] = ["key", "id", "name"];

/// Every leaf of a value. A list item with a field `key`, `id` or `name` is identified by it, others
/// by their index.
pub fn fields_of_value(value: &Value) -> FieldSet {
    let mut set = FieldSet::new();
    visit(value, &mut Vec::new(), &mut set);
    set
}

fn visit(value: &Value, path: &mut Vec<PathElement>, set: &mut FieldSet) {
    let steps: Vec<(PathElement, &Value)> = match value {
        Value::Array(items) => (0..)
            .zip(items)
            .map(|(index, item)| (item_element(index, item), item))
            .collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (PathElement::field(name), value))
            .collect(),
        _ => return set.insert(path),
    };

    for (element, value) in steps {
        path.push(element);
        visit(value, path, set);
        path.pop();
    }
}

fn item_element(index: i64, item: &Value) -> PathElement {
    let candidates = KEY_CANDIDATES.iter().filter_map(|name| {
        let value = item
            .get(name)
            .filter(|value| !value.is_null() && !value.is_array() && !value.is_object())?;
        Some(((*name).to_owned(), value.clone()))
    });

    let keys: Vec<_> = candidates.collect();
    if keys.is_empty() {
        PathElement::Index(index)
    } else {
        PathElement::key(keys)
    }
}
