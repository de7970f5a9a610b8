//! An object as YAML for people: without managedFields and Secret values, and of limited length.

use serde_json::{Value, json};

/// The longest YAML, in bytes.
const MAX_YAML: usize = 256 << 10;
/// kubectl stores a copy of the object in this annotation, including a Secret's values.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Removes what the page doesn't show.
pub(super) fn redact(object: &mut Value) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    if object["kind"] != "Secret" || object["apiVersion"] != "v1" {
        return;
    }

    for field in ["data", "stringData"] {
        let encoded = field == "data";
        if let Some(values) = object.get_mut(field).and_then(Value::as_object_mut) {
            for value in values.values_mut() {
                let bytes = value.as_str().map_or(0, |text| {
                    if encoded {
                        decoded_len(text)
                    } else {
                        text.len()
                    }
                });
                *value = json!(format!("•••• ({bytes} bytes)"));
            }
        }
    }

    let annotations = object
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("annotations"));
    if let Some(applied) = annotations.and_then(|annotations| annotations.get_mut(LAST_APPLIED)) {
        *applied = json!("••••");
    }
}

/// Returns the size of the decoded text.
fn decoded_len(text: &str) -> usize {
    text.trim_end_matches('=').len() * 3 / 4
}

/// Returns an object as YAML, and whether it was cut.
pub(super) fn yaml(object: &Value) -> (String, bool) {
    let mut text = serde_yaml_ng::to_string(object).unwrap_or_default();
    let is_cut = text.len() > MAX_YAML;
    if is_cut {
        text.truncate(text.floor_char_boundary(MAX_YAML));
    }
    (text, is_cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_secret_are_hidden() {
        let mut secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {"password": "aHVudGVyMg==", "odd": 7},
            "stringData": {"plain": "hunter2"},
            "metadata": {"name": "s", "managedFields": [{"manager": "m"}], "annotations": {LAST_APPLIED: "{\"data\":\"aHVudGVyMg==\"}"}},
        });
        redact(&mut secret);
        let (text, is_cut) = yaml(&secret);
        assert!(
            !text.contains("aHVudGVyMg") && !text.contains("hunter2") && !text.contains("manager"),
            "{text}"
        );
        assert!(
            text.contains("•••• (7 bytes)") && text.contains("Opaque") && !is_cut,
            "{text}"
        );

        let mut config_map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}, "metadata": {}});
        redact(&mut config_map);
        assert_eq!(config_map["data"]["a"], "b");
    }

    #[test]
    fn large_object_is_cut_between_characters() {
        let (text, is_cut) = yaml(&json!({"data": {"text": "é".repeat(1 << 20)}}));
        assert!(is_cut && text.len() <= MAX_YAML && text.len() > MAX_YAML - 4);
    }
}
