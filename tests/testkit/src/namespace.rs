//! A test's own namespace, with methods for the usual steps of a test.

use k8s_openapi::ByteString;
use kube::{
    Api, Client,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
        PostParams,
    },
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{ControlPlane, eventually};

/// A kind by apiVersion and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(pub &'static str, pub &'static str);

/// The kinds that tests use.
#[allow(missing_docs, reason = "each constant is the kind of its name")]
pub mod kinds {
    use super::Kind;

    pub const CONFIG_MAP: Kind = Kind("v1", "ConfigMap");
    pub const POD: Kind = Kind("v1", "Pod");
    pub const SECRET: Kind = Kind("v1", "Secret");
    pub const EVENT: Kind = Kind("v1", "Event");
    pub const SERVICE_ACCOUNT: Kind = Kind("v1", "ServiceAccount");
    pub const DEPLOYMENT: Kind = Kind("apps/v1", "Deployment");
    pub const PLUGIN: Kind = Kind("operetta.dev/v1alpha1", "Plugin");
}

/// A namespace of one test. It exists until the control plane ends.
pub struct TestNamespace<'a> {
    control_plane: &'a ControlPlane,
    client: Client,
    name: String,
}

/// A drop-in ConfigMap.
#[derive(Clone, Debug)]
pub struct DropIn {
    name: String,
    files: Vec<(String, Vec<u8>)>,
    service_account: String,
    config: Option<Value>,
}

/// A condition of a Plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `True` or `False`.
    pub status: String,
    /// One word.
    pub reason: String,
    /// One sentence.
    pub message: String,
    /// The generation of the Plugin for which the host wrote the condition.
    pub observed_generation: Option<i64>,
}

impl Condition {
    /// Reports whether the condition was written for the Plugin's current spec.
    fn is_current(&self, plugin: &Value) -> bool {
        self.observed_generation == plugin["metadata"]["generation"].as_i64()
    }
}

impl DropIn {
    /// Creates a drop-in of one component, `NAME.wasm`. It acts as the ServiceAccount `plugin`,
    /// which each test's namespace has.
    pub fn new(name: &str, wasm: impl Into<Vec<u8>>) -> Self {
        let files = vec![(format!("{name}.wasm"), wasm.into())];
        Self {
            name: name.to_owned(),
            files,
            service_account: "plugin".to_owned(),
            config: None,
        }
    }

    /// Creates a drop-in of one compressed component, `NAME.wasm.zst`.
    ///
    /// # Panics
    /// Panics if the compression fails.
    pub fn compressed(name: &str, wasm: &[u8]) -> Self {
        let compressed = zstd::encode_all(wasm, 3).expect("compressed");
        Self {
            files: vec![(format!("{name}.wasm.zst"), compressed)],
            ..Self::new(name, vec![])
        }
    }

    /// Creates a drop-in without files; see [`DropIn::file`].
    pub fn empty(name: &str) -> Self {
        Self {
            files: vec![],
            ..Self::new(name, vec![])
        }
    }

    /// Adds a file.
    pub fn file(mut self, key: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.push((key.to_owned(), bytes.into()));
        self
    }

    /// Sets the plugin's configuration.
    pub fn config(mut self, config: Value) -> Self {
        self.config = Some(config);
        self
    }

    /// Sets the ServiceAccount that the plugin acts as.
    pub fn service_account(mut self, name: &str) -> Self {
        self.service_account = name.to_owned();
        self
    }

    /// Returns the ConfigMap.
    pub fn object(&self) -> Value {
        let files = self
            .files
            .iter()
            .map(|(key, bytes)| (key.clone(), json!(ByteString(bytes.clone()))));

        let mut object = json!({
            "metadata": {
                "name": self.name,
                "labels": {"operetta.dev/plugin": "true"},
                "annotations": {"operetta.dev/service-account": self.service_account},
            },
            "binaryData": files.collect::<serde_json::Map<_, _>>(),
        });

        if let Some(config) = &self.config {
            object["data"] = json!({"config.json": config.to_string()});
        }

        object
    }

    /// Returns a ConfigMap with the code alone, for a Plugin's `spec.source`. It is not a drop-in.
    pub fn code(&self) -> Value {
        let mut object = self.object();
        object["metadata"] = json!({"name": self.name});
        object
    }

