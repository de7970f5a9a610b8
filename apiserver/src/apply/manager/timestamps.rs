//! Timestamps of the managers of unchanged objects.

use serde_json::Value;

use super::metadata::{managed_fields, set_managed_fields};
use crate::apply::value::equal;

/// Gives an updated object the managers of the old one if only their times differ.
///
/// The API server does not store such an update, and the resourceVersion stays. Call this after
/// defaulting and mutating admission. See `IgnoreManagedFieldsTimestampsTransformer` in
/// <https://github.com/kubernetes/kubernetes/blob/v1.36.2/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager/equality.go>.
pub fn keep_timestamps_of_unchanged(new: &mut Value, old: &Value) {
    let old_entries = managed_fields(old).map(Vec::as_slice).unwrap_or_default();
    let new_entries = managed_fields(new).map(Vec::as_slice).unwrap_or_default();
    if old_entries.is_empty() || old_entries.len() != new_entries.len() {
        return;
    }

    let same = old_entries
        .iter()
        .zip(new_entries)
        .all(|(old, new)| equal_except(old, new, &["time"]));

    if same && equal_except(old, new, &["metadata", "managedFields"]) {
        set_managed_fields(new, old_entries.to_vec());
    }
}

/// Compares two objects, except at a path.
fn equal_except(left: &Value, right: &Value, path: &[&str]) -> bool {
    let (Some((first, rest)), Value::Object(left), Value::Object(right)) =
        (path.split_first(), left, right)
    else {
        return path.is_empty() || equal(left, right);
    };

    let others =
        |fields: &serde_json::Map<String, Value>| fields.keys().filter(|key| *key != first).count();
    let same = left
        .iter()
        .filter(|(key, _)| *key != first)
        .all(|(key, value)| right.get(key).is_some_and(|other| equal(value, other)));

    let ignored = match (left.get(*first), right.get(*first)) {
        (Some(left), Some(right)) => equal_except(left, right, rest),
        (None, None) => true,
        _ => rest.is_empty(),
    };

    same && ignored && others(left) == others(right)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(time: &str, data: &str, manager: &str) -> Value {
        json!({
            "metadata": {"name": "a", "managedFields": [{"manager": manager, "time": time, "fieldsV1": {}}]},
            "data": {"a": data},
        })
    }

    #[test]
    fn keeps_the_times_of_an_unchanged_object() {
        let old = object("1", "x", "m");
        for (mut new, kept) in [
            (object("2", "x", "m"), true),
            (object("2", "y", "m"), false),
            (object("2", "x", "n"), false),
            (
                json!({"metadata": {"name": "a"}, "data": {"a": "x"}}),
                false,
            ),
        ] {
            let before = new.clone();
            keep_timestamps_of_unchanged(&mut new, &old);
            assert_eq!(new, if kept { old.clone() } else { before });
        }
    }
}
