//! The audit of writes: for each write, the plugin, the cause and the changed fields.
//!
//! Every write admitted by the gate leaves one [`AuditRecord`], including failed writes and raw
//! requests. A write not sent because it would have changed nothing is recorded as `suppressed`.
//! Writes refused by the gate are not recorded. The changed fields also go to [`FieldConflicts`].

use std::sync::Arc;

use serde::Serialize;

use crate::{
    conflict::{Author, FieldConflicts, Wrote},
    controller::request::ReconcileRequest,
    gate::{
        call::{Call, Resource},
        operation::Verb,
        reply::Answer,
    },
    object::{
        Object, ObjectKey,
        changes::changes,
        fields::{seek, string},
        kind::GroupVersionKind,
    },
    ports::ObjectLookup,
};

/// Bytes for all paths of one record. Paths beyond that are only counted.
const MAX_PATH_BYTES: usize = 4_096;
/// The largest object we compare, in bytes. API servers store objects of up to 1.5 MiB by default.
const MAX_COMPARED: usize = 8 << 20;

/// A plugin, as named in its audit records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// The Plugin.
    pub plugin: ObjectKey,
    /// sha256 of its code.
    pub digest: String,
    /// The ServiceAccount the plugin acts as.
    pub service_account: String,
    /// The default field manager, for writes without one.
    pub field_manager: String,
}

/// One write of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
    /// The plugin and the reconcile behind the write.
    #[serde(flatten)]
    pub source: AuditSource,
    /// create, update, patch or delete.
    pub verb: String,
    /// Kind and group of the object, or the path of a raw request.
    pub kind: String,
    /// namespace/name of the object; without the name if the API server generates it.
    pub object: String,
    /// The subresource, e.g. `status`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subresource: String,
    /// Whether the request was a dry run, which stores nothing.
    pub dry_run: bool,
    /// Paths of the fields that differ from the cached object before the write; None if the object
    /// was not cached or is too large to compare.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<Vec<String>>,
    /// `ok`; `suppressed` if the write would have changed nothing and was not sent; otherwise the
    /// error's code and reason.
    pub result: String,
}

/// The plugin and the reconcile behind a write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditSource {
    /// The Plugin as namespace/name.
    pub plugin: String,
    /// The sha256 of its code.
    pub digest: String,
    /// The ServiceAccount the plugin acted as.
    pub service_account: String,
    /// The controller's name.
    pub controller: String,
    /// The id of the reconcile.
    pub reconcile_id: String,
    /// The reconciled key.
    pub key: String,
}

/// Stores audit records.
pub trait AuditSink: Send + Sync {
    /// Stores a record. Must not block.
    fn record(&self, record: &AuditRecord);
}

/// The audit of one plugin.
#[derive(Clone)]
pub struct Audit {
    /// The plugin.
    pub writer: Writer,
    /// Where the records go.
    pub sink: Arc<dyn AuditSink>,
    /// The field-conflict detector, which sees each write.
    pub conflicts: Arc<FieldConflicts>,
}

/// A write between request and answer.
pub(crate) struct AuditedWrite<'a> {
    audit: &'a Audit,
    record: AuditRecord,
    author: Author,
    manager: String,
    /// The object before the write and its kind, if known and to be compared.
    before: Option<(GroupVersionKind, Arc<Object>)>,
    /// Whether we looked up the previous writer for this write, because the author may be in a
    /// conflict.
    looked_up: bool,
}

impl Audit {
    pub(super) fn begin(
        &self,
        call: &Call,
        reconcile: Option<&ReconcileRequest>,
        objects: Option<&dyn ObjectLookup>,
    ) -> AuditedWrite<'_> {
        let record = self.record(call, reconcile);

        // The response to a deletion is not comparable with the object before it.
        let before = objects
            .filter(|_| call.verb != Verb::Delete)
            .and_then(|objects| {
                let (kind, key) = objects.named_by(call)?;
                let object = objects.cached(&kind, &key)?;
                Some((kind, object))
            });

