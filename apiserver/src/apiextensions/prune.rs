//! Pruning: fields that a schema does not specify are removed.

use serde_json::Value;

use super::schema::{Schema, is_meta_field};

/// Removes unspecified fields from an object, and returns their paths, sorted.
///
/// With `is_root`, `apiVersion`, `kind` and `metadata` of the object itself stay.
pub fn prune(value: &mut Value, schema: Option<&Schema>, is_root: bool) -> Vec<String> {
    let mut pruner = Pruner::default();
    pruner.prune(value, schema, is_root);
    pruner.unknown.sort_unstable();
    pruner.unknown
}

#[derive(Default)]
struct Pruner {
    path: String,
    unknown: Vec<String>,
}

impl Pruner {
    fn at_key(&mut self, key: &str, visit: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }

        self.path.push_str(key);
        visit(self);
        self.path.truncate(length);
    }

    fn at_index(&mut self, at: usize, visit: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push_str(&format!("[{at}]"));
        visit(self);
        self.path.truncate(length);
    }

    fn prune(&mut self, value: &mut Value, schema: Option<&Schema>, is_root: bool) {
        if let Some(schema) = schema.filter(|schema| schema.preserves_unknown()) {
            return self.visit_preserved(value, schema, is_root);
        }

        match value {
            Value::Object(fields) => {
                let keys: Vec<_> = fields.keys().cloned().collect();
                for key in keys {
                    if (is_root || schema.is_some_and(|s| s.embedded_resource))
                        && is_meta_field(&key)
                    {
                        continue;
                    }

                    match schema.filter(|s| {
                        s.properties.contains_key(&key) || s.additional_properties.is_some()
                    }) {
                        Some(schema) => {
                            if let Some(item) = fields.get_mut(&key) {
                                self.at_key(&key, |pruner| {
                                    pruner.prune(item, schema.field(&key), false);
                                });
                            }
                        }
                        None => {
                            fields.remove(&key);
                            if schema.is_none() || !is_meta_field(&key) || !self.path.is_empty() {
                                self.at_key(&key, |pruner| {
                                    pruner.unknown.push(pruner.path.clone());
                                });
                            }
                        }
                    }
                }
            }
            Value::Array(items) => {
                for (at, item) in items.iter_mut().enumerate() {
                    self.at_index(at, |pruner| {
                        pruner.prune(item, schema.and_then(Schema::item), false);
                    });
                }
            }
            _ => {}
        }
    }

    /// Keeps unknown fields, and prunes inside of the known ones.
    fn visit_preserved(&mut self, value: &mut Value, schema: &Schema, is_root: bool) {
        match value {
            Value::Object(fields) => {
                for (key, item) in fields {
                    let known = schema.properties.contains_key(key)
                        || schema.additional_properties.is_some();
                    if known && !((is_root || schema.embedded_resource) && is_meta_field(key)) {
                        self.at_key(key, |pruner| pruner.prune(item, schema.field(key), false));
                    }
                }
            }
            Value::Array(items) => {
                for (at, item) in items.iter_mut().enumerate() {
                    if let Some(schema) = schema.item() {
                        self.at_index(at, |pruner| pruner.visit_preserved(item, schema, false));
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pruned(schema: Value, mut value: Value) -> (Value, Vec<String>) {
        let schema: Schema = serde_json::from_value(schema).expect("schema");
        let unknown = prune(&mut value, Some(&schema), true);
        (value, unknown)
    }

    #[test]
    fn removes_unknown_fields_and_lists_their_paths() {
        let item = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let schema =
            json!({"type": "object", "properties": {"list": {"type": "array", "items": item}}});
        let value =
            json!({"kind": "X", "metadata": {"x": 1}, "y": 1, "list": [{"a": "b", "c": {}}, 1]});
        let (value, unknown) = pruned(schema, value);
        assert_eq!(
            value,
            json!({"kind": "X", "metadata": {"x": 1}, "list": [{"a": "b"}, 1]})
        );
        assert_eq!(unknown, ["list[0].c", "y"]);
    }

    #[test]
    fn keeps_unknown_fields_where_the_schema_preserves_them() {
        let schema = json!({"type": "object", "properties": {"s": {"type": "object",
            "x-kubernetes-preserve-unknown-fields": true, "properties": {"in": {"type": "object"}}}}});
        let (value, unknown) = pruned(schema, json!({"s": {"free": {"a": 1}, "in": {"gone": 1}}}));
        assert_eq!(value, json!({"s": {"free": {"a": 1}, "in": {}}}));
        assert_eq!(unknown, ["s.in.gone"]);
    }

    #[test]
    fn keeps_metadata_of_embedded_resources_only() {
        let schema = json!({"type": "object", "properties": {
            "e": {"type": "object", "x-kubernetes-embedded-resource": true}, "p": {"type": "object"}}});
        let value = json!({"e": {"kind": "A", "apiVersion": "v1", "metadata": {}, "x": 1}, "p": {"kind": "A"}});
        let (value, unknown) = pruned(schema, value);
        assert_eq!(
            value,
            json!({"e": {"kind": "A", "apiVersion": "v1", "metadata": {}}, "p": {}})
        );
        assert_eq!(unknown, ["e.x", "p.kind"]);
    }
}
