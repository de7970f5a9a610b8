//! Strategic merge patches, as
//! <https://github.com/kubernetes/kubernetes/blob/v1.36.2/staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/patch.go>
//! applies them.
//!
//! Merge keys and strategies come from the schemas' `x-kubernetes-patch-merge-key` and
//! `x-kubernetes-patch-strategy`. Directives: `$patch` (replace, delete), `$retainKeys`,
//! `$deleteFromPrimitiveList/FIELD` and `$setElementOrder/FIELD`.

mod directive;
mod merge;
mod order;
mod print;
mod schema;

use crate::apimachinery::status::Status;
use serde_json::Value;
use thiserror::Error;

use super::{
    codec::types::{Shape, TYPES, TypeId},
    openapi::schema_of_kind,
};
use crate::apimachinery::field::{FieldError, Path};
use print::{go_kind, go_print};
use schema::Schema;

/// The key of a directive.
const PATCH: &str = "$patch";

/// An error of a patch, in the API server's words.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum PatchError {
    /// A malformed directive: code 400.
    #[error("invalid patch format of {0}")]
    Format(&'static str),
    /// Lists in lists cannot be merged: code 400.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// Any other error, which the API server answers with 500.
    #[error("{0}")]
    Other(String),
}

impl From<PatchError> for Status {
    fn from(error: PatchError) -> Self {
        match error {
            PatchError::Other(message) => Self::plain(message),
            other => Self::bad_request(other.to_string()),
        }
    }
}

/// Applies a strategic merge patch to an object of a kind. The result is not yet decoded.
///
/// # Errors
/// Like the API server, returns 400 or 500 for a patch that cannot be merged, and 422 if the result
/// has a value of the wrong type.
pub fn strategic_merge_patch(
    api_version: &str,
    kind: &str,
    original: &Value,
    patch: &Value,
) -> Result<Value, Status> {
    let merged = merge_with_schema(schema_of_kind(api_version, kind), original, patch)?;

    if let Some(id) = TYPES.of_kind(api_version, kind)
        && let Some(detail) = mismatch(id, &merged)
    {
        let error = FieldError::invalid(Path::new("patch"), go_print(patch), detail);
        return Err(Status::invalid("", "", "", [error]));
    }

    Ok(merged)
}

/// Applies a strategic merge patch with the merge keys of an OpenAPI schema.
///
/// # Errors
/// Returns a [`PatchError`] for a patch that cannot be merged.
pub fn merge_with_schema(
    schema: Option<&'static Value>,
    original: &Value,
    patch: &Value,
) -> Result<Value, PatchError> {
    let Value::Object(patch) = patch else {
        return Err(PatchError::Other("invalid JSON document".to_owned()));
    };
    let original = original.as_object().cloned().unwrap_or_default();
    merge::map(original, patch.clone(), &Schema::new(schema)).map(Value::Object)
}

/// What the API server's converter says about the first value of a wrong type.
fn mismatch(id: TypeId, value: &Value) -> Option<String> {
    let of = TYPES.get(TYPES.target(id));
    match (&of.shape, value) {
        (_, Value::Null) | (Shape::Custom | Shape::Bytes, _) => None,
        (Shape::Struct(fields), Value::Object(map)) => fields
            .iter()
            .find_map(|field| mismatch(field.of, map.get(&*field.name)?)),
        (Shape::Map(element), Value::Object(map)) => {
            map.values().find_map(|item| mismatch(*element, item))
        }
        (Shape::Slice(element), Value::Array(items)) => {
            items.iter().find_map(|item| mismatch(*element, item))
        }
        (Shape::Struct(_), other) => {
            Some(format!("cannot restore struct from: {}", go_kind(other)))
        }
        (Shape::Map(_), other) => Some(format!("cannot restore map from {}", go_kind(other))),
        (Shape::Slice(_), other) => Some(format!("cannot restore slice from {}", go_kind(other))),
        (Shape::String, Value::String(_)) | (Shape::Bool, Value::Bool(_)) => None,
        (Shape::Int(bits), Value::Number(number)) => {
            let is_whole = number.as_f64().is_some_and(|number| number.fract() == 0.0);
            (!is_whole).then(|| format!("cannot convert float64 to int{bits}"))
        }
        (Shape::Float, Value::Number(_)) => None,
        (Shape::String, Value::Number(number)) if !number.is_f64() => {
            Some("cannot convert int64 to string".to_owned())
        }
        (Shape::String, _) => Some("unrecognized type: string".to_owned()),
        (Shape::Bool, _) => Some("unrecognized type: bool".to_owned()),
        (Shape::Int(bits), _) => Some(format!("unrecognized type: int{bits}")),
        (Shape::Float, _) => Some("unrecognized type: float64".to_owned()),
        (Shape::Pointer(_), _) => None,
    }
}

#[cfg(test)]
mod tests;
