//! The fields of the scale subresource in an object.

use serde_json::Value;

use super::model::Scale;
use crate::{
    apimachinery::field::{FieldError, Path, Shown},
    golang,
};

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
            other => {
                return Err(accessor_error(
                    &segments[..=at],
                    other,
                    "map[string]interface{}",
                ));
            }
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
        Some(value) => value
            .as_str()
            .ok_or_else(|| accessor_error(&segments(path), value, "string")),
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
        errors.push(FieldError::invalid_text(Path::new(place), "", detail));
    }
}

fn check_replicas(object: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let (value, detail) = match integer(object, place) {
        Err(detail) => (0, detail),
        Ok(Some(value)) if value < 0 => (value, "should be a non-negative integer".to_owned()),
        Ok(Some(value)) if value > i64::from(i32::MAX) => (
            value,
            format!("should be less than or equal to {}", i32::MAX),
        ),
        Ok(_) => return,
    };

    errors.push(FieldError::invalid(
        Path::new(place),
        Shown::raw(value.to_string()),
        detail,
    ));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scale() -> Scale {
        Scale {
            spec_replicas_path: ".spec.n".into(),
            status_replicas_path: ".status.n".into(),
            label_selector_path: Some(".status.s".into()),
        }
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
    }

    #[test]
    fn bounds_replicas() {
        for (value, detail) in [
            (-1, "non-negative"),
            (1_i64 << 31, "less than or equal to 2147483647"),
        ] {
            let mut errors = Vec::new();
            check_spec(&scale(), &json!({"spec": {"n": value}}), &mut errors);
            assert!(errors[0].detail.contains(detail));
        }
    }
}
