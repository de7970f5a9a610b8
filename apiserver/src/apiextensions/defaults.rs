//! Defaults: missing fields, and nulls where null is not allowed, get the values that a schema
//! gives.

use serde_json::{Map, Value};

use super::{
    embedded, prune,
    schema::{Additional, Items, Schema, is_meta_field},
};

fn is_forbidden_null(value: &Value, schema: Option<&Schema>) -> bool {
    value.is_null() && schema.is_some_and(|schema| !schema.nullable)
}

/// Removes fields that are null where the schema allows no null and gives no default.
pub fn prune_nulls(value: &mut Value, schema: Option<&Schema>) {
    match value {
        Value::Object(fields) => fields.retain(|key, item| {
            let field = schema.and_then(|schema| schema.field(key));
            if is_forbidden_null(item, field) && field.is_some_and(|field| field.default.is_none())
            {
                return false;
            }
            prune_nulls(item, field);
            true
        }),
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| prune_nulls(item, schema.and_then(Schema::item))),
        _ => {}
    }
}

/// Sets the defaults of a schema.
pub fn apply(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(fields) => {
            for (name, property) in &schema.properties {
                let Some(default) = &property.default else {
                    continue;
                };

                if fields
                    .get(name)
                    .is_none_or(|item| is_forbidden_null(item, Some(property)))
                {
                    fields.insert(name.clone(), default.clone());
                }
            }

            for (name, item) in fields {
                if let Some(property) = schema.properties.get(name) {
                    apply(item, property);
                } else if let Some(additional) = schema.additional() {
                    apply_or_replace(item, additional);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.item() {
                items
                    .iter_mut()
                    .for_each(|item| apply_or_replace(item, schema));
            }
        }
        _ => {}
    }
}

fn apply_or_replace(item: &mut Value, schema: &Schema) {
    if is_forbidden_null(item, Some(schema)) {
        *item = schema.default.clone().unwrap_or(Value::Null);
    }
    apply(item, schema);
}

/// One step from an object to the place of a default value in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The field or map entry of an object.
    Key(String),
    /// An item of a list.
    Item,
}

/// Puts a default value at its place in an otherwise empty object.
pub fn surround(value: Value, steps: &[Step]) -> Value {
    steps.iter().rev().fold(value, |inner, step| match step {
        Step::Key(key) => Value::Object(Map::from_iter([(key.clone(), inner)])),
        Step::Item => Value::Array(vec![inner]),
    })
}

fn extract(mut value: Value, steps: &[Step]) -> Option<Value> {
    for step in steps {
        value = match (step, value) {
            (Step::Key(key), Value::Object(mut fields)) => fields.remove(key)?,
            (Step::Item, Value::Array(mut items)) if !items.is_empty() => items.swap_remove(0),
            _ => return None,
        };
    }

    Some(value)
}

/// Returns the schema with default values without fields that it does not specify, which is the one
/// that is served.
pub fn prune_defaults(schema: &Schema) -> Schema {
    let mut pruned = schema.clone();
    prune_defaults_at(&mut pruned, schema, &mut Vec::new());
    pruned
}

fn prune_defaults_at(schema: &mut Schema, root: &Schema, steps: &mut Vec<Step>) {
    if let Some(default) = schema.default.take() {
        let mut object = surround(default, steps);
        if object.is_object() {
            embedded::coerce_dropping(&mut object, root, true);
            prune::prune(&mut object, Some(root), true);
        }
        schema.default = extract(object, steps);
    }

    // What has no defaults stays shared with the schema that was given.
    if let Some(Additional::Schema(additional)) = &mut schema.additional_properties
        && additional.has_defaults()
    {
        steps.push(Step::Key("*".to_owned()));
        prune_defaults_at(additional.make_mut(), root, steps);
        steps.pop();
    }

    if let Some(Items::One(item)) = &mut schema.items
        && item.has_defaults()
    {
        steps.push(Step::Item);
        prune_defaults_at(item.make_mut(), root, steps);
        steps.pop();
    }

    for (name, property) in schema.properties.iter_mut() {
        if property.has_defaults() {
            steps.push(Step::Key(name.clone()));
            prune_defaults_at(property.make_mut(), root, steps);
            steps.pop();
        }
    }
}

/// Reports whether a field of a resource specifies part of its metadata.
pub fn starts_metadata(schema: &Schema, name: &str) -> bool {
    schema.embedded_resource && is_meta_field(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema(value: Value) -> Schema {
        serde_json::from_value(value).expect("schema")
    }

    #[test]
    fn sets_defaults_in_objects_lists_and_maps() {
        let inner =
            json!({"type": "object", "properties": {"a": {"type": "integer", "default": 1}}});
        let schema = schema(json!({"type": "object", "properties": {
            "list": {"type": "array", "items": inner}, "map": {"type": "object", "additionalProperties": inner},
            "made": {"type": "object", "default": {}, "properties": {"a": {"type": "integer", "default": 2}}}}}));
        let mut value = json!({"list": [{}, {"a": 5}], "map": {"k": {}}});
        apply(&mut value, &schema);
        assert_eq!(
            value,
            json!({"list": [{"a": 1}, {"a": 5}], "map": {"k": {"a": 1}}, "made": {"a": 2}})
        );
    }

    #[test]
    fn treats_nulls_by_nullable_and_default() {
        let schema = schema(json!({"type": "object", "properties": {
            "plain": {"type": "string"}, "nullable": {"type": "string", "nullable": true},
            "default": {"type": "string", "default": "d"},
            "both": {"type": "string", "nullable": true, "default": "d"},
            "list": {"type": "array", "items": {"type": "string", "default": "i"}}}}));
        let mut value =
            json!({"plain": null, "nullable": null, "default": null, "both": null, "list": [null]});
        prune_nulls(&mut value, Some(&schema));
        apply(&mut value, &schema);
        assert_eq!(
            value,
            json!({"nullable": null, "default": "d", "both": null, "list": ["i"]})
        );
    }

    #[test]
    fn prunes_default_values() {
        let schema = schema(json!({"type": "object", "properties": {
            "s": {"type": "object", "default": {"a": 1, "x": 2}, "properties": {"a": {"type": "integer"}}}}}));
        let pruned = prune_defaults(&schema);
        let field = pruned.properties.get("s").expect("a field");
        assert_eq!(field.default, Some(json!({"a": 1})));
    }

    #[test]
    fn shares_what_has_no_defaults() {
        let plain = json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}});
        let schema = schema(json!({"type": "object", "properties": {
            "plain": plain,
            "mixed": {"type": "object", "properties": {
                "with": {"type": "object", "default": {"x": 1}}, "without": plain}}}}));
        let pruned = prune_defaults(&schema);
        let at = |schema: &Schema, names: &[&str]| {
            let found = names
                .iter()
                .try_fold(schema, |schema, name| schema.properties.get(name));
            std::ptr::from_ref(found.expect("a field"))
        };

        for shared in [&["plain"][..], &["mixed", "without"]] {
            assert_eq!(at(&pruned, shared), at(&schema, shared), "{shared:?}");
        }
        let with = schema.field("mixed").and_then(|mixed| mixed.field("with"));
        assert_eq!(
            with.and_then(|with| with.default.clone()),
            Some(json!({"x": 1})),
            "the schema that was given stays"
        );
        assert_ne!(
            at(&pruned, &["mixed", "with"]),
            at(&schema, &["mixed", "with"])
        );
    }
}
