//! The state that all lanes share: the API server's client, the host's caches, and the ClusterRoles
//! of the tenants.

use std::sync::Arc;

use http::Request;
use kube::Client;
use operetta_core::{
    authz::access_review::{Grants, ServiceAccount},
    gate::{Gate, GateLimits, Shared},
    object::kind::GroupVersionKind,
    ports::Nowhere,
};
use operetta_kube::{
    authz::{access_review::SubjectAccessReviews, permission_watch::PermissionWatch},
    client::{
        api_client::{ApiClient, Identity},
        object_api::{PluginApi, PluginIdentity, Watched},
    },
    discovery::Discovery,
    informer::{Informer, Scope, registry::InformerRegistry},
};
use operetta_testkit::ControlPlane;
use serde_json::{Value, json};

use crate::call::Kind;

/// The prefix of the ClusterRoles' names.
const ROLE: &str = "gate-fuzz";

/// A ClusterRole that a tenant may be bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rights {
    ReadConfigMaps,
    ReadSecrets,
    GetSecrets,
    ListSecrets,
    NamedSecret,
    WriteConfigMaps,
    PatchSecrets,
    CreateSecrets,
    DeleteBoth,
    ReadNodes,
    Everything,
}

impl Rights {
    pub const ALL: [Self; 11] = [
        Self::ReadConfigMaps,
        Self::ReadSecrets,
        Self::GetSecrets,
        Self::ListSecrets,
        Self::NamedSecret,
        Self::WriteConfigMaps,
        Self::PatchSecrets,
        Self::CreateSecrets,
        Self::DeleteBoth,
        Self::ReadNodes,
        Self::Everything,
    ];

    pub fn role(self) -> String {
        format!("{ROLE}-{self:?}").to_lowercase()
    }

    fn rules(self) -> Value {
        let rule = |resources: &[&str], verbs: &[&str]| json!([{"apiGroups": [""], "resources": resources, "verbs": verbs}]);
        match self {
            Self::ReadConfigMaps => rule(&["configmaps"], &["get", "list", "watch"]),
            Self::ReadSecrets => rule(&["secrets"], &["get", "list", "watch"]),
            Self::GetSecrets => rule(&["secrets"], &["get"]),
            Self::ListSecrets => rule(&["secrets"], &["list"]),
            Self::NamedSecret => {
                json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["one"],
                                         "verbs": ["get", "patch"]}])
            }
            Self::WriteConfigMaps => {
                rule(&["configmaps"], &["create", "update", "patch", "delete"])
            }
            Self::PatchSecrets => rule(&["secrets"], &["patch", "update"]),
            Self::CreateSecrets => rule(&["secrets"], &["create"]),
            Self::DeleteBoth => rule(&["configmaps", "secrets"], &["delete"]),
            Self::ReadNodes => rule(&["nodes"], &["get", "list", "watch"]),
            Self::Everything => rule(&["configmaps", "secrets", "nodes"], &["*"]),
        }
    }
}

pub struct World {
    pub control_plane: &'static ControlPlane,
    pub client: Client,
    discovery: Arc<Discovery>,
    registry: Arc<InformerRegistry>,
    grants: Arc<Grants>,
    informers: Vec<Arc<Informer>>,
    _permissions: PermissionWatch,
}

impl World {
    pub async fn new() -> Self {
        let control_plane = ControlPlane::shared().await;
        let client = control_plane.client().await;
        for rights in Rights::ALL {
            let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                              "metadata": {"name": rights.role()}, "rules": rights.rules()});
            control_plane.apply(&role.to_string());
        }
        let api_client = ApiClient::new(client.clone(), &Identity::Host).expect("a client");
        let discovery = Discovery::new(api_client.clone());
        let registry = InformerRegistry::new(api_client.clone());
        let grants = Grants::new(Arc::new(SubjectAccessReviews::new(api_client)));
        let permissions = PermissionWatch::start(&grants, &discovery, &registry)
            .await
            .expect("a watch");
        let mut informers = Vec::new();
        for kind in Kind::ALL {
            let resource = discovery.resolve(&kind.gvk()).await.expect("served");
            let informer = registry.informer(&resource, Scope::everything());
            informer.synced().await;
            informers.push(informer);
        }
        Self {
            control_plane,
            client,
            discovery,
            registry,
            grants,
            informers,
            _permissions: permissions,
        }
    }

    /// Creates the gate of a plugin that acts as this ServiceAccount.
    pub fn gate(&self, account: &ServiceAccount) -> Arc<Gate> {
        let identity = PluginIdentity::new(self.grants.of(account.clone()), account.name.clone());
        let api = PluginApi::of_plugin(
            self.client.clone(),
            self.discovery.clone(),
            self.registry.clone(),
            identity,
        )
        .expect("an API");
        api.watch(Watched::new(self.informers.clone(), Vec::new()));
        Gate::new(
            api,
            Arc::new(Nowhere),
            Arc::new(Nowhere),
            "{}".into(),
            GateLimits::default(),
            Shared::default(),
        )
    }

    /// Sends a request with the test's own permissions.
    ///
    /// # Errors
    /// Returns an error if the API server refuses the request or does not answer.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value, kube::Error> {
        let body = body
            .map(|body| body.to_string().into_bytes())
            .unwrap_or_default();
        let content_type = if method == "PATCH" {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .body(body);
        self.client.request(request.expect("a request")).await
    }
}

impl Kind {
    pub fn gvk(self) -> GroupVersionKind {
        GroupVersionKind::new("v1", self.name())
    }
}
