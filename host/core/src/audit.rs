//! The audit of writes: who wrote what, why, and which fields changed by it.
//!
//! Every write that passes the gate leaves one [`AuditRecord`], also one that failed, and raw requests like others. A write
//! that the gate refused never was one.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::{
    object::{Object, ObjectKey},
    operation::{Operation, OperationAction, Reply, Verb},
    ports::ObjectApi,
    raw::RawResponse,
    request::ReconcileRequest,
    status::ApiError,
};

/// Paths named in one record; more are counted only.
const MAX_PATHS: usize = 32;
/// What changes with every write, whoever writes.
const EVERY_WRITE: [&str; 3] = [".metadata.resourceVersion", ".metadata.generation", ".metadata.managedFields"];

/// A plugin, as its records name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// The Plugin.
    pub plugin: ObjectKey,
    /// sha256 of its code.
    pub digest: String,
    /// As whom it acts.
    pub service_account: String,
}

/// One write of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
    /// namespace/name of the Plugin.
    pub plugin: String,
    /// sha256 of its code.
    pub digest: String,
    /// As whom it acted.
    pub service_account: String,
    /// The controller.
    pub controller: String,
    /// The reconcile that did it.
    pub reconcile_id: String,
    /// What was reconciled.
    pub key: String,
    /// create, update, patch or delete.
    pub verb: String,
    /// Kind and group of the object, or the path of a raw request.
    pub kind: String,
    /// namespace/name of the object; without a name when the API server was to find one.
    pub object: String,
    /// E.g. `status`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subresource: String,
    /// Whether nothing was stored.
    pub dry_run: bool,
    /// Paths of fields that are not as they were in the cache before. None when it did not have the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<Vec<String>>,
    /// `ok`, or the code and reason of the refusal.
    pub result: String,
}

/// Keeps records.
pub trait AuditSink: Send + Sync {
    /// Keeps one; returns soon.
    fn record(&self, record: &AuditRecord);
}

/// The audit of one plugin.
#[derive(Clone)]
pub struct Audit {
    /// The plugin.
    pub writer: Writer,
    /// Where its records go.
    pub sink: Arc<dyn AuditSink>,
}

/// A write that is under way.
pub struct Begun {
    record: AuditRecord,
    before: Option<Arc<Object>>,
}

impl Audit {
    /// Begins the record of an operation; None for what writes nothing.
    pub(crate) fn begin(
        &self,
        operation: &Operation,
        reconcile: Option<&ReconcileRequest>,
        api: &dyn ObjectApi,
    ) -> Option<Begun> {
        let (key, dry_run) = match &operation.action {
            OperationAction::Get { .. } | OperationAction::List(_) => return None,
            OperationAction::Create { namespace, options, .. } => {
                (ObjectKey { namespace: namespace.clone(), name: String::new() }, options.dry_run)
            }
            OperationAction::Update { key, options, .. } | OperationAction::Patch { key, options, .. } => {
                (key.clone(), options.dry_run)
            }
            OperationAction::Delete { key, options } => (key.clone(), options.dry_run),
        };
        let before = api.known(&operation.kind, &key);
        let record = AuditRecord {
            kind: operation.kind.to_string(),
            object: key.to_string(),
            subresource: operation.subresource().unwrap_or_default().to_owned(),
            dry_run,
            ..self.record(operation.verb(), reconcile)
        };
        Some(Begun { record, before })
    }

    /// Ends it.
    pub(crate) fn end(&self, begun: Begun, result: &Result<Reply, ApiError>) {
        let Begun { mut record, before } = begun;
        match result {
            Ok(Reply::Object(object)) => {
                record.object = object.header.key.to_string();
                record.changed = before.map(|before| changed_paths(before.json(), object.json()));
                record.result = "ok".to_owned();
            }
            Ok(_) => record.result = "ok".to_owned(),
            Err(error) => record.result = outcome(error),
        }
        self.sink.record(&record);
    }

    /// Records a raw write.
    pub(crate) fn raw(
        &self,
        (verb, path): (Verb, &str),
        reconcile: Option<&ReconcileRequest>,
        result: &Result<RawResponse, ApiError>,
    ) {
        let result = match result {
            Ok(answer) if answer.status < 400 => "ok".to_owned(),
            Ok(answer) => answer.status.to_string(),
            Err(error) => outcome(error),
        };
        self.sink.record(&AuditRecord { kind: path.to_owned(), result, ..self.record(verb, reconcile) });
    }

    fn record(&self, verb: Verb, reconcile: Option<&ReconcileRequest>) -> AuditRecord {
        let Writer { plugin, digest, service_account } = &self.writer;
        AuditRecord {
            plugin: plugin.to_string(),
            digest: digest.clone(),
            service_account: service_account.clone(),
            controller: reconcile.map(|request| request.controller.clone()).unwrap_or_default(),
            reconcile_id: reconcile.map(|request| request.reconcile_id.clone()).unwrap_or_default(),
            key: reconcile.map(|request| request.key.to_string()).unwrap_or_default(),
            verb: verb.to_string(),
            ..AuditRecord::default()
        }
    }
}

fn outcome(error: &ApiError) -> String {
    format!("{} {}", error.status.code, error.status.reason).trim().to_owned()
}

/// The paths at which two objects differ, in order: `.spec.replicas`. A list that differs is one path.
pub fn changed_paths(before: &str, after: &str) -> Vec<String> {
    let (Ok(before), Ok(after)) = (serde_json::from_str::<Value>(before), serde_json::from_str::<Value>(after)) else {
        return Vec::new();
    };
    let mut paths = Vec::new();
    compare(&before, &after, String::new(), &mut paths);
    if paths.len() > MAX_PATHS {
        let more = paths.len() - MAX_PATHS;
        paths.truncate(MAX_PATHS);
        paths.push(format!("and {more} more"));
    }
    paths
}

fn compare(before: &Value, after: &Value, path: String, paths: &mut Vec<String>) {
    if before == after || EVERY_WRITE.contains(&path.as_str()) {
        return;
    }
    let (Value::Object(old), Value::Object(new)) = (before, after) else { return paths.push(path) };
    for (name, value) in old {
        compare(value, new.get(name).unwrap_or(&Value::Null), format!("{path}.{name}"), paths);
    }
    for (name, value) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
        compare(&Value::Null, value, format!("{path}.{name}"), paths);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_named_and_what_every_write_changes_is_not() {
        let before =
            r#"{"metadata":{"name":"a","resourceVersion":"1","generation":1},"spec":{"a":1,"b":[1],"gone":true}}"#;
        let after =
            r#"{"metadata":{"name":"a","resourceVersion":"2","generation":2},"spec":{"a":2,"b":[1,2],"c":{"d":1}}}"#;
        assert_eq!(changed_paths(before, after), [".spec.a", ".spec.b", ".spec.gone", ".spec.c"]);
        assert_eq!(changed_paths(before, before), [""; 0]);
        assert_eq!(changed_paths("no json", after), [""; 0]);
    }

    #[test]
    fn endless_changes_are_counted() {
        let fields = (0..100).map(|number| format!(r#""f{number}":{number}"#)).collect::<Vec<_>>().join(",");
        let paths = changed_paths("{}", &format!("{{{fields}}}"));
        assert_eq!((paths.len(), paths[32].as_str()), (33, "and 68 more"));
    }
}
