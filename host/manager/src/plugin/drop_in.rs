//! A ConfigMap that is dropped in: labelled `operetta.dev/plugin: "true"`, it gets a Plugin of its own name, which it
//! owns, if its namespace takes part. Its annotations and its keys `config.json` or `config.yaml` become that Plugin's spec.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ConfigMap;
use operetta_core::{
    controller::request::{Action, Failure, ReconcileRequest},
    gate::operation::{DeleteOptions, Operation, OperationAction, PatchBody, Reply, WriteOptions},
    object::{Object, ObjectKey, kind::GroupVersionKind},
    ports::{EventSink, EventType, ObjectApi, Reconciler},
    status::{ApiError, ErrorKind},
};
use serde_json::{Value, json};

use crate::manager::Host;
use crate::{
    authz::consent,
    plugin::{
        configuration::{config_key, config_object},
        crd::{API_VERSION, KIND},
        report::note,
        source::artifact::PLUGIN_LABEL,
    },
};

/// Annotation: the ServiceAccount as which the plugin acts.
pub const SERVICE_ACCOUNT: &str = "operetta.dev/service-account";
/// Annotation: `true` suspends the plugin.
pub const SUSPEND: &str = "operetta.dev/suspend";
/// Annotation: `true` keeps instances between reconciles.
pub const WARM: &str = "operetta.dev/warm";
/// The field manager of the Plugins made here.
const MANAGER: &str = "operetta-drop-in";

/// Core's [`Reconciler`] for labelled ConfigMaps.
pub struct DropInController {
    host: Arc<Host>,
    /// What was made last of each: its Plugin's own events need no other look at a mebibyte.
    made: Mutex<HashMap<ObjectKey, Made>>,
}

/// A Plugin that was made.
#[derive(PartialEq, Eq)]
struct Made {
    /// Uid and resourceVersion of the ConfigMap.
    config_map: (String, String),
    /// Uid and generation of the Plugin, when it was made: whoever changes its spec changes the generation, too.
    plugin: (String, i64),
}

impl Made {
    fn new(config_map: &Object, plugin: &Object) -> Self {
        Self {
            config_map: (config_map.uid().to_owned(), config_map.resource_version().to_owned()),
            plugin: (plugin.uid().to_owned(), plugin.generation()),
        }
    }
}

impl DropInController {
    /// Makes Plugins for this host.
    pub fn new(host: Arc<Host>) -> Arc<Self> {
        Arc::new(Self { host, made: Mutex::default() })
    }

    fn made(&self) -> MutexGuard<'_, HashMap<ObjectKey, Made>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the Plugin is what the ConfigMap of this metadata asks for, as far as anybody could have changed it.
    fn is_made(&self, key: &ObjectKey, config_map: &Object) -> bool {
        let plugin = self.host.plugins().cache.get(key).filter(|plugin| !plugin.deleting());
        plugin.is_some_and(|plugin| self.made().get(key) == Some(&Made::new(config_map, &plugin)))
    }

