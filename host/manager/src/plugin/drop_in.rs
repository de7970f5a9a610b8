//! The controller of drop-in ConfigMaps: a ConfigMap labelled `operetta.dev/plugin: "true"` gets a Plugin of its own name,
//! which it owns, if its namespace is opted in. Its annotations and its keys `config.json` or `config.yaml` become the
//! Plugin's spec. The configuration is not parsed before the ServiceAccount that the annotations name consents to the
//! Plugin.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ConfigMap;
use operetta_api::reasons::{self, Reason};
use operetta_core::{
    controller::request::{Action, Failure, ReconcileRequest},
    gate::operation::{Delete, DeleteOptions, PatchBody, Write, WriteAction, WriteOptions},
    object::{Object, ObjectKey, kind::GroupVersionKind},
    ports::{EventSink, ObjectApi, Reconciler},
    status::{ApiError, ErrorKind},
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    authz::consent,
    context::Context,
    crash_journal::{Noted, Step, Work},
    events::Regarding,
    plugin::{
        config_text::{config_key, config_object},
        crash_guard::{CrashGuard, Held},
        crd::{API_VERSION, KIND},
        digest_pin::foreign_manager,
        host_informers::HostInformers,
        ownership::Ownership,
        queue::PluginQueue,
        source::{artifact::PLUGIN_LABEL, hand_over::ConfigMapHandOver},
    },
};

pub use operetta_api::annotations::{COMPONENT_DIGEST, SERVICE_ACCOUNT, SUSPEND, WARM};

/// The field manager of the Plugins that this controller creates.
const MANAGER: &str = "operetta-drop-in";

/// The reconciler of labelled ConfigMaps.
pub struct DropInController {
    context: Arc<Context>,
    queue: PluginQueue,
    informers: Arc<HostInformers>,
    hand_over: Arc<ConfigMapHandOver>,
    guard: Arc<CrashGuard>,
    ownership: Arc<Ownership>,
    /// The last Plugin applied for each ConfigMap, so that an event of that Plugin does not read the whole ConfigMap
    /// again.
    applied: Mutex<HashMap<ObjectKey, Applied>>,
}

/// The versions of a ConfigMap and of the Plugin applied for it.
#[derive(PartialEq, Eq)]
struct Applied {
    config_map_uid: String,
    config_map_version: String,
    plugin_uid: String,
    /// The Plugin's generation, which changes with its spec.
    plugin_generation: i64,
    /// True if the ServiceAccount consented, so that the spec has the configuration.
    is_consented: bool,
}

impl Applied {
    fn new(config_map: &Object, plugin: &Object, is_consented: bool) -> Self {
        Self {
            config_map_uid: config_map.uid().to_owned(),
            config_map_version: config_map.resource_version().to_owned(),
            plugin_uid: plugin.uid().to_owned(),
            plugin_generation: plugin.generation(),
            is_consented,
        }
    }
}

impl DropInController {
    /// Creates the reconciler, and its queue.
    pub fn new(
        context: Arc<Context>,
        informers: Arc<HostInformers>,
        hand_over: Arc<ConfigMapHandOver>,
        guard: Arc<CrashGuard>,
        ownership: Arc<Ownership>,
    ) -> Arc<Self> {
        let queue = PluginQueue::new();
        Arc::new(Self { context, queue, informers, hand_over, guard, ownership, applied: Mutex::default() })
    }

    /// Returns the queue of the ConfigMaps to reconcile.
    pub fn queue(&self) -> PluginQueue {
        self.queue.clone()
    }

    /// Reports whether the Plugin is the one applied for this version of the ConfigMap, and unchanged since.
    fn is_applied(&self, key: &ObjectKey, config_map: &Object, is_consented: bool) -> bool {
        let plugin = self.informers.plugins.cache.get(key).filter(|plugin| !plugin.deleting());
        plugin.is_some_and(|plugin| {
            self.applied.lock().get(key) == Some(&Applied::new(config_map, &plugin, is_consented))
        })
    }

