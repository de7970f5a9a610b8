//! Field conflicts among writes that pass the gate: which writes are recorded, and which writers
//! are named.

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::conflict::*;
use crate::{
    controller::request::ReconcileRequest,
    gate::{
        Gate, GateLimits, Shared,
        audit::{Audit, AuditRecord, AuditSink, Writer},
        operation::{
            Delete, Get, List, Page, PatchBody, Write, WriteAction, WriteOptions, Written,
        },
        raw_request::{RawRequest, RawResponse, Target},
    },
    object::{ManagedFields, Object},
    ports::{EventNote, EventSink, LogLevel, LogRecord, LogSink, ObjectApi, ObjectLookup},
    status::ApiError,
};

/// An API server with one ConfigMap `n/target`, and a cache of it.
struct Server {
    /// The values and managers of its fields.
    fields: Mutex<Vec<(String, Value, String)>>,
    /// The cached object, if it differs from the API server's.
    stale: Mutex<Option<Value>>,
    cached: bool,
    looks: Mutex<u32>,
    conflicts: Mutex<Vec<FieldConflict>>,
    records: Mutex<Vec<AuditRecord>>,
}

impl Server {
    fn new(cached: bool) -> Arc<Self> {
        let fields = Mutex::default();
        let conflicts = Mutex::default();
        let records = Mutex::default();
        Arc::new(Self {
            fields,
            stale: Mutex::default(),
            cached,
            looks: Mutex::default(),
            conflicts,
            records,
        })
    }

    /// Stores a field for another writer.
    fn store(&self, field: &str, value: &Value, manager: &str) {
        let mut fields = self.fields.lock();
        let same = fields
            .iter()
            .any(|(name, now, _)| name == field && now == value);
        if !same {
            fields.retain(|(name, ..)| name != field);
            fields.push((field.to_owned(), value.clone(), manager.to_owned()));
        }
    }

    /// Returns the object as it is stored.
    fn object(&self) -> Value {
        let fields = self.fields.lock();
        let data: serde_json::Map<_, _> = fields
            .iter()
            .map(|(name, value, _)| (name.clone(), value.clone()))
            .collect();
        let entry = |(name, _, manager): &(String, Value, String)| json!({"manager": manager, "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:data": {format!("f:{name}"): {}}}});
        let managers: Vec<_> = fields.iter().map(entry).collect();
        let metadata =
            json!({"namespace": "n", "name": "target", "uid": "u", "managedFields": managers});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    }

    /// Returns the gate of a plugin.
    fn gate(self: &Arc<Self>, conflicts: &Arc<FieldConflicts>, plugin: &str) -> Arc<Gate> {
        let writer = Writer {
            plugin: ObjectKey::namespaced("n", plugin),
            digest: String::new(),
            service_account: String::new(),
            field_manager: format!("operetta:n/{plugin}"),
        };
        let audit = Some(Audit {
            writer,
            sink: self.clone(),
            conflicts: conflicts.clone(),
        });
        let shared = Shared {
            audit,
            objects: Some(self.clone()),
            ..Shared::default()
        };
        Gate::new(
            self.clone(),
            self.clone(),
            self.clone(),
            "{}".into(),
            GateLimits::default(),
            shared,
        )
    }

    /// Returns the reported conflicts: path, author and rival.
    fn reported(&self) -> Vec<(String, String, Rival)> {
        let conflicts = self.conflicts.lock();
        let reported = conflicts
            .iter()
            .filter(|conflict| conflict.stage != Stage::Lasts);
        reported
            .map(|conflict| {
                (
                    conflict.path.clone(),
                    conflict.author.plugin.name.clone(),
                    conflict.rival.clone(),
                )
            })
            .collect()
    }
}

#[async_trait]
impl ObjectApi for Server {
    async fn write(&self, write: Write) -> Result<Written, ApiError> {
        let WriteAction::Patch {
            body: PatchBody::Merge(text),
            ..
        } = write.action
        else {
            unreachable!("only merge patches here")
        };
        let patch: Value = serde_json::from_str(&text).expect("json");
        let manager = write.options.field_manager.unwrap_or_default();
        let before = self.fields.lock().clone();
        for (field, value) in patch["data"].as_object().expect("data") {
            self.store(field, value, &manager);
        }
        let answer = read(&self.object(), ManagedFields::Keep);
        if write.options.dry_run {
            *self.fields.lock() = before;
        }
        Ok(Written::Stored(answer))
    }

