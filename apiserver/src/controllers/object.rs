//! Fields that all kinds have, and lists of conditions.

use jiff::Timestamp;
use serde_json::{Value, json};

/// The text at a path; empty if it is absent.
pub(super) fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    crate::authz::objects::text(object, path)
}

pub(super) fn name(object: &Value) -> &str {
    text(object, &["metadata", "name"])
}

pub(super) fn namespace(object: &Value) -> &str {
    text(object, &["metadata", "namespace"])
}

pub(super) fn uid(object: &Value) -> &str {
    text(object, &["metadata", "uid"])
}

/// The number at a pointer, or a default.
pub(super) fn number(object: &Value, pointer: &str, default: i64) -> i64 {
    object
        .pointer(pointer)
        .and_then(Value::as_i64)
        .unwrap_or(default)
}

/// Reports whether an object has been deleted but still exists.
pub(super) fn is_terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

pub(super) fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    object["metadata"]["finalizers"]
        .as_array()
        .is_some_and(|all| all.iter().any(|one| one == finalizer))
}

pub(super) fn owner_references(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
}

/// The reference to the owner that controls an object.
pub(super) fn controller_of(object: &Value) -> Option<&Value> {
    owner_references(object).find(|owner| owner["controller"] == true)
}

pub(super) fn is_controlled_by(object: &Value, uid: &str) -> bool {
    controller_of(object).is_some_and(|owner| owner["uid"] == uid)
}

/// A reference to an owner as its controller.
pub(super) fn controller_reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": name(owner), "uid": uid(owner),
        "controller": true, "blockOwnerDeletion": true,
    })
}

pub(super) fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == kind)
}

pub(super) fn is_true(status: &Value, kind: &str) -> bool {
    condition(status, kind).is_some_and(|condition| condition["status"] == "True")
}

pub(super) fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

pub(super) fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Sets a number in a status, or removes it if it is 0.
pub(super) fn set_count(status: &mut Value, name: &str, number: i64) {
    match status.as_object_mut() {
        Some(members) if number == 0 => drop(members.remove(name)),
        _ => status[name] = number.into(),
    }
}