    /// Deletes the Plugin of a ConfigMap that is gone or has lost its label. Garbage collection would do it later. A Plugin
    /// on which somebody has set `spec.digest` is only suspended, because a new Plugin would not have the digest and run any
    /// code.
    async fn remove(&self, key: &ObjectKey) -> Result<(), ApiError> {
        self.applied.lock().remove(key);
        if !self.informers.plugins.cache.get(key).is_some_and(|plugin| is_drop_in(&plugin)) {
            return Ok(());
        }
        // The cache may not have the digest yet.
        let plugin = match self.context.cluster.get(&plugin_kind(), key).await {
            Ok(plugin) if is_drop_in(&plugin) => plugin,
            Err(error) if error.kind != ErrorKind::NotFound => return Err(error),
            _ => return Ok(()),
        };
        if plugin.scalar_at(".spec.digest").is_some() && foreign_manager(&plugin, MANAGER).is_some() {
            return self.suspend(key).await;
        }
        // A conflict is tried again: somebody may have set the digest meanwhile.
        let options = DeleteOptions {
            uid: Some(plugin.uid().to_owned()),
            resource_version: Some(plugin.resource_version().to_owned()),
            ..DeleteOptions::default()
        };
        match self.context.cluster.api.delete(Delete { kind: plugin_kind(), key: key.clone(), options }).await {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// Suspends a Plugin; its ConfigMap's label resumes it.
    async fn suspend(&self, key: &ObjectKey) -> Result<(), ApiError> {
        let action = WriteAction::Patch {
            key: key.clone(),
            subresource: None,
            body: PatchBody::Merge(json!({"spec": {"suspend": true}}).to_string()),
            force: false,
        };
        let options = WriteOptions { field_manager: Some(MANAGER.to_owned()), ..WriteOptions::default() };
        match self.context.cluster.api.write(Write { kind: plugin_kind(), action, options }).await {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
            other => other.map(drop),
        }
    }

    /// Applies the Plugin of the labelled ConfigMap with this metadata.
    async fn apply(&self, key: &ObjectKey, metadata: &Object) -> Result<(), Failure> {
        if !self.queue.may_follow(key) {
            return Ok(());
        }
        let namespace = key.namespace.as_deref().unwrap_or_default();
        if let Err(problem) = self.informers.check_namespace(namespace).await.map_err(retry)? {
            self.warn(key, metadata.uid().to_owned(), problem.reason, problem.message);
            // The namespace's label triggers the next reconcile.
            return Ok(());
        }
        let is_consented = self.is_consented(key, metadata).await.map_err(retry)?;
        if self.is_applied(key, metadata, is_consented) {
            return Ok(());
        }
        let config_map = match self.context.cluster.config_map(key).await {
            Ok(config_map) => config_map,
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(retry(error)),
        };
        let uid = config_map.metadata.uid.clone().unwrap_or_default();
        self.check_owner(key, &uid)?;
        let noted = self.note(key, &uid, config_map.metadata.resource_version.as_deref().unwrap_or_default())?;
        let spec = spec(&config_map, is_consented);
        drop(noted);
        let spec = spec.map_err(|text| {
            self.warn(key, uid.clone(), reasons::INVALID_PLUGIN_CONFIG, text.clone());
            Failure::Terminal(text)
        })?;
        let mut plugin = plugin(key, &uid, spec);
        self.check_digest(key, &uid, &mut plugin).await?;
        let action = WriteAction::Patch {
            key: key.clone(),
            subresource: None,
            body: PatchBody::Apply(plugin.to_string()),
            force: true,
        };
        let options = WriteOptions { field_manager: Some(MANAGER.to_owned()), ..WriteOptions::default() };
        // The event of the Plugin enqueues the ConfigMap, and may arrive before this response.
        self.hand_over.put(config_map);
        match self.context.cluster.api.write(Write { kind: plugin_kind(), action, options }).await {
            Ok(written) => {
                // The ConfigMap may be newer than the metadata: then its event follows, and it is applied again.
                self.applied.lock().insert(key.clone(), Applied::new(metadata, &written.into_object(), is_consented));
                Ok(())
            }
            Err(error) if error.kind != ErrorKind::Invalid => Err(retry(error)),
            Err(error) => {
                self.warn(key, uid, reasons::INVALID_PLUGIN, error.status.message.clone());
                Err(Failure::Terminal(error.status.message))
            }
        }
    }

    /// Reports whether the ServiceAccount that a ConfigMap's annotation names consents to the Plugin.
    async fn is_consented(&self, key: &ObjectKey, metadata: &Object) -> Result<bool, ApiError> {
        let name = metadata.along(["metadata", "annotations", SERVICE_ACCOUNT]);
        let name = name.and_then(|text| serde_json::from_str::<String>(text).ok());
        let Ok(account) = consent::named_account(key, name.as_deref()) else { return Ok(false) };
        let found = match self.informers.service_account(&account).await {
            // The annotation is not a valid name: the API server refuses the Plugin.
            Err(error) if error.kind == ErrorKind::BadRequest => return Ok(false),
            found => found?,
        };
        Ok(consent::check_account(&account, found.as_deref(), &key.name).is_ok())
    }

    /// Records in the crash journal that a ConfigMap is being parsed. Refuses a version during whose parsing the host
    /// crashed twice in a row.
    fn note(&self, key: &ObjectKey, uid: &str, resource_version: &str) -> Result<Noted, Failure> {
        let version = format!("{uid}/{resource_version}");
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let work = Work::new(Step::ParseDropIn, namespace, &key.name, &version, "");
        self.guard.begin(work).map_err(|held| match held {
            Held::Waiting => {
                Failure::Retry("waiting for another plugin, during whose load the host crashed".to_owned())
            }
            Held::Suspected(text) => Failure::Retry(text),
            Held::Quarantined(text) => {
                self.warn(key, uid.to_owned(), reasons::CRASH_QUARANTINED, text.clone());
                Failure::Terminal(text)
            }
        })
    }

    /// Checks that the ConfigMap's name is not the name of a Plugin that it does not own.
    fn check_owner(&self, key: &ObjectKey, uid: &str) -> Result<(), Failure> {
        let Some(plugin) = self.informers.plugins.cache.get(key) else { return Ok(()) };
        if plugin.controller().is_some_and(|owner| owner.uid == uid) {
            return Ok(());
        }
        // Garbage collection deletes the Plugin of the former owner; the retry then succeeds.
        if is_drop_in(&plugin) {
            return Err(Failure::Retry(format!("Plugin {key} is owned by an earlier ConfigMap of the same name")));
        }
        let text =
            format!("Plugin {:?} already exists and is not owned by this ConfigMap: rename one of them", key.name);
        self.warn(key, uid.to_owned(), reasons::PLUGIN_EXISTS, text.clone());
        Err(Failure::Terminal(text))
    }

    /// Checks that the ConfigMap's annotation does not replace a digest that somebody else has set on the Plugin. Ties what
    /// is applied to the version of the Plugin that was looked at.
    async fn check_digest(&self, key: &ObjectKey, uid: &str, applied: &mut Value) -> Result<(), Failure> {
        let Some(wanted) = applied["spec"]["digest"].as_str() else { return Ok(()) };
        let found = match self.context.cluster.get(&plugin_kind(), key).await {
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(()),
            found => found.map_err(retry)?,
        };
        let pinned = found.scalar_at(".spec.digest").filter(|pinned| pinned != wanted);
        if let Some((pinned, manager)) = pinned.zip(foreign_manager(&found, MANAGER)) {
            let text = format!(
                "annotation {COMPONENT_DIGEST} is {wanted}, but {manager} has set spec.digest of Plugin {key} to {pinned}: \
                 change the one there, or remove it to let the annotation decide"
            );
            self.warn(key, uid.to_owned(), reasons::DIGEST_MISMATCH, text.clone());
            return Err(Failure::Terminal(text));
        }
        applied["metadata"]["resourceVersion"] = found.resource_version().into();
        Ok(())
    }

    fn warn(&self, key: &ObjectKey, uid: String, reason: Reason, text: String) {
        let regarding = Regarding { kind: GroupVersionKind::new("v1", "ConfigMap"), key: key.clone(), uid: Some(uid) };
        self.context.cluster.recorder.emit(regarding.warning(reason, text));
    }
}

fn retry(error: ApiError) -> Failure {
    Failure::Retry(error.to_string())
}

fn plugin_kind() -> GroupVersionKind {
    GroupVersionKind::new(API_VERSION, KIND)
}

/// Builds the Plugin of a ConfigMap.
fn plugin(key: &ObjectKey, uid: &str, spec: Value) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": KIND,
        "metadata": {
            "namespace": key.namespace, "name": key.name,
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": key.name, "uid": uid, "controller": true}],
        },
        "spec": spec,
    })
}