    async fn get(&self, _: Get) -> Result<Arc<Object>, ApiError> {
        unreachable!("nothing reads here")
    }

    async fn list(&self, _: List) -> Result<Page, ApiError> {
        unreachable!("nothing reads here")
    }

    async fn delete(&self, _: Delete) -> Result<(), ApiError> {
        unreachable!("nothing is deleted here")
    }

    async fn raw(&self, request: RawRequest, _: Target) -> Result<RawResponse, ApiError> {
        let patch: Value = serde_json::from_str(&request.body.unwrap_or_default()).expect("json");
        for (field, value) in patch["data"].as_object().expect("data") {
            self.store(field, value, "operetta:n/a");
        }
        let body = self.object().to_string();
        Ok(RawResponse {
            status: 200,
            content_type: String::new(),
            retry_after_seconds: None,
            body,
        })
    }
}

#[async_trait]
impl ObjectLookup for Server {
    fn cached(&self, _: &GroupVersionKind, _: &ObjectKey) -> Option<Arc<Object>> {
        let now = self.stale.lock().clone().unwrap_or_else(|| self.object());
        self.cached.then(|| read(&now, ManagedFields::Drop))
    }

    fn kind_of(&self, _: &str, plural: &str) -> Option<GroupVersionKind> {
        (plural == "configmaps").then(|| GroupVersionKind::new("v1", "ConfigMap"))
    }

    async fn live(&self, _: &GroupVersionKind, _: &ObjectKey) -> Option<Arc<Object>> {
        *self.looks.lock() += 1;
        Some(read(&self.object(), ManagedFields::Keep))
    }
}

fn read(object: &Value, managed_fields: ManagedFields) -> Arc<Object> {
    let kind = GroupVersionKind::new("v1", "ConfigMap");
    Arc::new(Object::from_json(&object.to_string(), &kind, managed_fields).expect("an object"))
}

impl ConflictSink for Server {
    fn conflict(&self, conflict: &FieldConflict) {
        self.conflicts.lock().push(conflict.clone());
    }
}

impl AuditSink for Server {
    fn record(&self, record: &AuditRecord) {
        self.records.lock().push(record.clone());
    }
}

impl EventSink for Server {
    fn emit(&self, _: EventNote) {}
}

impl LogSink for Server {
    fn enabled(&self, _: LogLevel) -> bool {
        false
    }
    fn write(&self, _: LogRecord) {}
}

fn reconcile(controller: &str) -> Option<ReconcileRequest> {
    let key = ObjectKey::namespaced("n", "target");
    Some(ReconcileRequest {
        controller: controller.into(),
        key,
        retries: 0,
        reconcile_id: "r".into(),
        record: None,
    })
}

/// A controller's merge patch of one field, by the plugin's own manager.
async fn patch(gate: &Arc<Gate>, plugin: &str, field: &str, value: &Value, dry_run: bool) {
    let options = WriteOptions {
        dry_run,
        field_manager: Some(format!("operetta:n/{plugin}")),
        strict: false,
    };
    let body = PatchBody::Merge(json!({"data": {field: value}}).to_string());
    let key = ObjectKey::namespaced("n", "target");
    let action = WriteAction::Patch {
        key,
        subresource: None,
        body,
        force: false,
    };
    let write = Write {
        kind: GroupVersionKind::new("v1", "ConfigMap"),
        action,
        options,
    };
    gate.session(reconcile("c"))
        .write(write)
        .await
        .expect("patched");
}

/// Patches the field by a raw request.
async fn patch_raw(gate: &Arc<Gate>, field: &str, value: &Value) -> RawResponse {
    let request = RawRequest {
        method: "PATCH".into(),
        path: "/api/v1/namespaces/n/configmaps/target".into(),
        content_type: Some("application/merge-patch+json".into()),
        body: Some(json!({"data": {field: value}}).to_string()),
        ..RawRequest::default()
    };
    gate.session(reconcile("c")).raw(request).await
}

