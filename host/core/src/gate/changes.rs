//! The fields in which two versions of an object differ, and the managers of a field.

use std::{cmp::Reverse, fmt};

use serde_json::Value;

/// The fields of `metadata` that every write changes.
pub(crate) const EVERY_WRITE: [&str; 3] = ["resourceVersion", "generation", "managedFields"];

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// The field's path.
    pub path: Path<'a>,
    /// The value before the write; null if the field was absent.
    pub before: &'a Value,
    /// The value after the write; null if the field is absent.
    pub after: &'a Value,
}

/// The field names that lead to a field: `.spec.replicas`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Path<'a>(Vec<&'a str>);

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|step| write!(f, ".{step}"))
    }
}

impl Path<'_> {
    /// Returns the path as text. Of one that has more than `max` bytes, the beginning and the number of its bytes:
    /// `.data.aaaa… (70000 bytes)`.
    pub fn shortened(&self, max: usize) -> String {
        let bytes: usize = self.0.iter().map(|step| 1 + step.len()).sum();
        if bytes <= max {
            return self.to_string();
        }
        let mut text = String::new();
        for step in &self.0 {
            text.push('.');
            text.push_str(&step[..step.floor_char_boundary(max)]);
            if text.len() > max {
                break;
            }
        }
        text.truncate(text.floor_char_boundary(max));
        format!("{text}… ({bytes} bytes)")
    }
}

/// Returns the fields in which two objects differ, in order, except those that every write changes. A list counts as
/// one field, and so does an object that was added or removed.
pub fn changes<'a>(before: &'a Value, after: &'a Value) -> Vec<Change<'a>> {
    let mut found = Vec::new();
    compare(before, after, &mut Vec::new(), &mut found);
    found
}

fn compare<'a>(before: &'a Value, after: &'a Value, path: &mut Vec<&'a str>, found: &mut Vec<Change<'a>>) {
    if before == after || matches!(path[..], ["metadata", name] if EVERY_WRITE.contains(&name)) {
        return;
    }
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return found.push(Change { path: Path(path.clone()), before, after });
    };
    let gone = old.iter().map(|(name, value)| (name, value, new.get(name).unwrap_or(&Value::Null)));
    let come = new.iter().filter(|(name, _)| !old.contains_key(*name)).map(|(name, value)| (name, &Value::Null, value));
    for (name, before, after) in gone.chain(come) {
        path.push(name);
        compare(before, after, path, found);
        path.pop();
    }
}

/// Returns the field managers of a field or of a part of it, the latest writer first. Returns None if the object has no
/// managedFields.
pub fn managers<'a>(object: &'a Value, path: &Path<'_>) -> Option<Vec<&'a str>> {
    let entries = object["metadata"]["managedFields"].as_array().filter(|entries| !entries.is_empty())?;
    let mut owners: Vec<&Value> = entries.iter().filter(|entry| has(&entry["fieldsV1"], path)).collect();
    // The times are RFC 3339 in UTC with seconds, so they sort as text.
    owners.sort_by_key(|entry| Reverse(entry["time"].as_str()));
    Some(owners.into_iter().filter_map(|entry| entry["manager"].as_str()).collect())
}

/// Reports whether a field set (FieldsV1: `{"f:spec": {"f:replicas": {}}}`) contains a field, a part of it, or an
/// atomic field that contains it.
fn has(set: &Value, path: &Path<'_>) -> bool {
    let mut node = set;
    for (at, step) in path.0.iter().enumerate() {
        if at > 0 && node.as_object().is_some_and(serde_json::Map::is_empty) {
            return true;
        }
        match node.get(format!("f:{step}")) {
            Some(next) => node = next,
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths(before: &Value, after: &Value) -> Vec<String> {
        changes(before, after).iter().map(|change| change.path.to_string()).collect()
    }

    #[test]
    fn names_differences_except_those_of_every_write() {
        let before = json!({"metadata": {"name": "a", "resourceVersion": "1", "generation": 1},
            "spec": {"a": 1, "b": [1], "gone": true}});
        let after = json!({"metadata": {"name": "a", "resourceVersion": "2", "generation": 2, "managedFields": []},
            "spec": {"a": 2, "b": [1, 2], "c": {"d": 1}}});
        assert_eq!(paths(&before, &after), [".spec.a", ".spec.b", ".spec.gone", ".spec.c"]);
        assert_eq!(paths(&before, &before), [""; 0]);
        let both = json!({"generation": 1});
        assert_eq!(paths(&both, &json!({"generation": 2})), [".generation"], "only those of metadata");
    }

    #[test]
    fn finds_field_owner_despite_dots_in_names() {
        let fields = |fields: Value| json!({"metadata": {"managedFields": fields}});
        let entry = |manager: &str, time: &str, set: Value| json!({"manager": manager, "time": time, "fieldsV1": set});
        let object = fields(json!([
            entry("early", "2026-01-01T00:00:00Z", json!({"f:data": {".": {}, "f:a.b/c": {}}})),
            entry("late", "2026-01-01T00:00:09Z", json!({"f:data": {"f:a.b/c": {}, "f:x": {}}})),
            entry("whole", "2026-01-01T00:00:05Z", json!({"f:spec": {"f:selector": {}}})),
            {"manager": "nothing"},
        ]));
        let of = |path: &[&str]| managers(&object, &Path(path.to_vec())).expect("there are managedFields");
        assert_eq!(of(&["data", "a.b/c"]), ["late", "early"]);
        assert_eq!(of(&["data"]), ["late", "early"], "a part of it");
        assert_eq!(of(&["spec", "selector", "app"]), ["whole"], "a part of something atomic");
        assert_eq!(of(&["data", "y"]), [""; 0]);
        assert_eq!(of(&["spec"]), ["whole"]);
        assert_eq!(managers(&fields(json!([])), &Path(vec!["data"])), None);
        assert_eq!(managers(&json!({}), &Path(vec!["data"])), None);
    }
}