    /// Splits the single file into pieces of at most `bytes` and returns their ConfigMaps, the
    /// first one last.
    ///
    /// # Panics
    /// Panics if there is no file.
    pub fn split(&self, bytes: usize) -> Vec<Value> {
        let (key, file) = &self.files[0];
        let pieces: Vec<&[u8]> = file.chunks(bytes).collect();
        let digest = digest(file);

        let mut first = self.object();
        let annotations = &mut first["metadata"]["annotations"];
        annotations["operetta.dev/parts"] = pieces.len().to_string().into();
        annotations["operetta.dev/digest"] = digest.clone().into();
        first["binaryData"][key] = json!(ByteString(pieces[0].to_vec()));

        let rest = pieces.iter().enumerate().skip(1).map(|(at, piece)| {
            json!({
                "metadata": {
                    "name": format!("{}-part-{}", self.name, at + 1),
                    "labels": {"operetta.dev/part-of": self.name},
                    "annotations": {"operetta.dev/part": (at + 1).to_string(), "operetta.dev/digest": digest},
                },
                "binaryData": {key: ByteString(piece.to_vec())},
            })
        });

        rest.chain([first]).collect()
    }
}

impl<'a> TestNamespace<'a> {
    pub(crate) async fn create(control_plane: &'a ControlPlane, name: String) -> Self {
        let opened = Self::open(control_plane, name).await;
        let kind = Kind("v1", "Namespace");
        let namespaces: Api<DynamicObject> = Api::all_with(opened.client.clone(), &resource(kind));
        // The opt-in of a cluster administrator.
        let labels = json!({"operetta.dev/plugins": "enabled"});
        let namespace = object(
            kind,
            json!({"metadata": {"name": opened.name, "labels": labels}}),
        );

        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .expect("a namespace");

        opened.consenting("plugin").await;
        opened
    }

    pub(crate) async fn open(control_plane: &'a ControlPlane, name: String) -> Self {
        let client = control_plane.client().await;
        Self {
            control_plane,
            client,
            name,
        }
    }

