//! The controller of drop-in ConfigMaps. A ConfigMap labelled `operetta.dev/plugin: "true"`, in a
//! namespace that is opted in, owns a Plugin of the same name. Its annotations and its keys
//! `config.json` or `config.yaml` become the Plugin's spec. The configuration isn't parsed before
//! the ServiceAccount named by the annotations has consented to the Plugin.

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
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    authz::consent,
    context::Context,
    crash_journal::{InFlight, Step, Work},
    events::Regarding,
    plugin::{
        config::text::{config_key, config_object},
        crash_guard::{CrashGuard, Postponed},
        crd::{API_VERSION, KIND},
        host_informers::HostInformers,
        ownership::Ownership,
        queue::PluginQueue,
        source::{artifact::PLUGIN_LABEL, recent::RecentConfigMap},
        teardown,
    },
};

pub use operetta_api::annotations::{COMPONENT_DIGEST, SERVICE_ACCOUNT, SUSPEND, WARM};

/// The field manager of Plugins created here.
const MANAGER: &str = "operetta-drop-in";

/// Reconciles labelled ConfigMaps.
pub struct DropInController {
    context: Arc<Context>,
    queue: PluginQueue,
    informers: Arc<HostInformers>,
    recent: Arc<RecentConfigMap>,
    guard: Arc<CrashGuard>,
    ownership: Arc<Ownership>,
    /// What was last applied for each ConfigMap. It saves reading the ConfigMap again after the
    /// resulting event of the Plugin.
    applied: Mutex<HashMap<ObjectKey, Applied>>,
}

/// The versions of a ConfigMap and of the Plugin applied for it.
#[derive(PartialEq, Eq)]
struct Applied {
    config_map_uid: String,
    config_map_version: String,
    plugin_uid: String,
    /// Changes when the Plugin's spec does.
    plugin_generation: i64,
    /// True if the ServiceAccount has consented, so that the spec includes the configuration.
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
    /// Creates the reconciler and its queue.
    pub fn new(
        context: Arc<Context>,
        informers: Arc<HostInformers>,
        recent: Arc<RecentConfigMap>,
        guard: Arc<CrashGuard>,
        ownership: Arc<Ownership>,
    ) -> Arc<Self> {
        let queue = PluginQueue::new();
        Arc::new(Self {
            context,
            queue,
            informers,
            recent,
            guard,
            ownership,
            applied: Mutex::default(),
        })
    }

    /// Returns the queue of ConfigMaps to reconcile.
    pub fn queue(&self) -> PluginQueue {
        self.queue.clone()
    }

    /// Reports whether the Plugin was applied for this version of the ConfigMap and hasn't changed
    /// since.
    fn is_applied(&self, key: &ObjectKey, config_map: &Object, is_consented: bool) -> bool {
        let plugin = self
            .informers
            .plugins
            .cache
            .get(key)
            .filter(|plugin| !plugin.deleting());
        plugin.is_some_and(|plugin| {
            self.applied.lock().get(key) == Some(&Applied::new(config_map, &plugin, is_consented))
        })
    }