fn plugin(name: &str) -> Rival {
    Rival::Author(Author {
        plugin: ObjectKey::namespaced("n", name),
        controller: "c".to_owned(),
    })
}

#[tokio::test]
async fn names_both_plugins_and_only_the_disputed_field() {
    let server = Server::new(true);
    let conflicts = FieldConflicts::new(server.clone());
    let [a, b] = ["a", "b"].map(|name| server.gate(&conflicts, name));
    for round in 0..10 {
        patch(&a, "a", "x.y/z", &json!("a"), false).await;
        patch(&a, "a", "of-a", &json!(round), false).await;
        patch(&b, "b", "x.y/z", &json!("b"), false).await;
        patch(&b, "b", "of-b", &json!(round), false).await;
    }
    assert_eq!(
        server.reported(),
        [(".data.x.y/z".to_owned(), "a".to_owned(), plugin("b"))]
    );
    assert_eq!(*server.looks.lock(), 0, "nobody has to be looked for");
}

#[tokio::test]
async fn names_outside_writer_by_field_manager() {
    for raw in [false, true] {
        let server = Server::new(true);
        let conflicts = FieldConflicts::new(server.clone());
        let a = server.gate(&conflicts, "a");
        for _ in 0..10 {
            if raw {
                assert_eq!(patch_raw(&a, "x", &json!("a")).await.status, 200);
            } else {
                patch(&a, "a", "x", &json!("a"), false).await;
            }
            server.store("x", &json!("other"), "helm");
        }
        let helm = Rival::Outside {
            manager: Some("helm".into()),
        };
        assert_eq!(
            server.reported(),
            [(".data.x".to_owned(), "a".to_owned(), helm)]
        );
        assert_eq!(*server.looks.lock(), 1);
        let changed = server
            .records
            .lock()
            .last()
            .expect("a record")
            .changed
            .clone();
        assert_eq!(changed, Some(vec![".data.x".to_owned()]));
    }
}

#[tokio::test]
async fn unchanged_write_does_not_consume_the_lookup() {
    let server = Server::new(true);
    let conflicts = FieldConflicts::new(server.clone());
    let a = server.gate(&conflicts, "a");
    for _ in 0..10 {
        patch(&a, "a", "x", &json!("a"), false).await;
        patch(&a, "a", "x", &json!("a"), false).await;
        server.store("x", &json!("other"), "helm");
    }
    let helm = Rival::Outside {
        manager: Some("helm".into()),
    };
    assert_eq!(
        server.reported(),
        [(".data.x".to_owned(), "a".to_owned(), helm)]
    );
    assert_eq!(
        *server.looks.lock(),
        2,
        "of the write that changed nothing, and of the next"
    );
}

#[tokio::test]
async fn stale_cache_does_not_blame_the_writer() {
    let server = Server::new(true);
    let conflicts = FieldConflicts::new(server.clone());
    let a = server.gate(&conflicts, "a");
    for round in 0..20 {
        // The cache has not received helm's reversal of its own field yet.
        server.store("flaps", &json!("old"), "helm");
        let before = server.object();
        server.store("flaps", &json!("new"), "helm");
        *server.stale.lock() = Some(before);
        patch(&a, "a", "of-a", &json!(round), false).await;
        let record = server.records.lock().last().cloned().expect("a record");
        assert!(
            record
                .changed
                .expect("compared")
                .contains(&".data.flaps".to_owned()),
            "it looks as if"
        );
    }
    assert_eq!(server.conflicts.lock().len(), 0);
}

#[tokio::test]
async fn ignores_dry_runs_and_uncached_objects() {
    for (dry_run, cached) in [(true, true), (false, false)] {
        let server = Server::new(cached);
        let conflicts = FieldConflicts::new(server.clone());
        let [a, b] = ["a", "b"].map(|name| server.gate(&conflicts, name));
        for _ in 0..10 {
            patch(&a, "a", "x", &json!("a"), dry_run).await;
            patch(&b, "b", "x", &json!("b"), dry_run).await;
        }
        assert_eq!(server.reported(), []);
        let looks = *server.looks.lock();
        assert_eq!((looks, server.conflicts.lock().len()), (0, 0));
    }
}