    /// Returns the name of the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the control plane of the namespace.
    pub fn control_plane(&self) -> &'a ControlPlane {
        self.control_plane
    }

    /// Creates a ServiceAccount that consents to every plugin, unless one of that name exists.
    pub async fn consenting(&self, service_account: &str) {
        let annotations = json!({"operetta.dev/allow-plugins": "*"});

        let account = json!({"metadata": {"name": service_account, "annotations": annotations}});

        match self
            .api(kinds::SERVICE_ACCOUNT)
            .create(
                &PostParams::default(),
                &object(kinds::SERVICE_ACCOUNT, account),
            )
            .await
        {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            created => drop(created.expect("a ServiceAccount")),
        }
    }

    /// Grants a ServiceAccount all permissions in this namespace, and creates it as
    /// [`TestNamespace::consenting`] does.
    pub async fn allow_all(&self, service_account: &str) {
        self.consenting(service_account).await;

        let binding = json!({
            "metadata": {"name": format!("{service_account}-may-do-all")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "namespace": self.name, "name": service_account}],
        });
        self.create_object(Kind("rbac.authorization.k8s.io/v1", "RoleBinding"), binding)
            .await;
    }

    /// Creates an object in this namespace and returns it as stored.
    ///
    /// # Panics
    /// Panics if the API server refuses it.
    pub async fn create_object(&self, kind: Kind, value: Value) -> Value {
        let created = self
            .api(kind)
            .create(&PostParams::default(), &object(kind, value))
            .await;
        json!(created.unwrap_or_else(|error| panic!("failed to create {}: {error}", kind.1)))
    }

    /// Creates an object that the API server refuses, and returns its message.
    ///
    /// # Panics
    /// Panics if the API server takes it.
    pub async fn create_refused(&self, kind: Kind, value: Value) -> String {
        let created = self
            .api(kind)
            .create(&PostParams::default(), &object(kind, value))
            .await;
        match created {
            Ok(created) => panic!("{} was not refused: {}", kind.1, json!(created)),
            Err(error) => error.to_string(),
        }
    }

    /// Reads an object; None when it does not exist.
    pub async fn get(&self, kind: Kind, name: &str) -> Option<Value> {
        let found = self.api(kind).get_opt(name).await;
        found
            .unwrap_or_else(|error| panic!("failed to get {} {name}: {error}", kind.1))
            .map(|found| json!(found))
    }

    /// Reads all objects of a kind.
    pub async fn list(&self, kind: Kind) -> Vec<Value> {
        let found = self.api(kind).list(&ListParams::default()).await;

        let found = found.unwrap_or_else(|error| panic!("failed to list {}: {error}", kind.1));
        found
            .items
            .into_iter()
            .map(|object| json!(object))
            .collect()
    }

    /// Merges a patch into an object and returns it as stored.
    ///
    /// # Panics
    /// Panics if the API server refuses it.
    pub async fn patch(&self, kind: Kind, name: &str, patch: Value) -> Value {
        let patched = self
            .api(kind)
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        json!(patched.unwrap_or_else(|error| panic!("failed to patch {} {name}: {error}", kind.1)))
    }

    /// Deletes an object.
    ///
    /// # Panics
    /// Panics if it does not exist.
    pub async fn delete(&self, kind: Kind, name: &str) {
        let deleted = self.api(kind).delete(name, &DeleteParams::default()).await;
        deleted.unwrap_or_else(|error| panic!("failed to delete {} {name}: {error}", kind.1));
    }

    /// Deletes all objects of a kind.
    ///
    /// # Panics
    /// When the API server refuses it.
    pub async fn delete_all(&self, kind: Kind) {
        let deleted = self
            .api(kind)
            .delete_collection(&DeleteParams::default(), &ListParams::default())
            .await;
        deleted.unwrap_or_else(|error| panic!("deletion of all {}: {error}", kind.1));
    }

    /// Waits until `check` accepts an object, and returns its result. An error of `check` says what
    /// is missing.
    pub async fn until<T>(
        &self,
        kind: Kind,
        name: &str,
        mut check: impl FnMut(&Value) -> Result<T, String>,
    ) -> T {
        eventually(&format!("{} {name} in {}", kind.1, self.name), async || {
            let found = self.get(kind, name).await.ok_or("it does not exist")?;
            check(&found).map_err(|missing| format!("{missing}: {found}"))
        })
        .await
    }

    /// Waits until an object does not exist.
    pub async fn until_gone(&self, kind: Kind, name: &str) {
        eventually(
            &format!("{} {name} in {} is gone", kind.1, self.name),
            async || {
                self.get(kind, name)
                    .await
                    .map_or(Ok(()), |found| Err(found.to_string()))
            },
        )
        .await;
    }

    /// Waits for an Event with this reason about an object, and returns its message.
    pub async fn until_event(&self, kind: Kind, name: &str, reason: &str) -> String {
        eventually(
            &format!("an Event {reason} about {} {name} in {}", kind.1, self.name),
            async || {
                let events = self.list(kinds::EVENT).await;

                let about = |event: &&Value| {
                    let object = &event["involvedObject"];
                    object["kind"] == kind.1 && object["name"] == name && event["reason"] == reason
                };

                let found = events
                    .iter()
                    .find(about)
                    .and_then(|event| event["message"].as_str());

                found.map(str::to_owned).ok_or_else(|| {
                    let others = events
                        .iter()
                        .map(|event| format!("{}: {}", event["reason"], event["message"]));
                    others.collect::<Vec<_>>().join("\n")
                })
            },
        )
        .await
    }

    /// Creates a ConfigMap that the fixtures reconcile.
    pub async fn create_touchable(&self, name: &str) {
        let metadata = json!({"name": name, "labels": {"operetta-fixture": "true"}});
        self.create_object(kinds::CONFIG_MAP, json!({"metadata": metadata}))
            .await;
    }

    /// Waits until a fixture has written a value into a ConfigMap.
    pub async fn until_touched(&self, name: &str, value: &str) {
        self.until(
            kinds::CONFIG_MAP,
            name,
            |found| match found["data"]["touched"].as_str() {
                Some(now) if now == value => Ok(()),
                now => Err(format!("touched by {now:?}, not {value}")),
            },
        )
        .await;
    }

    /// Creates a drop-in ConfigMap and returns it as stored.
    pub async fn drop_in(&self, drop_in: &DropIn) -> Value {
        self.create_object(kinds::CONFIG_MAP, drop_in.object())
            .await
    }

    /// Returns a condition of a Plugin; None while it has none of that type.
    pub async fn plugin_condition(&self, plugin: &str, type_: &str) -> Option<Condition> {
        condition(&self.get(kinds::PLUGIN, plugin).await?, type_)
    }

    /// Waits until a Plugin's condition has this status and reason for the current generation, and
    /// returns its message.
    pub async fn until_condition(
        &self,
        plugin: &str,
        type_: &str,
        status: &str,
        reason: &str,
    ) -> String {
        self.until(kinds::PLUGIN, plugin, |found| {
            match condition(found, type_) {
                Some(now)
                    if now.status == status && now.reason == reason && now.is_current(found) =>
                {
                    Ok(now.message)
                }
                other => Err(format!("{type_} is {other:?}, not {status} for {reason}")),
            }
        })
        .await
    }

    /// Waits until a Plugin is degraded for a reason, with these words in the message, which it
    /// returns. Checks that the message is one sentence and that `status.reason` has the same
    /// reason.
    pub async fn until_degraded(&self, plugin: &str, reason: &str, words: &[&str]) -> String {
        // An earlier message may lack the words, because the host knew less then.
        let check = |found: &Value| match condition(found, "Degraded") {
            Some(now) if now.status == "True" && now.reason == reason => {
                let missing = words.iter().find(|word| !now.message.contains(**word));
                missing.map_or(Ok(now.message.clone()), |word| {
                    Err(format!("{word:?} is missing in: {}", now.message))
                })
            }
            other => Err(format!("Degraded is {other:?}, not True for {reason}")),
        };

        let message = self.until(kinds::PLUGIN, plugin, check).await;
        assert!(
            !message.is_empty() && !message.contains('\n'),
            "not one sentence: {message:?}"
        );

        self.until(
            kinds::PLUGIN,
            plugin,
            |found| match found["status"]["reason"].as_str() {
                Some(now) if now == reason => Ok(()),
                other => Err(format!("status.reason is {other:?}, not {reason}")),
            },
        )
        .await;

        message
    }

    /// Waits until a Plugin is degraded for any reason, with these words in the message, which it
    /// returns.
    pub async fn until_degraded_by(&self, plugin: &str, words: &[&str]) -> String {
        self.until(kinds::PLUGIN, plugin, |found| {
            match condition(found, "Degraded") {
                Some(now)
                    if now.status == "True"
                        && words.iter().all(|word| now.message.contains(word)) =>
                {
                    Ok(now.message)
                }
                other => Err(format!("Degraded is {other:?}, not True with {words:?}")),
            }
        })
        .await
    }

    /// Runs kubectl in this namespace and returns its standard output. Blocks.
    ///
    /// # Panics
    /// Panics if kubectl fails.
    pub fn kubectl(&self, args: &[&str]) -> String {
        self.control_plane
            .kubectl(&[&["-n", &self.name], args].concat())
    }

    fn api(&self, kind: Kind) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.name, &resource(kind))
    }
}

/// Returns the digest of these bytes as the host writes it.
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .fold("sha256:".to_owned(), |text, byte| {
            format!("{text}{byte:02x}")
        })
}

fn resource(Kind(api_version, kind): Kind) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

fn object(Kind(api_version, kind): Kind, mut value: Value) -> DynamicObject {
    value["apiVersion"] = api_version.into();
    value["kind"] = kind.into();
    serde_json::from_value(value).expect("an object")
}

fn condition(plugin: &Value, type_: &str) -> Option<Condition> {
    let conditions = plugin["status"]["conditions"].as_array()?;
    let found = conditions
        .iter()
        .find(|condition| condition["type"] == type_)?;

    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    let observed_generation = found["observedGeneration"].as_i64();

    Some(Condition {
        status: text("status"),
        reason: text("reason"),
        message: text("message"),
        observed_generation,
    })
}
