//! The scale subresource: an `autoscaling/v1` Scale made of an object, and written back to it.

use serde_json::{Map, Value, json};

use super::field::{FieldError, Path, Refusal, Shown};
use super::model::Scale;
use crate::golang;

fn segments(path: &str) -> Vec<&str> {
    path.strip_prefix('.').unwrap_or(path).split('.').collect()
}

/// Finds a value. The error is that of the real server's accessor.
fn find<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let segments = segments(path);
    let mut value = object;
    for (at, segment) in segments.iter().enumerate() {
        match value {
            Value::Null => return Ok(None),
            Value::Object(fields) => match fields.get(*segment) {
                Some(inner) => value = inner,
                None => return Ok(None),
            },
            other => return Err(accessor_error(&segments[..=at], other, "map[string]interface{}")),
        }
    }
    Ok(Some(value))
}

fn accessor_error(segments: &[&str], value: &Value, expected: &str) -> String {
    let path = format!(".{}", segments.join("."));
    let shown = golang::plain(value);
    let kind = golang::type_name(value);
    format!("{path} accessor error: {shown} is of the type {kind}, expected {expected}")
}

fn integer(object: &Value, path: &str) -> Result<Option<i64>, String> {
    match find(object, path)? {
        None => Ok(None),
        Some(value) => match value.as_i64() {
            Some(int) => Ok(Some(int)),
            None => Err(accessor_error(&segments(path), value, "int64")),
        },
    }
}

fn text<'a>(object: &'a Value, path: &str) -> Result<&'a str, String> {
    match find(object, path)? {
        None => Ok(""),
        Some(value) => value.as_str().ok_or_else(|| accessor_error(&segments(path), value, "string")),
    }
}

/// Checks the wanted replicas of an object.
pub fn check_spec(scale: &Scale, object: &Value, errors: &mut Vec<FieldError>) {
    check_replicas(object, &scale.spec_replicas_path, errors);
}

/// Checks the present replicas and the selector of an object.
pub fn check_status(scale: &Scale, object: &Value, errors: &mut Vec<FieldError>) {
    check_replicas(object, &scale.status_replicas_path, errors);
    if let Some(place) = &scale.label_selector_path
        && let Err(detail) = text(object, place)
    {
        errors.push(FieldError::invalid_text(&Path::new(place), "", detail));
    }
}

fn check_replicas(object: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let (value, detail) = match integer(object, place) {
        Err(detail) => (0, detail),
        Ok(Some(value)) if value < 0 => (value, "should be a non-negative integer".to_owned()),
        Ok(Some(value)) if value > i64::from(i32::MAX) => {
            (value, format!("should be less than or equal to {}", i32::MAX))
        }
        Ok(_) => return,
    };
    errors.push(FieldError::invalid(&Path::new(place), Shown::raw(value.to_string()), detail));
}

#[expect(clippy::cast_possible_truncation, reason = "the real server truncates the same way")]
fn int32(value: i64) -> i32 {
    value as i32
}

/// Returns the Scale of an object, and whether the object has wanted replicas.
///
/// # Errors
/// Returns the accessor's message if a field has the wrong type.
pub fn read(scale: &Scale, object: &Value) -> Result<(Value, bool), String> {
    let replicas = integer(object, &scale.spec_replicas_path)?;
    let present = integer(object, &scale.status_replicas_path)?.unwrap_or(0);
    let selector = match scale.label_selector_path.as_deref() {
        None | Some("") => "",
        Some(place) => text(object, place)?,
    };
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.pointer(&format!("/metadata/{field}")) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    let mut spec = Map::new();
    if let Some(replicas) = replicas.map(int32).filter(|replicas| *replicas != 0) {
        spec.insert("replicas".to_owned(), json!(replicas));
    }
    let mut status = json!({"replicas": int32(present)});
    if !selector.is_empty() {
        status["selector"] = json!(selector);
    }
    let kind = json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec,
        "status": status});
    Ok((kind, replicas.is_some()))
}

/// Returns an object with the wanted replicas of a Scale.
///
/// # Errors
/// Returns a refusal if the way to the replicas leads through a value that is no object.
pub fn write(scale: &Scale, object: &Value, wanted: &Value) -> Result<Value, Refusal> {
    let replicas = wanted.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
    let mut updated = object.clone();
    let segments = segments(&scale.spec_replicas_path);
    let Some((last, parents)) = segments.split_last() else { return Ok(updated) };
    let mut place = &mut updated;
    for segment in parents {
        let Value::Object(fields) = place else {
            let detail =
                format!("value cannot be set because .{} is not a map[string]interface{{}}", parents.join("."));
            return Err(Refusal::BadRequest(detail));
        };
        place = fields.entry((*segment).to_owned()).or_insert_with(|| json!({}));
    }
    let Value::Object(fields) = place else {
        let detail = format!("value cannot be set because .{} is not a map[string]interface{{}}", parents.join("."));
        return Err(Refusal::BadRequest(detail));
    };
    fields.insert((*last).to_owned(), json!(replicas));
    if let Some(version) = wanted.pointer("/metadata/resourceVersion").filter(|version| *version != "") {
        updated["metadata"]["resourceVersion"] = version.clone();
    }
    Ok(updated)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale() -> Scale {
        Scale {
            spec_replicas_path: ".spec.n".into(),
            status_replicas_path: ".status.n".into(),
            label_selector_path: Some(".status.s".into()),
        }
    }

    #[test]
    fn maps_an_object_to_a_scale_and_back() {
        let object = json!({"metadata": {"name": "a", "labels": {}}, "spec": {"n": 3}, "status": {"n": 2, "s": "x=y"}});
        let (read, found) = read(&scale(), &object).expect("scale");
        let expected = json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "a"},
            "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "x=y"}});
        assert_eq!((read, found), (expected, true));
        let wanted = json!({"metadata": {"resourceVersion": "7"}, "spec": {"replicas": 5}});
        let written = write(&scale(), &json!({"metadata": {}}), &wanted).expect("object");
        assert_eq!(written, json!({"metadata": {"resourceVersion": "7"}, "spec": {"n": 5}}));
    }

    #[test]
    fn reports_values_of_the_wrong_type() {
        let object = json!({"spec": {"n": "x"}, "status": 1});
        let mut errors = Vec::new();
        check_spec(&scale(), &object, &mut errors);
        check_status(&scale(), &object, &mut errors);
        let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts[0],
            ".spec.n: Invalid value: 0: .spec.n accessor error: x is of the type string, expected int64"
        );
        assert_eq!(texts.len(), 3);
        assert!(write(&scale(), &json!({"spec": 1}), &json!({})).is_err());
    }

    #[test]
    fn bounds_replicas() {
        for (value, detail) in [(-1, "non-negative"), (1_i64 << 31, "less than or equal to 2147483647")] {
            let mut errors = Vec::new();
            check_spec(&scale(), &json!({"spec": {"n": value}}), &mut errors);
            assert!(errors[0].detail.contains(detail));
        }
    }
}