    /// Deletes the Plugin of a ConfigMap that was deleted or lost its label. Garbage collection
    /// would do so, too, but later. If somebody has set `spec.digest`, the Plugin is only
    /// suspended: a newly created one wouldn't have the digest and would run any code.
    async fn remove(&self, key: &ObjectKey) -> Result<(), ApiError> {
        self.applied.lock().remove(key);
        let cached = self.informers.plugins.cache.get(key);
        if !cached.is_some_and(|plugin| is_drop_in(&plugin)) {
            return Ok(());
        }

        // The cache may not have the digest yet.
        let plugin = match self.context.cluster.get(&plugin_kind(), key).await {
            Ok(plugin) if is_drop_in(&plugin) && !plugin.deleting() => plugin,
            Err(error) if error.kind != ErrorKind::NotFound => return Err(error),
            _ => return Ok(()),
        };
        // A namespace deletes its Plugins by itself. A suspended one could not clean up.
        let namespace = key.namespace.as_deref().unwrap_or_default();
        if teardown::is_terminating(&self.context.cluster, namespace).await? {
            return Ok(());
        }
        if plugin.scalar_at(".spec.digest").is_some()
            && foreign_manager(&plugin, MANAGER, "digest").is_some()
        {
            return self.suspend(key).await;
        }

        // Delete only this version, and retry after a conflict: somebody may just have set the
        // digest.
        let options = DeleteOptions {
            uid: Some(plugin.uid().to_owned()),
            resource_version: Some(plugin.resource_version().to_owned()),
            ..DeleteOptions::default()
        };
        let delete = Delete {
            kind: plugin_kind(),
            key: key.clone(),
            options,
        };

        match self.context.cluster.api.delete(delete).await {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// Suspends a Plugin. Labelling its ConfigMap again resumes it.
    async fn suspend(&self, key: &ObjectKey) -> Result<(), ApiError> {
        let action = WriteAction::Patch {
            key: key.clone(),
            subresource: None,
            body: PatchBody::Merge(json!({"spec": {"suspend": true}}).to_string()),
            force: false,
        };
        let options = WriteOptions {
            field_manager: Some(MANAGER.to_owned()),
            ..WriteOptions::default()
        };

        let write = Write {
            kind: plugin_kind(),
            action,
            options,
        };

        match self.context.cluster.api.write(write).await {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
            other => other.map(drop),
        }
    }

    /// Applies the Plugin for the labelled ConfigMap with this metadata.
    async fn apply(&self, key: &ObjectKey, metadata: &Object) -> Result<(), Failure> {
        if !self.queue.may_apply_changes(key) {
            return Ok(());
        }
        let namespace = key.namespace.as_deref().unwrap_or_default();

        let checked = self.informers.check_namespace(namespace).await;
        if let Err(problem) = checked.map_err(retry)? {
            // The cache of namespaces may be older than the ConfigMap.
            let class = self.informers.class(namespace).await.map_err(retry)?;
            if !self.ownership.is_responsible_for(class.as_deref()).await {
                return Ok(());
            }
            self.warn(
                key,
                metadata.uid().to_owned(),
                problem.reason,
                problem.message,
            );
            // Labelling the namespace triggers the next reconcile.
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

        let in_flight = self.begin_parsing(
            key,
            &uid,
            config_map
                .metadata
                .resource_version
                .as_deref()
                .unwrap_or_default(),
        )?;
        let spec = spec(&config_map, is_consented);
        drop(in_flight);

        let spec = spec.map_err(|text| {
            self.warn(
                key,
                uid.clone(),
                reasons::INVALID_PLUGIN_CONFIG,
                text.clone(),
            );
            Failure::Terminal(text)
        })?;
        let mut plugin = plugin(key, &uid, spec);
        self.check_digest(key, &uid, &mut plugin).await?;
        let mut changed = self.changed_by_others(key, &plugin["spec"]).await?;
        let is_stopped = changed.iter().any(|field| field.name == "suspend");
        if let Some(spec) = plugin["spec"].as_object_mut()
            && spec["suspend"] == false
            && is_stopped
        {
            // An emergency stop lasts until it is lifted the same way.
            spec.remove("suspend");
            changed.retain(|field| field.name != "suspend");
        }

        let action = WriteAction::Patch {
            key: key.clone(),
            subresource: None,
            body: PatchBody::Apply(plugin.to_string()),
            force: true,
        };
        let options = WriteOptions {
            field_manager: Some(MANAGER.to_owned()),
            ..WriteOptions::default()
        };

        // Before the write: the Plugin's event, for which the ConfigMap is kept, may arrive before
        // the response.
        self.recent.put(config_map);
        let write = Write {
            kind: plugin_kind(),
            action,
            options,
        };

        match self.context.cluster.api.write(write).await {
            Ok(written) => {
                self.say_who_is_overruled(key, metadata, &changed);
                // If the ConfigMap is newer than the metadata, its event is still to come, and it
                // is applied again.
                self.applied.lock().insert(
                    key.clone(),
                    Applied::new(metadata, &written.into_object(), is_consented),
                );
                Ok(())
            }
            Err(error) if error.kind != ErrorKind::Invalid => Err(retry(error)),
            Err(error) => {
                self.warn(
                    key,
                    uid,
                    reasons::INVALID_PLUGIN,
                    error.status.message.clone(),
                );
                Err(Failure::Terminal(error.status.message))
            }
        }
    }

    /// Reports whether the ServiceAccount named by a ConfigMap's annotation consents to the Plugin.
    async fn is_consented(&self, key: &ObjectKey, metadata: &Object) -> Result<bool, ApiError> {
        let name = metadata.along(["metadata", "annotations", SERVICE_ACCOUNT]);
        let name = name.and_then(|text| serde_json::from_str::<String>(text).ok());
        let Ok(account) = consent::named_account(key, name.as_deref()) else {
            return Ok(false);
        };

        let found = match self.informers.service_account(&account).await {
            // The annotation isn't a valid name; the API server will refuse the Plugin.
            Err(error) if error.kind == ErrorKind::BadRequest => return Ok(false),
            found => found?,
        };
        Ok(consent::check_account(&account, found.as_deref(), &key.name).is_ok())
    }

    /// Records in the crash journal that a ConfigMap is being parsed. Refuses a version if the host
    /// has crashed on it twice in a row.
    fn begin_parsing(
        &self,
        key: &ObjectKey,
        uid: &str,
        resource_version: &str,
    ) -> Result<InFlight, Failure> {
        let version = format!("{uid}/{resource_version}");
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let work = Work::new(Step::ParseDropIn, namespace, &key.name, &version, "");
        self.guard.begin(work).map_err(|postponed| match postponed {
            Postponed::Busy => Failure::Retry(
                "waiting for another plugin, during whose load the host crashed".to_owned(),
            ),
            Postponed::Suspected(text) => Failure::Retry(text),
            Postponed::Quarantined(text) => {
                self.warn(
                    key,
                    uid.to_owned(),
                    reasons::CRASH_QUARANTINED,
                    text.clone(),
                );
                Failure::Terminal(text)
            }
        })
    }

    /// Checks that the ConfigMap owns the Plugin of the same name, if there is one.
    fn check_owner(&self, key: &ObjectKey, uid: &str) -> Result<(), Failure> {
        let Some(plugin) = self.informers.plugins.cache.get(key) else {
            return Ok(());
        };
        if plugin.controller().is_some_and(|owner| owner.uid == uid) {
            return Ok(());
        }

        // Garbage collection deletes the former owner's Plugin, and then a retry succeeds.
        if is_drop_in(&plugin) {
            return Err(Failure::Retry(format!(
                "Plugin {key} is owned by an earlier ConfigMap of the same name"
            )));
        }

        let text = format!(
            "Plugin {:?} already exists and is not owned by this ConfigMap: rename one of them",
            key.name
        );
        self.warn(key, uid.to_owned(), reasons::PLUGIN_EXISTS, text.clone());

        Err(Failure::Terminal(text))
    }

    /// Checks that the ConfigMap's annotation doesn't overwrite a digest somebody else has set on
    /// the Plugin. Makes the apply conditional on the version of the Plugin that was checked.
    async fn check_digest(
        &self,
        key: &ObjectKey,
        uid: &str,
        applied: &mut Value,
    ) -> Result<(), Failure> {
        let Some(wanted) = applied["spec"]["digest"].as_str() else {
            return Ok(());
        };
        let found = match self.context.cluster.get(&plugin_kind(), key).await {
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(()),
            found => found.map_err(retry)?,
        };
        let pinned = found
            .scalar_at(".spec.digest")
            .filter(|pinned| pinned != wanted);
        if let Some((pinned, manager)) = pinned.zip(foreign_manager(&found, MANAGER, "digest")) {
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

    /// Returns the fields of the Plugin's spec that the ConfigMap decides and others have changed.
    async fn changed_by_others(
        &self,
        key: &ObjectKey,
        wanted: &Value,
    ) -> Result<Vec<ForeignField>, Failure> {
        let differs = |plugin: &Object, name: &str| {
            let found = plugin.at(&format!(".spec.{name}"));
            let found = found.and_then(|text| serde_json::from_str::<Value>(text).ok());
            found.is_some_and(|found| found != wanted[name])
        };
        let decided = || wanted.as_object().into_iter().flat_map(|spec| spec.keys());
        let cached = self.informers.plugins.cache.get(key);
        if !cached.is_some_and(|plugin| decided().any(|name| differs(&plugin, name))) {
            return Ok(Vec::new());
        }

        // The cache has no managed fields.
        let plugin = match self.context.cluster.get(&plugin_kind(), key).await {
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(Vec::new()),
            found => found.map_err(retry)?,
        };
        let foreign = decided().filter(|name| differs(&plugin, name)).map(|name| {
            let manager = foreign_manager(&plugin, MANAGER, name)?;
            Some(ForeignField {
                name: name.clone(),
                manager,
            })
        });
        Ok(foreign.flatten().collect())
    }

    /// Tells whoever changed a Plugin that its ConfigMap decides.
    fn say_who_is_overruled(&self, key: &ObjectKey, config_map: &Object, changed: &[ForeignField]) {
        for ForeignField { name, manager } in changed {
            let instead = decided_by(name);
            let text = format!(
                "{manager} has set spec.{name} of Plugin {key}, which was put back: the ConfigMap decides that, change {instead}"
            );
            let uid = config_map.uid().to_owned();
            self.warn(key, uid, reasons::PLUGIN_PUT_BACK, text);
        }
    }

    fn warn(&self, key: &ObjectKey, uid: String, reason: Reason, text: String) {
        let regarding = Regarding {
            kind: GroupVersionKind::new("v1", "ConfigMap"),
            key: key.clone(),
            uid: Some(uid),
        };
        self.context
            .cluster
            .recorder
            .emit(regarding.warning(reason, text));
    }
}

fn retry(error: ApiError) -> Failure {
    Failure::Retry(error.to_string())
}

fn plugin_kind() -> GroupVersionKind {
    GroupVersionKind::new(API_VERSION, KIND)
}

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

/// Reports whether a Plugin is owned by the ConfigMap with the same name.
pub(super) fn is_drop_in(plugin: &Object) -> bool {
    let owner = plugin.controller();
    owner.is_some_and(|owner| owner.kind == "ConfigMap" && owner.name == plugin.key().name)
}

/// Builds the Plugin's spec from a ConfigMap. Without the ServiceAccount's consent, the
/// configuration is left out and not parsed.
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
        Some(other) => Err(format!(
            "annotation {annotation} is {other:?}, not \"true\" or \"false\""
        )),
    };
    if is_true(SUSPEND)? {
        spec["suspend"] = true.into();
    }
    if is_true(WARM)? {
        spec["runtime"] = json!({"warm": {}});
    }

    let data = config_map
        .data
        .as_ref()
        .filter(|_| is_consented)
        .unwrap_or(&none);
    let config = config_key(data)?
        .map(|(key, text)| config_object(key, text))
        .transpose()?;
    if let Some(config) = config {
        spec["config"] = config.into();
    }

    Ok(spec)
}

#[async_trait]
impl Reconciler for DropInController {
    async fn reconcile(&self, request: &ReconcileRequest) -> Result<Action, Failure> {
        let key = &request.key;
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let class = self.informers.cached_class(namespace).await;
        if !self.ownership.is_assigned(key)
            || !self.ownership.is_responsible_for(class.as_deref()).await
        {
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

/// An entry in `metadata.managedFields`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Managed {
    manager: String,
    fields_v1: Value,
}

/// A field of a Plugin's spec, and the manager other than us that set it.
struct ForeignField {
    name: String,
    manager: String,
}

/// Says what to change in a ConfigMap to change a field of its Plugin's spec.
fn decided_by(field: &str) -> String {
    let annotation = match field {
        "suspend" => SUSPEND,
        "serviceAccountName" => SERVICE_ACCOUNT,
        "digest" => COMPONENT_DIGEST,
        "runtime" => WARM,
        "config" => return "its key config.yaml or config.json".to_owned(),
        _ => return "its code".to_owned(),
    };
    format!("its annotation {annotation}")
}

/// Returns a field manager other than `own` that has set a field of the spec. The Plugin must have
/// been read with its managed fields.
fn foreign_manager(plugin: &Object, own: &str, field: &str) -> Option<String> {
    let managed = plugin
        .at(".metadata.managedFields")
        .and_then(|text| serde_json::from_str::<Vec<Managed>>(text).ok());
    let others = managed
        .unwrap_or_default()
        .into_iter()
        .filter(|entry| entry.manager != own);
    let path = format!("/f:spec/f:{field}");
    let mut setting = others.filter(|entry| entry.fields_v1.pointer(&path).is_some());
    setting.next().map(|entry| entry.manager)
}

#[cfg(test)]
mod tests {
    use operetta_core::object::ManagedFields;

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

        expected
            .as_object_mut()
            .expect("an object")
            .remove("config");
        assert_eq!(spec(&config_map, false), Ok(expected));
    }

    #[test]
    fn reads_no_configuration_without_consent() {
        let both =
            r#"{"metadata":{"name":"a"},"data":{"config.json":"[[","config.yaml":"a: &a [*a]"}}"#;
        assert_eq!(
            spec(&config_map(both), false),
            Ok(json!({"source":{"configMap":{"name":"a"}},"suspend":false}))
        );
        assert!(spec(&config_map(both), true).is_err());
    }

    #[test]
    fn spec_errors_name_the_key() {
        for (text, part) in [
            (
                r#"{"metadata":{"annotations":{"operetta.dev/suspend":"yes"}}}"#,
                "operetta.dev/suspend is \"yes\"",
            ),
            (
                r#"{"metadata":{"annotations":{"operetta.dev/warm":"1"}}}"#,
                "operetta.dev/warm is \"1\"",
            ),
            (
                r#"{"data":{"config.json":"{}","config.yaml":"{}"}}"#,
                "both",
            ),
            (
                r#"{"data":{"config.json":"[]"}}"#,
                "config.json is not a JSON object",
            ),
            (
                r#"{"data":{"config.yaml":"- a"}}"#,
                "config.yaml is not a YAML mapping",
            ),
        ] {
            let error = spec(&config_map(text), true).expect_err(text);
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn digest_belongs_to_the_manager_that_set_it() {
        let digest = json!({"f:spec": {"f:digest": {}}});
        let other = json!({"f:spec": {"f:suspend": {}}});

        for (managed, expected) in [
            (json!([]), None),
            (
                json!([{"manager": "own", "fieldsV1": digest}, {"manager": "kubectl", "fieldsV1": other}]),
                None,
            ),
            (
                json!([{"manager": "own", "fieldsV1": digest}, {"manager": "kubectl", "fieldsV1": digest}]),
                Some("kubectl"),
            ),
        ] {
            let text = json!({
                "apiVersion": "operetta.dev/v1alpha1", "kind": "Plugin",
                "metadata": {"name": "a", "namespace": "n", "managedFields": managed},
            });
            let kind = GroupVersionKind::new("operetta.dev/v1alpha1", "Plugin");
            let plugin = Object::from_json(&text.to_string(), &kind, ManagedFields::Keep)
                .expect("an object");
            assert_eq!(
                foreign_manager(&plugin, "own", "digest").as_deref(),
                expected,
                "{text}"
            );
        }
    }
}
