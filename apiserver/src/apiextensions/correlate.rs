//! Values of an update beside the old values that they stand for.
//!
//! Errors of values that an update leaves unchanged do not refuse the update
//! (CRDValidationRatcheting).

use serde_json::Value;

use super::schema::Schema;

/// A value of the new object beside its old value.
#[derive(Clone, Copy, Debug)]
pub struct Correlated<'a> {
    /// The new value.
    pub new: &'a Value,
    /// The old value, null if there is none.
    pub old: &'a Value,
    schema: &'a Schema,
}

impl<'a> Correlated<'a> {
    /// Puts a value beside its old value.
    pub fn new(new: &'a Value, old: &'a Value, schema: &'a Schema) -> Self {
        Self { new, old, schema }
    }

    /// Returns a field beside its old value, if both objects have it and the schema knows it.
    pub fn key(&self, field: &str) -> Option<Self> {
        let new = self.new.as_object()?.get(field)?;
        let old = self.old.as_object()?.get(field)?;
        Some(Self {
            new,
            old,
            schema: self.schema.field(field)?,
        })
    }

    /// Returns an item beside the old item with the same keys, if the list is one of type map.
    pub fn index(&self, at: usize) -> Option<Self> {
        let new = self.new.as_array()?.get(at)?;
        let old = old_item(self.schema, self.old.as_array()?, new)?;
        Some(Self {
            new,
            old,
            schema: self.schema.item()?,
        })
    }

    /// Reports whether the value equals its old value. The order of items of a list of type map
    /// does not count.
    pub fn is_unchanged(&self) -> bool {
        match (self.new, self.old) {
            (Value::Array(new), Value::Array(old)) => {
                if new.len() != old.len() {
                    return false;
                }
                if self.schema.list_type.as_deref() != Some("map") {
                    return new == old;
                }
                (0..new.len()).all(|at| self.index(at).is_some_and(|item| item.is_unchanged()))
            }
            (Value::Object(new), Value::Object(old)) => {
                new.len() == old.len()
                    && new
                        .keys()
                        .all(|key| self.key(key).is_some_and(|item| item.is_unchanged()))
            }
            (new, old) => new == old,
        }
    }
}

/// Finds the old item of a list of type map that has the keys of a new item.
pub fn old_item<'a>(schema: &Schema, old: &'a [Value], new: &Value) -> Option<&'a Value> {
    if schema.list_type.as_deref() != Some("map")
        || schema.list_map_keys.is_empty()
        || !new.is_object()
    {
        return None;
    }

    let same = |item: &Value| {
        item.is_object()
            && schema
                .list_map_keys
                .iter()
                .all(|key| item.get(key) == new.get(key))
    };

    // Of several items with the same keys the last one counts.
    old.iter().rfind(|item| same(item))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Schema {
        let items = json!({"type": "object", "properties": {"name": {"type": "string"}, "v": {"type": "integer"}}});
        let list = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": items});
        let set = json!({"type": "array", "items": {"type": "string"}});
        serde_json::from_value(json!({"type": "object", "properties": {"list": list, "set": set}}))
            .expect("schema")
    }

    #[test]
    fn correlates_items_by_their_keys() {
        let (schema, new, old) = (
            schema(),
            json!({"list": [{"name": "b", "v": 2}, {"name": "a", "v": 1}]}),
            json!({"list": [{"name": "a", "v": 1}, {"name": "b", "v": 2}]}),
        );
        let list = Correlated::new(&new, &old, &schema)
            .key("list")
            .expect("list");
        assert_eq!(
            list.index(0).map(|item| item.old["v"].clone()),
            Some(json!(2))
        );
        assert!(list.is_unchanged(), "the order does not count");
    }

    #[test]
    fn does_not_correlate_items_of_atomic_lists() {
        let (schema, new, old) = (
            schema(),
            json!({"set": ["a", "b"]}),
            json!({"set": ["b", "a"]}),
        );
        let list = Correlated::new(&new, &old, &schema)
            .key("set")
            .expect("set");
        assert!(list.index(0).is_none() && !list.is_unchanged());
        assert!(Correlated::new(&new, &old, &schema).key("list").is_none());
    }
}
