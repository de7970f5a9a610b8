//! This crate against a real API server: what it reads, writes, watches and refuses.
//!
//! Each test has a namespace and, of this crate, everything of its own: a host's part of it in
//! miniature.

mod bad_input;
mod contract;
mod dry_run;
mod events;
mod informer;
mod lag;
mod own_writes;
mod raw;
mod reads;
mod rig;
mod unchanged;
mod writes;

use std::sync::Arc;

use operetta_core::{
    authz::access_review::{Grants, ServiceAccount},
    gate::operation::{
        Delete, DeleteOptions, Get, List, ListOptions, Page, PatchBody, Read, Write, WriteAction,
        WriteOptions, Written,
    },
    object::{Object, ObjectKey, kind::GroupVersionKind},
    ports::ObjectApi,
    status::ApiError,
};
use operetta_kube::{
    authz::access_review::SubjectAccessReviews,
    client::{
        api_client::{ApiClient, Identity},
        object_api::{PluginApi, PluginIdentity},
    },
    discovery::{ApiResource, Discovery},
    informer::{Informer, Scope, registry::InformerRegistry},
};
use operetta_testkit::{ControlPlane, TestNamespace};
use serde_json::{Value, json};

/// A test's namespace, and a plugin's API over it.
struct Stage {
    namespace: TestNamespace<'static>,
    client: kube::Client,
    discovery: Arc<Discovery>,
    registry: Arc<InformerRegistry>,
    api: Arc<PluginApi>,
}

impl Stage {
    async fn new(prefix: &str) -> Self {
        let namespace = ControlPlane::shared().await.namespace(prefix).await;
        let client = namespace.control_plane().client().await;
        let api_client = ApiClient::new(client.clone(), &Identity::Host).expect("a client");
        let discovery = Discovery::new(api_client.clone());
        let registry = InformerRegistry::new(api_client.clone());
        let api = PluginApi::of_host(
            api_client,
            discovery.clone(),
            registry.clone(),
            "test".to_owned(),
        );
        Self {
            namespace,
            client,
            discovery,
            registry,
            api,
        }
    }

    /// The API as a ServiceAccount of the namespace sees it.
    fn api_as(&self, service_account: &str) -> Arc<PluginApi> {
        let namespace = self.namespace.name().to_owned();
        let name = service_account.to_owned();
        let api_client = ApiClient::new(self.client.clone(), &Identity::Host).expect("a client");
        let grants = Grants::new(Arc::new(SubjectAccessReviews::new(api_client)));
        let grants = grants.of(ServiceAccount { namespace, name });
        let discovery = self.discovery.clone();
        let registry = self.registry.clone();
        PluginApi::of_plugin(
            self.client.clone(),
            discovery,
            registry,
            PluginIdentity::new(grants, "test"),
        )
        .expect("an API")
    }

    async fn resource(&self, api_version: &str, kind: &str) -> Arc<ApiResource> {
        self.discovery
            .resolve(&GroupVersionKind::new(api_version, kind))
            .await
            .expect("served")
    }

    /// An informer of the namespace's ConfigMaps.
    async fn config_maps(&self, labels: &str) -> Arc<Informer> {
        let namespace = Some(self.namespace.name().to_owned());
        let scope = Scope {
            namespace,
            labels: labels.to_owned(),
            ..Scope::everything()
        };
        self.registry
            .informer(&self.resource("v1", "ConfigMap").await, scope)
    }

    fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::namespaced(self.namespace.name(), name)
    }

    /// A list of everything in the namespace.
    fn all(&self, read: Read) -> ListOptions {
        ListOptions::all(Some(self.namespace.name().to_owned()), read)
    }

    async fn get(&self, name: &str, read: Read) -> Result<Arc<Object>, ApiError> {
        self.api
            .get(Get {
                kind: config_maps(),
                key: self.key(name),
                read,
            })
            .await
    }

    async fn list(&self, options: ListOptions) -> Result<Page, ApiError> {
        self.api
            .list(List {
                kind: config_maps(),
                options,
            })
            .await
    }

    async fn create(&self, config_map: Value) -> Result<Arc<Object>, ApiError> {
        let namespace = Some(self.namespace.name().to_owned());
        self.write(
            WriteAction::Create {
                namespace,
                object: config_map.to_string(),
            },
            WriteOptions::default(),
        )
        .await
    }

    async fn update(&self, name: &str, config_map: &Value) -> Result<Arc<Object>, ApiError> {
        let action = WriteAction::Update {
            key: self.key(name),
            status: false,
            object: config_map.to_string(),
        };
        self.write(action, WriteOptions::default()).await
    }

    async fn patch(&self, name: &str, body: PatchBody) -> Result<Arc<Object>, ApiError> {
        let action = WriteAction::Patch {
            key: self.key(name),
            subresource: None,
            body,
            force: false,
        };
        self.write(action, WriteOptions::default()).await
    }

    /// Writes a ConfigMap.
    async fn write(
        &self,
        action: WriteAction,
        options: WriteOptions,
    ) -> Result<Arc<Object>, ApiError> {
        stored(
            self.api
                .write(Write {
                    kind: config_maps(),
                    action,
                    options,
                })
                .await,
        )
    }

    async fn delete(&self, name: &str, options: DeleteOptions) -> Result<(), ApiError> {
        self.api
            .delete(Delete {
                kind: config_maps(),
                key: self.key(name),
                options,
            })
            .await
    }
}

fn config_maps() -> GroupVersionKind {
    GroupVersionKind::new("v1", "ConfigMap")
}

/// A ConfigMap to be.
fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

/// The object of a write that was sent.
fn stored(written: Result<Written, ApiError>) -> Result<Arc<Object>, ApiError> {
    match written? {
        Written::Stored(object) => Ok(object),
        other @ Written::Unchanged(_) => panic!("the write was not sent: {other:?}"),
    }
}

fn value(object: &Object) -> Value {
    serde_json::from_str(object.json()).expect("JSON")
}

/// The names of a page's objects.
fn names(page: &Page) -> Vec<String> {
    let value = |json: &str| serde_json::from_str::<Value>(json).expect("JSON");
    let name = |object: Value| {
        object["metadata"]["name"]
            .as_str()
            .expect("a name")
            .to_owned()
    };
    page.items
        .iter()
        .map(|item| name(value(item.json())))
        .collect()
}
