//! Conversion between the groups and versions that serve the same objects.

use super::request::decode_value;
use crate::apimachinery::{options::FieldValidation, status::Status};
use serde_json::{Map, Value};

/// The fields of an Event of core/v1 and of events.k8s.io/v1.
const EVENT: [(&str, &str); 15] = [
    ("metadata", "metadata"),
    ("involvedObject", "regarding"),
    ("reason", "reason"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("series", "series"),
    ("action", "action"),
    ("related", "related"),
    ("reportingComponent", "reportingController"),
    ("reportingInstance", "reportingInstance"),
];

/// Converts an object to another group and version that serves its kind: Events of core/v1 and
/// events.k8s.io/v1.
///
/// # Errors
/// Returns `NotImplemented` for other kinds, as the HorizontalPodAutoscaler of
/// autoscaling/v1.
pub fn convert(object: &Value, api_version: &str) -> Result<Value, Status> {
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    let from = text("apiVersion");
    let kind = text("kind");
    if from == api_version {
        return Ok(object.clone());
    }
    let to_new = match (kind, from, api_version) {
        ("Event", "v1", "events.k8s.io/v1") => true,
        ("Event", "events.k8s.io/v1", "v1") => false,
        _ => {
            let message =
                format!("conversion of {kind} from {from} to {api_version} is not implemented");
            return Err(Status::unsupported(message));
        }
    };
    let mut converted = Map::new();
    for (old, new) in EVENT {
        let (source, target) = if to_new { (old, new) } else { (new, old) };
        if let Some(value) = object.get(source) {
            converted.insert(target.to_owned(), value.clone());
        }
    }
    let converted = Value::Object(converted);
    decode_value(api_version, kind, &converted, FieldValidation::Ignore)
        .map(|decoded| decoded.object)
}