/// Reports whether a Plugin is owned by the ConfigMap of its name.
fn is_drop_in(plugin: &Object) -> bool {
    let owner = plugin.controller();
    owner.is_some_and(|owner| owner.kind == "ConfigMap" && owner.name == plugin.key().name)
}

/// Builds the Plugin's spec from a ConfigMap. If the ServiceAccount does not consent, the configuration is left out and
/// not parsed.
fn spec(config_map: &ConfigMap, is_consented: bool) -> Result<Value, String> {
    let none = BTreeMap::new();
    let annotations = config_map.metadata.annotations.as_ref().unwrap_or(&none);
    let name = config_map.metadata.name.as_deref().unwrap_or_default();
    let mut spec = json!({"source": {"configMap": {"name": name}}, "suspend": false});
    if let Some(account) = annotations.get(SERVICE_ACCOUNT) {
        spec["serviceAccountName"] = account.as_str().into();
    }
    if let Some(digest) = annotations.get(COMPONENT_DIGEST) {
        spec["digest"] = digest.as_str().into();
    }
    let is_true = |annotation: &str| match annotations.get(annotation).map(String::as_str) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => Err(format!("annotation {annotation} is {other:?}, not \"true\" or \"false\"")),
    };
    if is_true(SUSPEND)? {
        spec["suspend"] = true.into();
    }
    if is_true(WARM)? {
        spec["runtime"] = json!({"warm": {}});
    }
    let data = config_map.data.as_ref().filter(|_| is_consented).unwrap_or(&none);
    let config = config_key(data)?.map(|(key, text)| config_object(key, text)).transpose()?;
    if let Some(config) = config {
        spec["config"] = config.into();
    }
    Ok(spec)
}

