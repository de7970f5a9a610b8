//! Rules for the subresources and the printer columns of definitions.

use super::model::{Column, Scale, Subresources};
use crate::apimachinery::field::{FieldError, Path};

/// Checks the places of the fields of `/scale`.
pub fn check_subresources(
    subresources: Option<&Subresources>,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    let Some(scale) = subresources.and_then(|subresources| subresources.scale.as_ref()) else {
        return;
    };
    check_scale(scale, path, errors);
}

fn check_scale(scale: &Scale, path: &Path, errors: &mut Vec<FieldError>) {
    let replicas = [
        ("specReplicasPath", &scale.spec_replicas_path, ".spec"),
        ("statusReplicasPath", &scale.status_replicas_path, ".status"),
    ];
    for (field, place, root) in replicas {
        let path = path.child(&format!("scale.{field}"));
        if place.is_empty() {
            errors.push(FieldError::required(&path, ""));
        } else if !place.starts_with('.') {
            errors.push(FieldError::invalid_text(
                &path,
                place,
                "must be a simple json path starting with .",
            ));
        } else if !place.starts_with(&format!("{root}.")) {
            errors.push(FieldError::invalid_text(
                &path,
                place,
                format!("should be a json path under {root}"),
            ));
        }
    }

    if let Some(place) = scale
        .label_selector_path
        .as_ref()
        .filter(|place| !place.is_empty())
    {
        let path = path.child("scale.labelSelectorPath");
        if !place.starts_with('.') {
            errors.push(FieldError::invalid_text(
                &path,
                place,
                "must be a simple json path starting with .",
            ));
        } else if !place.starts_with(".spec.") && !place.starts_with(".status.") {
            let detail = "should be a json path under either .spec or .status";
            errors.push(FieldError::invalid_text(&path, place, detail));
        }
    }
}

/// Checks printer columns.
pub fn check_columns(columns: &[Column], path: &Path, errors: &mut Vec<FieldError>) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];

    const FORMATS: [&str; 8] = [
        "byte",
        "date",
        "date-time",
        "double",
        "float",
        "int32",
        "int64",
        "password",
    ];

    for (at, column) in columns.iter().enumerate() {
        let path = path.index(at);
        let types = format!("must be one of {}", TYPES.join(","));
        if column.name.is_empty() {
            errors.push(FieldError::required(path.child("name"), ""));
        }

        if column.kind.is_empty() {
            errors.push(FieldError::required(path.child("type"), types));
        } else if !TYPES.contains(&column.kind.as_str()) {
            errors.push(FieldError::invalid_text(
                path.child("type"),
                &column.kind,
                types,
            ));
        }

        if !column.format.is_empty() && !FORMATS.contains(&column.format.as_str()) {
            let detail = format!("must be one of {}", FORMATS.join(","));
            errors.push(FieldError::invalid_text(
                path.child("format"),
                &column.format,
                detail,
            ));
        }

        let path = path.child("JSONPath");
        if column.json_path.is_empty() {
            errors.push(FieldError::required(&path, ""));
        } else if !column.json_path.starts_with('.') {
            let detail = "must be a simple json path starting with .";
            errors.push(FieldError::invalid_text(&path, &column.json_path, detail));
        }
    }
}
