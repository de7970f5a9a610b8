//! Validation of ConfigMaps and Secrets.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;

use super::{
    super::object::{at, fields, is_true, text},
    ErrorList, format,
};
use crate::apimachinery::json::parse;

/// The largest size of all values in bytes.
const MAX_SIZE: usize = 1 << 20;
const IMMUTABLE: &str = "field is immutable when `immutable` is set";

pub(super) fn config_map(object: &Value, errors: &mut ErrorList) {
    let binary = fields(object, "binaryData");
    let mut size = 0;
    for (key, value) in fields(object, "data") {
        let path = format!("data[{key}]");
        errors.invalid_each(&path, key, &format::config_key(key));

        if binary.contains_key(key) {
            errors.invalid(
                &path,
                key.as_str(),
                "duplicate of key present in binaryData",
            );
        }

        size += value.as_str().map_or(0, str::len);
    }

    for (key, value) in binary {
        errors.invalid_each(&format!("binaryData[{key}]"), key, &format::config_key(key));
        size += decoded(value).len();
    }

    if size > MAX_SIZE {
        errors.too_long("", MAX_SIZE);
    }
}

fn decoded(value: &Value) -> Vec<u8> {
    value
        .as_str()
        .and_then(|text| BASE64_STANDARD.decode(text).ok())
        .unwrap_or_default()
}

pub(super) fn config_map_update(old: &Value, new: &Value, errors: &mut ErrorList) {
    if is_true(old, "immutable") {
        if !is_true(new, "immutable") {
            errors.forbidden("immutable", IMMUTABLE);
        }

        for key in ["data", "binaryData"] {
            if old[key] != new[key] {
                errors.forbidden(key, IMMUTABLE);
            }
        }
    }

    config_map(new, errors);
}

pub(super) fn secret(object: &Value, errors: &mut ErrorList) {
    let data = fields(object, "data");
    let mut size = 0;
    for (key, value) in data {
        errors.invalid_each(&format!("data[{key}]"), key, &format::config_key(key));
        size += decoded(value).len();
    }

    if size > MAX_SIZE {
        errors.too_long("data", MAX_SIZE);
    }

    let mut need = |keys: &[&str]| {
        for key in keys.iter().filter(|key| !data.contains_key(**key)) {
            errors.required(&format!("data[{key}]"), "");
        }
    };

    match text(object, "type") {
        "kubernetes.io/service-account-token" => {
            let name =
                fields(object, "metadata.annotations").get("kubernetes.io/service-account.name");
            if name.and_then(Value::as_str).unwrap_or_default().is_empty() {
                errors.required(
                    "metadata.annotations[kubernetes.io/service-account.name]",
                    "",
                );
            }
        }
        "kubernetes.io/tls" => need(&["tls.crt", "tls.key"]),
        "kubernetes.io/ssh-auth" => need(&["ssh-privatekey"]),
        "kubernetes.io/basic-auth"
            if !data.contains_key("username") && !data.contains_key("password") =>
        {
            need(&["username", "password"]);
        }
        "kubernetes.io/dockercfg" => json_value(object, ".dockercfg", errors),
        "kubernetes.io/dockerconfigjson" => json_value(object, ".dockerconfigjson", errors),
        _ => {}
    }
}

/// Validates that a key has a JSON object.
fn json_value(object: &Value, key: &str, errors: &mut ErrorList) {
    let path = format!("data[{key}]");
    let Some(value) = at(object, "data").get(key) else {
        errors.required(&path, "");
        return;
    };
    if let Err(error) = parse(&decoded(value)) {
        errors.invalid(&path, "<secret contents redacted>", &error.to_string());
    }
}

pub(super) fn secret_update(old: &Value, new: &Value, errors: &mut ErrorList) {
    errors.immutable("type", &old["type"], &new["type"]);
    if is_true(old, "immutable") {
        if !is_true(new, "immutable") {
            errors.forbidden("immutable", IMMUTABLE);
        }
        if old["data"] != new["data"] {
            errors.forbidden("data", IMMUTABLE);
        }
    }

    secret(new, errors);
}