        AuditedWrite {
            audit: self,
            author: Author {
                plugin: self.writer.plugin.clone(),
                controller: record.source.controller.clone(),
            },
            manager: call
                .field_manager
                .clone()
                .unwrap_or_else(|| self.writer.field_manager.clone()),
            record,
            before,
            looked_up: false,
        }
    }

    fn record(&self, call: &Call, reconcile: Option<&ReconcileRequest>) -> AuditRecord {
        let Writer {
            plugin,
            digest,
            service_account,
            field_manager: _,
        } = &self.writer;
        let source = AuditSource {
            plugin: plugin.to_string(),
            digest: digest.clone(),
            service_account: service_account.clone(),
            controller: reconcile
                .map(|request| request.controller.clone())
                .unwrap_or_default(),
            reconcile_id: reconcile
                .map(|request| request.reconcile_id.clone())
                .unwrap_or_default(),
            key: reconcile
                .map(|request| request.key.to_string())
                .unwrap_or_default(),
        };

        // A raw request's path already names the object and the subresource.
        let (kind, object, subresource) = match &call.resource {
            Resource::Kind(kind) => (
                kind.to_string(),
                call.key().to_string(),
                call.subresource.clone().unwrap_or_default(),
            ),
            Resource::Path { path, .. } => (path.clone(), String::new(), String::new()),
        };
        AuditRecord {
            source,
            verb: call.verb.to_string(),
            kind,
            object,
            subresource,
            dry_run: call.is_dry_run,
            ..AuditRecord::default()
        }
    }
}

impl AuditedWrite<'_> {
    pub(super) fn is_dry_run(&self) -> bool {
        self.record.dry_run
    }

    pub(super) fn resource_version_before(&self) -> Option<String> {
        let (_, before) = self.before.as_ref()?;
        Some(before.resource_version().to_owned())
    }

    /// Looks up the object's previous writer, if this write may be part of a conflict with an
    /// unknown writer.
    pub(super) async fn find_previous_writer(&mut self, objects: &dyn ObjectLookup) {
        let Some((kind, before)) = &mut self.before else {
            return;
        };
        if !self.record.dry_run
            && self.audit.conflicts.candidates(&self.author, before)
            && let Some(stored) = objects.live(kind, before.key()).await
        {
            *before = stored;
            self.looked_up = true;
        }
    }

    /// Ends the record with the answer. Returns the fields changed by the write; None if unknown.
    pub(super) fn end(mut self, answer: &Answer<'_>) -> Option<Vec<String>> {
        self.record.result = match answer {
            Answer::Stored(object) => {
                self.record.object = object.key().to_string();
                self.compare(object.json());
                "ok".to_owned()
            }
            Answer::Raw(body) => {
                self.compare(body);
                "ok".to_owned()
            }
            Answer::Deleted => "ok".to_owned(),
            Answer::Unchanged => {
                self.record.changed = Some(Vec::new());
                "suppressed".to_owned()
            }
            Answer::Failed { code, reason } => format!("{code} {reason}").trim().to_owned(),
        };

        self.keep_candidate();
        self.audit.sink.record(&self.record);
        self.record.changed
    }

    /// Keeps the candidate if the lookup proved nothing, because the write failed or changed
    /// nothing. The next write is then examined as well.
    fn keep_candidate(&self) {
        let has_changed = self
            .record
            .changed
            .as_ref()
            .is_some_and(|changed| !changed.is_empty());

        if let Some((_, before)) = &self.before
            && self.looked_up
            && !has_changed
        {
            self.audit.conflicts.keep_candidate(&self.author, before);
        }
    }

    /// Compares the response with the object before the write, if known. Skips answers that are
    /// another object, such as the Scale returned by a patch of `scale`.
    fn compare(&mut self, answer: &str) {
        let Some((kind, known)) = &self.before else {
            return;
        };
        if !is_version_of(known, answer) {
            return;
        }
        let Some(changes) = changes(known.json(), answer, MAX_COMPARED) else {
            return;
        };

        self.record.changed = Some(changes.paths(MAX_PATH_BYTES));
        if !self.record.dry_run {
            self.audit.conflicts.wrote(&Wrote {
                author: &self.author,
                manager: &self.manager,
                kind,
                object: known,
                after: answer,
                changes: &changes.named,
            });
        }
    }
}

