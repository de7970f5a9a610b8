//! Shared parts of the benches of calls: an API server without latency, one Deployment, and a
//! native peer.

#![allow(dead_code, reason = "each bench uses some of it")]

#[path = "../../../../tests/guests/bench/src/change.rs"]
mod change;

use std::{path::PathBuf, process::Command, sync::Arc, time::Instant};

use async_trait::async_trait;
use operetta_core::{
    controller::request::{Action, ReconcileRequest},
    gate::{
        Gate, GateLimits, Shared,
        operation::{Delete, Get, List, Page, Read, Write, WriteAction, WriteOptions, Written},
        raw_request::{RawRequest, RawResponse, Target},
    },
    object::{ManagedFields, Object, ObjectKey, kind::GroupVersionKind},
    ports::{EventNote, EventSink, LogLevel, LogRecord, LogSink, ObjectApi, Reconciler},
    status::{ApiError, ErrorKind},
};
use operetta_sdk::k8s_openapi::api::apps::v1::Deployment;
use operetta_wasm::{CallLimits, Plugin, PluginReconciler};
use tokio::runtime::{Builder, Runtime};

/// The allocator of the host.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

pub type AnyError = Box<dyn std::error::Error>;

/// Returns the microseconds of one call, averaged over `calls` calls.
pub fn per_call<F: Future<Output = ()>>(
    runtime: &Runtime,
    calls: u32,
    call: impl Fn() -> F,
) -> f64 {
    runtime.block_on(async {
        let started = Instant::now();
        for _ in 0..calls {
            call().await;
        }
        started.elapsed().as_secs_f64() * 1e6 / f64::from(calls)
    })
}

/// Reconciles the Deployment with a controller of a plugin.
pub async fn reconcile(reconciler: &PluginReconciler, controller: &str) {
    let request = ReconcileRequest {
        controller: controller.into(),
        key: ObjectKey::namespaced("production", "web"),
        retries: 0,
        reconcile_id: "0123456789abcdef".into(),
        record: None,
    };
    assert_eq!(reconciler.reconcile(&request).await, Ok(Action::Done));
}

/// Does the same reconcile without a sandbox, as a native controller does.
pub async fn native(api: &Arc<dyn ObjectApi>) {
    let kind = GroupVersionKind::new("apps/v1", "Deployment");
    let key = ObjectKey::namespaced("production", "web");
    let get = Get {
        kind: kind.clone(),
        key: key.clone(),
        read: Read::Cached,
    };
    let mut deployment = parse(&api.get(get).await.expect("a Deployment"));
    change::change(&mut deployment);
    let object = serde_json::to_string(&deployment).expect("serialises");
    let action = WriteAction::Update {
        key,
        status: true,
        object,
    };
    let written = api
        .write(Write {
            kind,
            action,
            options: WriteOptions::default(),
        })
        .await
        .expect("written");
    let stored = parse(&written.into_object());
    assert!(stored.status.is_some());
}

fn parse(object: &Object) -> Deployment {
    serde_json::from_str(object.json()).expect("a Deployment")
}

pub fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Returns a reconciler whose gate does not limit the number of calls.
pub fn reconciler(plugin: &Arc<Plugin>, ports: &Arc<Ports>) -> PluginReconciler {
    let limits = GateLimits {
        calls: u32::MAX,
        ..GateLimits::default()
    };
    let gate = Gate::new(
        ports.clone(),
        ports.clone(),
        ports.clone(),
        "{}".into(),
        limits,
        Shared::default(),
    );
    PluginReconciler::new(plugin.clone(), gate, CallLimits::default())
}

/// Builds the guest in Rust, which needs the target wasm32-wasip2.
pub fn guest() -> Result<PathBuf, AnyError> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let arguments = [
        "build",
        "-p",
        "fixture-bench",
        "--target",
        "wasm32-wasip2",
        "--profile",
        "guest",
    ];
    let built = Command::new(cargo)
        .args(arguments)
        .current_dir(&root)
        .status()?;
    if !built.success() {
        return Err("failed to build the guest".into());
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("wasm32-wasip2/guest/fixture_bench.wasm"))
}

/// An API server that has one object and no latency.
pub struct Ports(pub Arc<Object>);

#[async_trait]
impl ObjectApi for Ports {
    async fn get(&self, _: Get) -> Result<Arc<Object>, ApiError> {
        Ok(self.0.clone())
    }

    async fn list(&self, _: List) -> Result<Page, ApiError> {
        Err(ApiError::new(ErrorKind::Other, "not measured"))
    }

    async fn write(&self, _: Write) -> Result<Written, ApiError> {
        Ok(Written::Stored(self.0.clone()))
    }

    async fn delete(&self, _: Delete) -> Result<(), ApiError> {
        Err(ApiError::new(ErrorKind::Other, "not measured"))
    }

    async fn raw(&self, _: RawRequest, _: Target) -> Result<RawResponse, ApiError> {
        Err(ApiError::new(ErrorKind::Other, "not measured"))
    }
}

impl EventSink for Ports {
    fn emit(&self, _: EventNote) {}
}

impl LogSink for Ports {
    fn enabled(&self, level: LogLevel) -> bool {
        level <= LogLevel::Info
    }

    fn write(&self, _: LogRecord) {}
}

/// Returns a typical Deployment, without managedFields.
pub fn deployment() -> Result<Object, AnyError> {
    let env: Vec<_> = (0..8)
        .map(|at| serde_json::json!({"name": format!("SETTING_{at}"), "value": format!("the value of setting {at}")}))
        .collect();
    let container = |name: &str| {
        serde_json::json!({
            "name": name, "image": format!("registry.example.com/shop/{name}:1.2.3"), "env": env,
            "imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "64Mi"}},
            "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
            "readinessProbe": {"httpGet": {"path": "/ready", "port": "http", "scheme": "HTTP"}, "periodSeconds": 10},
            "volumeMounts": [{"mountPath": "/etc/shop", "name": "settings", "readOnly": true}]
        })
    };
    let condition = |kind: &str| {
        serde_json::json!({
            "type": kind, "status": "True", "reason": "NewReplicaSetAvailable",
            "message": "ReplicaSet \"web-5d4f8c7b9d\" has successfully progressed.",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z"
        })
    };
    let object = serde_json::json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "web", "namespace": "production", "uid": "1b7c3a52-3b8e-4c5f-9f57-0b6d1f0e2a11",
            "resourceVersion": "123456", "generation": 4, "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "web", "team": "shop", "tier": "frontend"},
            "annotations": {"deployment.kubernetes.io/revision": "4"}
        },
        "spec": {
            "replicas": 3, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": {
                "metadata": {"labels": {"app": "web", "team": "shop"}},
                "spec": {
                    "containers": [container("web"), container("proxy")],
                    "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
                    "securityContext": {}, "terminationGracePeriodSeconds": 30,
                    "volumes": [{"name": "settings", "configMap": {"name": "settings", "defaultMode": 420}}]
                }
            }
        },
        "status": {
            "availableReplicas": 3, "observedGeneration": 4, "readyReplicas": 3, "replicas": 3, "updatedReplicas": 3,
            "conditions": [condition("Available"), condition("Progressing")]
        }
    });
    let kind = GroupVersionKind::new("apps/v1", "Deployment");
    Ok(Object::from_json(
        &object.to_string(),
        &kind,
        ManagedFields::Drop,
    )?)
}
