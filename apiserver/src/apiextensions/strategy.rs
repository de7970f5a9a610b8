//! The behaviour of CustomResourceDefinitions.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    apiextensions::admission,
    apimachinery::status::Status,
    builtin::{self, Instant},
    server::{Admitted, Column, Decoded, Part, RequestBody, Strategy, TableConvertor, format_time},
};

/// The finalizer that keeps a definition until its objects are gone.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
const API_VERSION: &str = "apiextensions.k8s.io/v1";
const KIND: &str = "CustomResourceDefinition";

/// The kind of definitions.
pub(crate) struct Definitions;

impl TableConvertor for Definitions {
    fn columns(&self) -> Vec<Column> {
        let resource = builtin::resource_of_kind(API_VERSION, KIND);
        let columns = resource.map(builtin::table_columns).unwrap_or_default();
        columns
            .as_array()
            .into_iter()
            .flatten()
            .map(Column::from_value)
            .collect()
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let now = Instant {
            seconds: now.as_second(),
            nanos: 0,
        };
        builtin::table_row(API_VERSION, KIND, object, now).cells
    }
}

impl Strategy for Definitions {
    fn read(&self, body: &RequestBody<'_>) -> Result<Decoded, Status> {
        body.decode(|text| self.decode(text))
    }

    fn decode(&self, text: &[u8]) -> Result<Decoded, String> {
        let parsed = crate::server::decode_object(KIND, text)?;
        let decoded = admission::decode(&parsed.object)?;
        let unknown = decoded
            .unknown_fields
            .iter()
            .map(|path| format!("unknown field \"{path}\""));
        let problems = parsed.problems.into_iter().chain(unknown).collect();

        Ok(Decoded {
            object: decoded.object,
            problems,
        })
    }

    fn admit_create(&self, object: &Value, _now: Timestamp) -> Result<Admitted, Status> {
        admission::admit_create(object.clone())
    }

    fn admit_update(
        &self,
        old: &Value,
        object: &Value,
        part: Part,
        _now: Timestamp,
    ) -> Result<Admitted, Status> {
        match part {
            Part::Status => admission::admit_status_update(object, old).map(|object| Admitted {
                object,
                warnings: Vec::new(),
            }),
            Part::Main | Part::Finalize => admission::admit_update(object.clone(), old),
        }
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

        let message =
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
        set_terminating(object, "InstanceDeletionPending", message, now);
        object["metadata"]["deletionTimestamp"] = format_time(now).into();
    }
}

pub(crate) fn set_terminating(object: &mut Value, reason: &str, message: &str, now: Timestamp) {
    if !object["status"]["conditions"].is_array() {
        object["status"]["conditions"] = json!([]);
    }

    let Some(conditions) = object["status"]["conditions"].as_array_mut() else {
        return;
    };
    let time = conditions
        .iter()
        .find(|condition| condition["type"] == "Terminating" && condition["status"] == "True");
    let time = time.map_or_else(
        || format_time(now).into(),
        |condition| condition["lastTransitionTime"].clone(),
    );

    conditions.retain(|condition| condition["type"] != "Terminating");
    conditions.push(json!({
        "type": "Terminating", "status": "True", "reason": reason, "message": message, "lastTransitionTime": time,
    }));
}