/// Whether a response is a version of this object, by kind and uid.
fn is_version_of(object: &Object, answer: &str) -> bool {
    let read = |json, steps: &[&str]| seek(json, steps)?.value_text(0).ok().and_then(string);
    let is_uid = |uid| uid == object.uid();
    read(object.json(), &["kind"]) == read(answer, &["kind"])
        && read(answer, &["metadata", "uid"]).is_some_and(is_uid)
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::{
        conflict::{ConflictSink, FieldConflict},
        gate::{
            Gate, GateLimits, Shared,
            operation::{Write, WriteAction, WriteOptions},
            tests::Fake,
        },
    };

    #[derive(Default)]
    struct Records(Mutex<Vec<AuditRecord>>);

    impl AuditSink for Records {
        fn record(&self, record: &AuditRecord) {
            self.0.lock().push(record.clone());
        }
    }

    impl ConflictSink for Records {
        fn conflict(&self, _: &FieldConflict) {}
    }

    #[tokio::test]
    async fn records_unsent_write_as_suppressed() {
        let api = Arc::new(Fake {
            unchanging: true,
            ..Fake::default()
        });
        let sink = Arc::new(Records::default());
        let writer = Writer {
            plugin: ObjectKey::namespaced("n", "p"),
            digest: String::new(),
            service_account: String::new(),
            field_manager: "m".to_owned(),
        };
        let audit = Some(Audit {
            writer,
            sink: sink.clone(),
            conflicts: FieldConflicts::new(sink.clone()),
        });
        let shared = Shared {
            audit,
            ..Shared::default()
        };
        let gate = Gate::new(
            api.clone(),
            api.clone(),
            api.clone(),
            "{}".into(),
            GateLimits::default(),
            shared,
        );
        let action = WriteAction::Update {
            key: ObjectKey::cluster_scoped("a"),
            status: false,
            object: "{}".to_owned(),
        };
        let request = ReconcileRequest {
            controller: "c".into(),
            key: ObjectKey::cluster_scoped("a"),
            retries: 0,
            reconcile_id: "r".into(),
            record: None,
        };
        let write = Write {
            kind: GroupVersionKind::new("v1", "Node"),
            action,
            options: WriteOptions::default(),
        };
        let answer = gate
            .session(Some(request))
            .write(write)
            .await
            .expect("done");
        assert_eq!(answer.key().name, "a");
        let counted = [Verb::Update, Verb::Patch].map(|verb| gate.meter().suppressed(verb));
        assert_eq!((counted, gate.meter().calls(Verb::Update)), ([1, 0], 1));
        let records = sink.0.lock();
        assert_eq!(records.len(), 1);
        assert_eq!(
            (records[0].result.as_str(), &records[0].changed),
            ("suppressed", &Some(vec![]))
        );
    }

    #[test]
    fn other_objects_and_pages_are_not_compared() {
        let text = r#"{"kind":"Deployment","metadata":{"name":"a","uid":"u"}}"#;
        let kind = GroupVersionKind::new("apps/v1", "Deployment");
        let known =
            Object::from_json(text, &kind, crate::object::ManagedFields::Drop).expect("an object");
        for (answer, is_version) in [
            (text, true),
            (
                r#" {"metadata" : {"uid":"\u0075"}, "kind":"\u0044eployment"}"#,
                true,
            ),
            (
                r#"{"kind":"Scale","metadata":{"name":"a","uid":"u"}}"#,
                false,
            ),
            (
                r#"{"kind":"Deployment","metadata":{"name":"a","uid":"v"}}"#,
                false,
            ),
            (r#"{"kind":"Deployment","metadata":{"name":"a"}}"#, false),
            (r#"{"kind":"Deployment","metadata":"u"}"#, false),
            (r#"{"kind":"Deployment","metadata":{"uid":["u"]}}"#, false),
            ("<html>", false),
            ("", false),
        ] {
            assert_eq!(is_version_of(&known, answer), is_version, "{answer}");
        }
    }
}
