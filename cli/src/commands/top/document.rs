//! An object as YAML: without managedFields, and without the values of a Secret. No I/O.

use serde_json::Value;

/// The annotation with a copy of the object, which kubectl writes.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Formats an object.
pub fn yaml(mut object: Value) -> String {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }

    if object["kind"] == "Secret" && object["apiVersion"] == "v1" {
        hide(&mut object);
    }

    serde_yaml_ng::to_string(&object)
        .unwrap_or_else(|error| format!("failed to format the object: {error}"))
}

/// Replaces the values of a Secret, and their copy in an annotation.
fn hide(secret: &mut Value) {
    for field in ["data", "stringData"] {
        for value in secret[field]
            .as_object_mut()
            .into_iter()
            .flat_map(|values| values.values_mut())
        {
            *value = Value::from("<hidden>");
        }
    }

    if let Some(copy) = secret
        .pointer_mut("/metadata/annotations")
        .and_then(|all| all.get_mut(LAST_APPLIED))
    {
        *copy = Value::from("<hidden>");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secret_values_and_managed_fields_are_left_out() {
        let annotations = json!({LAST_APPLIED: "{\"data\":{\"key\":\"aHVzaA==\"}}", "team": "web"});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "data": {"key": "aHVzaA=="}, "stringData": {"a": "hush"},
            "metadata": {"name": "s", "managedFields": [{"manager": "kubectl"}], "annotations": annotations}});

        let text = yaml(secret);
        assert!(
            !text.contains("aHVzaA") && !text.contains("hush") && !text.contains("managedFields"),
            "{text}"
        );
        assert!(
            text.contains("key: <hidden>") && text.contains("team: web"),
            "{text}"
        );

        let map = yaml(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "value"}}));
        assert!(map.contains("key: value"), "{map}");
    }
}
