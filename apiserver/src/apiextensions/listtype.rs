//! Uniqueness of items in lists of type set and map.

use serde_json::{Map, Value, json};

use super::schema::Schema;
use crate::apimachinery::{
    field::{FieldError, Path, Shown},
    json,
};

/// Checks the lists in an object.
pub fn validate(path: &Path, schema: &Schema, value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check(path, schema, value, &mut errors);
    errors
}

fn check(path: &Path, schema: &Schema, value: &Value, errors: &mut Vec<FieldError>) {
    match value {
        Value::Array(items) => {
            match schema.list_type.as_deref() {
                Some("set") => {
                    let repeated = first_repetitions(items.iter().map(Some));
                    errors.extend(
                        repeated.map(|at| {
                            FieldError::duplicate(path.index(at), Shown::value(&items[at]))
                        }),
                    );
                }
                Some("map") => check_map(path, schema, items, errors),
                _ => {}
            }

            if let Some(item_schema) = schema.item() {
                items
                    .iter()
                    .enumerate()
                    .for_each(|(at, item)| check(&path.index(at), item_schema, item, errors));
            }
        }
        Value::Object(fields) => {
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_unstable_by_key(|(key, _)| *key);

            for (key, item) in sorted {
                if let Some(additional) = schema.additional() {
                    check(&path.key(key), additional, item, errors);
                }
                if let Some(property) = schema.properties.get(key) {
                    check(&path.child(key), property, item, errors);
                }
            }
        }
        _ => {}
    }
}

/// Returns where each repeated item occurs for the second time.
fn first_repetitions<'a>(
    items: impl Iterator<Item = Option<&'a Value>>,
) -> impl Iterator<Item = usize> {
    let mut seen: std::collections::HashMap<Option<String>, usize> =
        std::collections::HashMap::new();
    let mut found = Vec::new();

    for (at, item) in items.enumerate() {
        let times = seen.entry(item.map(json::to_string)).or_default();
        *times += 1;
        if *times == 2 {
            found.push(at);
        }
    }

    found.into_iter()
}

fn check_map(path: &Path, schema: &Schema, items: &[Value], errors: &mut Vec<FieldError>) {
    if let Some(at) = items
        .iter()
        .position(|item| !item.is_object() && !item.is_null())
    {
        let detail = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(
            path.index(at),
            Shown::value(&items[at]),
            detail,
        ));
        return;
    }

    let keys: Vec<Value> = items
        .iter()
        .map(|item| {
            let present = schema
                .list_map_keys
                .iter()
                .filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
            Value::Object(present.collect::<Map<_, _>>())
        })
        .collect();

    for at in first_repetitions(keys.iter().map(Some)) {
        errors.push(FieldError::duplicate(
            path.index(at),
            Shown::value(&json!(keys[at])),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(schema: Value, value: Value) -> Vec<String> {
        let schema: Schema = serde_json::from_value(schema).expect("schema");
        validate(&Path::new("l"), &schema, &value)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn reports_the_second_one_of_equal_items() {
        let set =
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
        assert_eq!(
            errors(set, json!(["a", "b", "a", "a"])),
            ["l[2]: Duplicate value: \"a\""]
        );
    }

    #[test]
    fn reports_items_with_equal_keys() {
        let map = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"],
            "items": {"type": "object"}});
        let value = json!([{"a": 1}, {"a": 1, "b": 2}, {"a": 1, "c": 3}]);
        assert_eq!(
            errors(map.clone(), value),
            ["l[2]: Duplicate value: {\"a\":1}"]
        );
        let detail = "l[0]: Invalid value: 1: must be an object for an array of list-type map";
        assert_eq!(errors(map, json!([1])), [detail]);
    }
}