#[async_trait]
impl Reconciler for DropInController {
    async fn reconcile(&self, request: &ReconcileRequest) -> Result<Action, Failure> {
        let key = &request.key;
        if !self.ownership.is_assigned(key) {
            self.applied.lock().remove(key);
            return Ok(Action::Done);
        }
        self.ownership.check().map_err(retry)?;
        match self.informers.config_maps.cache.get(key) {
            Some(found) if !found.deleting() && found.label(PLUGIN_LABEL) == Some("true") => {
                self.apply(key, &found).await?;
            }
            _ => self.remove(key).await.map_err(retry)?,
        }
        Ok(Action::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config_map(text: &str) -> ConfigMap {
        serde_json::from_str(text).expect("ConfigMap")
    }

    #[test]
    fn builds_spec_from_annotations_and_config_keys() {
        let config_map = config_map(
            r#"{"metadata":{"name":"a","annotations":{"operetta.dev/service-account":"sa","operetta.dev/suspend":"true","operetta.dev/warm":"true","operetta.dev/component-digest":"sha256:1"}},"data":{"config.yaml":"x: [1]"}}"#,
        );
        let mut expected = json!({"source":{"configMap":{"name":"a"}},"suspend":true,"serviceAccountName":"sa","digest":"sha256:1","config":{"x":[1]},"runtime":{"warm":{}}});
        assert_eq!(spec(&config_map, true), Ok(expected.clone()));
        expected.as_object_mut().expect("an object").remove("config");
        assert_eq!(spec(&config_map, false), Ok(expected));
    }

    #[test]
    fn reads_no_configuration_without_consent() {
        let both = r#"{"metadata":{"name":"a"},"data":{"config.json":"[[","config.yaml":"a: &a [*a]"}}"#;
        assert_eq!(spec(&config_map(both), false), Ok(json!({"source":{"configMap":{"name":"a"}},"suspend":false})));
        assert!(spec(&config_map(both), true).is_err());
    }

    #[test]
    fn spec_errors_name_the_key() {
        for (text, part) in [
            (r#"{"metadata":{"annotations":{"operetta.dev/suspend":"yes"}}}"#, "operetta.dev/suspend is \"yes\""),
            (r#"{"metadata":{"annotations":{"operetta.dev/warm":"1"}}}"#, "operetta.dev/warm is \"1\""),
            (r#"{"data":{"config.json":"{}","config.yaml":"{}"}}"#, "both"),
            (r#"{"data":{"config.json":"[]"}}"#, "config.json is not a JSON object"),
            (r#"{"data":{"config.yaml":"- a"}}"#, "config.yaml is not a YAML mapping"),
        ] {
            let error = spec(&config_map(text), true).expect_err(text);
            assert!(error.contains(part), "{error}");
        }
    }
}
