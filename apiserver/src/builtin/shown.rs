//! Objects in errors, as Go shows them.

use serde_json::Value;

use super::codec::typed_json;
use crate::apimachinery::field::Shown;

/// Returns an object as the internal Go type prints it: names in upper case, and null where there
/// is none.
pub(super) fn internal_object(object: &Value, keys: &[&str]) -> Shown {
    let names = [
        ("ipBlock", "IPBlock"),
        ("apiGroup", "APIGroup"),
        ("seLinuxOptions", "SELinuxOptions"),
    ];
    let mut text = String::from("{");
    for (index, key) in keys.iter().enumerate() {
        let fixed = names
            .iter()
            .find(|(own, _)| own == key)
            .map(|(_, name)| (*name).to_owned());
        let name = fixed.unwrap_or_else(|| key[..1].to_uppercase() + &key[1..]);
        let comma = if index > 0 { "," } else { "" };
        text.push_str(&format!(
            "{comma}\"{name}\":{}",
            object.get(key).unwrap_or(&Value::Null)
        ));
    }
    Shown::raw(text + "}")
}

/// Returns an object as its Go type prints it, as in `meta/v1.LabelSelector`.
pub(super) fn typed_object(name: &str, object: &Value) -> Shown {
    Shown::raw(typed_json(name, object))
}