    /// The ConfigMap is gone, or is no plugin any more: so is the Plugin that it owned. Garbage collection would do
    /// this as well, later.
    async fn remove(&self, key: &ObjectKey) -> Result<(), ApiError> {
        self.made().remove(key);
        let Some(plugin) = self.host.plugins().cache.get(key).filter(|plugin| made_here(plugin)) else { return Ok(()) };
        let options = DeleteOptions { uid: Some(plugin.uid().to_owned()), ..DeleteOptions::default() };
        let action = OperationAction::Delete { key: key.clone(), options };
        match self.host.api.call(Operation { kind: plugin_kind(), action }).await {
            // Gone already, or another one by now.
            Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Conflict) => Ok(()),
            other => other.map(drop),
        }
    }

    async fn make(&self, key: &ObjectKey, metadata: &Object) -> Result<(), Failure> {
        let retry = |error: ApiError| Failure::Retry(error.to_string());
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let found = self.host.namespace(namespace).await.map_err(retry)?;
        let taking_part = consent::namespace_takes_part(namespace, found.as_deref());
        if let Err(problem) = taking_part {
            self.warn(key, metadata.uid().to_owned(), &problem.reason, problem.message);
            // The label of the namespace is what this waits for.
            return Ok(());
        }
        if self.is_made(key, metadata) {
            return Ok(());
        }
        let config_map = match self.host.config_map(key).await {
            Ok(config_map) => config_map,
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(retry(error)),
        };
        let uid = config_map.metadata.uid.clone().unwrap_or_default();
        if let Some(plugin) = self.host.plugins().cache.get(key)
            && plugin.controller().is_none_or(|owner| owner.uid != uid)
        {
            // An owner that is gone takes its Plugin with it; then this is tried again.
            if made_here(&plugin) {
                return Err(Failure::Retry(format!("Plugin {key} belongs to an earlier ConfigMap of its name")));
            }
            let text = format!("Plugin {:?} exists and was not made for this ConfigMap: rename one of them", key.name);
            self.warn(key, uid, "PluginExists", text.clone());
            return Err(Failure::Terminal(text));
        }
        let spec = spec(&config_map).map_err(|text| {
            self.warn(key, uid.clone(), "InvalidPluginConfig", text.clone());
            Failure::Terminal(text)
        })?;
        let plugin = json!({
            "apiVersion": API_VERSION, "kind": KIND,
            "metadata": {
                "namespace": key.namespace, "name": key.name,
                "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": key.name, "uid": uid, "controller": true}],
            },
            "spec": spec,
        });
        let options = WriteOptions { field_manager: Some(MANAGER.to_owned()), ..WriteOptions::default() };
        let body = PatchBody::Apply(plugin.to_string());
        let action = OperationAction::Patch { key: key.clone(), subresource: None, body, force: true, options };
        // The Plugin's event asks for it, and may be faster than the answer.
        self.host.hand_on(config_map);
        match self.host.api.call(Operation { kind: plugin_kind(), action }).await {
            Ok(Reply::Object(plugin) | Reply::Unchanged(plugin)) => {
                // What was read may be newer than the metadata: then its event comes, and it is made once more.
                self.made().insert(key.clone(), Made::new(metadata, &plugin));
                Ok(())
            }
            Ok(Reply::Page(_) | Reply::Done) => Ok(()),
            Err(error) if error.kind != ErrorKind::Invalid => Err(retry(error)),
            Err(error) => {
                self.warn(key, uid, "InvalidPlugin", error.status.message.clone());
                Err(Failure::Terminal(error.status.message))
            }
        }
    }

    fn warn(&self, key: &ObjectKey, uid: String, reason: &str, text: String) {
        let regarding = GroupVersionKind::new("v1", "ConfigMap");
        self.host.recorder.emit(note(regarding, key, Some(uid), EventType::Warning, reason, text));
    }
}

fn plugin_kind() -> GroupVersionKind {
    GroupVersionKind::new(API_VERSION, KIND)
}

/// Whether a Plugin is owned by the ConfigMap of its name.
fn made_here(plugin: &Object) -> bool {
    let owner = plugin.controller();
    owner.is_some_and(|owner| owner.kind == "ConfigMap" && owner.name == plugin.key().name)
}

/// The Plugin's spec that a ConfigMap asks for.
fn spec(config_map: &ConfigMap) -> Result<Value, String> {
    let none = BTreeMap::new();
    let annotations = config_map.metadata.annotations.as_ref().unwrap_or(&none);
    let name = config_map.metadata.name.as_deref().unwrap_or_default();
    let mut spec = json!({"source": {"configMap": {"name": name}}, "suspend": false});
    if let Some(account) = annotations.get(SERVICE_ACCOUNT) {
        spec["serviceAccountName"] = account.as_str().into();
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
    let data = config_map.data.as_ref().unwrap_or(&none);
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
        match self.host.labelled_config_maps().cache.get(key) {
            Some(found) if !found.deleting() && found.label(PLUGIN_LABEL) == Some("true") => {
                self.make(key, &found).await?;
            }
            _ => self.remove(key).await.map_err(|error| Failure::Retry(error.to_string()))?,
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
    fn annotations_and_config_keys_become_the_spec() {
        let made = spec(&config_map(
            r#"{"metadata":{"name":"a","annotations":{"operetta.dev/service-account":"sa","operetta.dev/suspend":"true","operetta.dev/warm":"true"}},"data":{"config.yaml":"x: [1]"}}"#,
        ));
        let expected = json!({"source":{"configMap":{"name":"a"}},"suspend":true,"serviceAccountName":"sa","config":{"x":[1]},"runtime":{"warm":{}}});
        assert_eq!(made, Ok(expected));
    }

    #[test]
    fn what_cannot_become_a_spec_is_named() {
        for (text, part) in [
            (r#"{"metadata":{"annotations":{"operetta.dev/suspend":"yes"}}}"#, "operetta.dev/suspend is \"yes\""),
            (r#"{"metadata":{"annotations":{"operetta.dev/warm":"1"}}}"#, "operetta.dev/warm is \"1\""),
            (r#"{"data":{"config.json":"{}","config.yaml":"{}"}}"#, "both"),
            (r#"{"data":{"config.json":"[]"}}"#, "config.json is no JSON object"),
            (r#"{"data":{"config.yaml":"- a"}}"#, "config.yaml is no YAML mapping"),
        ] {
            let error = spec(&config_map(text)).expect_err(text);
            assert!(error.contains(part), "{error}");
        }
    }
}
