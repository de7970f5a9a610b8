//! The behaviour of CustomResourceDefinitions.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    crd::{
        admission::{self, AdmittedDefinition},
        field::Refusal,
    },
    http::{Admitted, ApiError, Column, Decoded, Part, Resource, Strategy, format_time},
    kinds::{self, Instant},
};

/// The finalizer that keeps a definition until its objects are gone.
pub(super) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
const API_VERSION: &str = "apiextensions.k8s.io/v1";
const KIND: &str = "CustomResourceDefinition";

/// The kind of definitions.
pub(super) struct Definitions;

/// Returns a refusal of the library as an answer.
pub(super) fn refusal(refusal: &Refusal) -> ApiError {
    ApiError::from_status(&refusal.status())
}

fn admitted(outcome: Result<AdmittedDefinition, Refusal>) -> Result<Admitted, ApiError> {
    let admitted = outcome.map_err(|error| refusal(&error))?;
    Ok(Admitted { object: admitted.object, warnings: admitted.warnings })
}

impl Strategy for Definitions {
    fn decode(&self, _resource: &Resource, text: &[u8]) -> Result<Decoded, String> {
        let parsed = crate::http::decode_object(KIND, text)?;
        let decoded = admission::decode(&parsed.object)?;
        let unknown = decoded.unknown_fields.iter().map(|path| format!("unknown field \"{path}\""));
        let problems = parsed.problems.into_iter().chain(unknown).collect();
        Ok(Decoded { object: decoded.object, problems })
    }

    fn admit_create(&self, _: &Resource, object: &Value, _now: Timestamp) -> Option<Result<Admitted, ApiError>> {
        Some(admitted(admission::admit_create(object.clone())))
    }

    fn admit_update(
        &self,
        _resource: &Resource,
        old: &Value,
        object: &Value,
        part: Part,
        _now: Timestamp,
    ) -> Option<Result<Admitted, ApiError>> {
        Some(match part {
            Part::Status => admission::admit_status_update(object, old)
                .map(|object| Admitted { object, warnings: Vec::new() })
                .map_err(|error| refusal(&error)),
            Part::Main | Part::Finalize => admitted(admission::admit_update(object.clone(), old)),
        })
    }

    fn columns(&self) -> Vec<Column> {
        let resource = kinds::resource_of_kind(API_VERSION, KIND);
        let columns = resource.map(kinds::table_columns).unwrap_or_default();
        columns.as_array().into_iter().flatten().map(Column::from_value).collect()
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let now = Instant { seconds: now.as_second(), nanos: 0 };
        kinds::table_row(API_VERSION, KIND, object, now).cells
    }

    fn prepare_for_delete(&self, object: &mut Value, now: Timestamp) {
        if !object["metadata"]["finalizers"].is_array() {
            object["metadata"]["finalizers"] = json!([]);
        }
        if let Some(finalizers) = object["metadata"]["finalizers"].as_array_mut()
            && !finalizers.contains(&json!(CLEANUP_FINALIZER))
        {
            finalizers.push(json!(CLEANUP_FINALIZER));
        }
        let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
        set_terminating(object, "InstanceDeletionPending", message, now);
        object["metadata"]["deletionTimestamp"] = format_time(now).into();
    }
}

/// Sets the condition `Terminating` of a definition.
pub(super) fn set_terminating(object: &mut Value, reason: &str, message: &str, now: Timestamp) {
    if !object["status"]["conditions"].is_array() {
        object["status"]["conditions"] = json!([]);
    }
    let Some(conditions) = object["status"]["conditions"].as_array_mut() else { return };
    let time = conditions.iter().find(|condition| condition["type"] == "Terminating" && condition["status"] == "True");
    let time = time.map_or_else(|| format_time(now).into(), |condition| condition["lastTransitionTime"].clone());
    conditions.retain(|condition| condition["type"] != "Terminating");
    conditions.push(json!({
        "type": "Terminating", "status": "True", "reason": reason, "message": message, "lastTransitionTime": time,
    }));
}
