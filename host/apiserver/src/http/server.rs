//! The server: its store, its resources and what is plugged into it.

use std::{fmt, sync::Arc};

use super::{
    attributes::User,
    audit::AuditSink,
    environment::Environment,
    hooks::{Admission, AllowAll, Authenticator, Authorizer, OpenApi, Patcher},
    registry::Resources,
};
use crate::store::Store;

/// The largest body of a request, in bytes.
pub const BODY_LIMIT: usize = 3 << 20;

/// The version that `/version` shows.
#[derive(Clone, Debug)]
pub struct Version {
    /// The version of Kubernetes that it follows, such as `v1.36.2`.
    pub git_version: String,
    /// The major version.
    pub major: String,
    /// The minor version.
    pub minor: String,
}

impl Default for Version {
    fn default() -> Self {
        Self { git_version: "v1.36.2".into(), major: "1".into(), minor: "36".into() }
    }
}

/// The state of a server, shared by its requests.
pub(super) struct State {
    pub store: Store,
    pub resources: Resources,
    pub environment: Environment,
    pub authenticator: Arc<dyn Authenticator>,
    pub authorizer: Arc<dyn Authorizer>,
    pub admission: Vec<Arc<dyn Admission>>,
    pub audit: Option<Arc<dyn AuditSink>>,
    pub patcher: Arc<dyn Patcher>,
    pub openapi: Option<Arc<dyn OpenApi>>,
    pub about: About,
}

/// The facts that a server says of itself.
pub(super) struct About {
    pub version: Version,
    /// The address that discovery names.
    pub address: String,
}

/// An API server: a `tower::Service` of HTTP requests. Clones share their state.
#[derive(Clone)]
pub struct ApiServer {
    pub(super) state: Arc<State>,
    pub(super) trusted: Option<User>,
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ApiServer").field("revision", &self.state.store.revision()).finish_non_exhaustive()
    }
}

impl ApiServer {
    /// Begins a server that allows everything and has no resources.
    #[must_use]
    pub fn builder(store: Store, environment: Environment) -> Builder {
        Builder {
            state: State {
                store,
                resources: Resources::default(),
                environment,
                authenticator: Arc::new(AllowAll),
                authorizer: Arc::new(AllowAll),
                admission: Vec::new(),
                audit: None,
                patcher: Arc::new(AllowAll),
                openapi: None,
                about: About { version: Version::default(), address: "127.0.0.1:6443".into() },
            },
        }
    }

    /// Returns the same server for callers whose requests without credentials are those of a user, as clients in this
    /// process.
    #[must_use]
    pub fn acting_as(&self, user: User) -> Self {
        Self { state: Arc::clone(&self.state), trusted: Some(user) }
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.state.store
    }

    /// Returns the registry of resources, in which they come and go.
    #[must_use]
    pub fn resources(&self) -> &Resources {
        &self.state.resources
    }

    /// Returns the source of time and randomness.
    #[must_use]
    pub fn environment(&self) -> &Environment {
        &self.state.environment
    }
}

/// The parts of a server that is not built yet.
pub struct Builder {
    state: State,
}

impl Builder {
    /// Sets the registry of resources.
    #[must_use]
    pub fn resources(mut self, resources: Resources) -> Self {
        self.state.resources = resources;
        self
    }

    /// Sets what finds out who sends a request.
    #[must_use]
    pub fn authenticator(mut self, authenticator: impl Authenticator + 'static) -> Self {
        self.state.authenticator = Arc::new(authenticator);
        self
    }

    /// Sets what decides who may do what.
    #[must_use]
    pub fn authorizer(mut self, authorizer: impl Authorizer + 'static) -> Self {
        self.state.authorizer = Arc::new(authorizer);
        self
    }

    /// Adds what changes and refuses writes. The first one that is added comes first.
    #[must_use]
    pub fn admission(mut self, admission: impl Admission + 'static) -> Self {
        self.state.admission.push(Arc::new(admission));
        self
    }

    /// Sets what keeps the audit log.
    #[must_use]
    pub fn audit(mut self, sink: Arc<dyn AuditSink>) -> Self {
        self.state.audit = Some(sink);
        self
    }

    /// Sets what computes patches and managed fields.
    #[must_use]
    pub fn patcher(mut self, patcher: impl Patcher + 'static) -> Self {
        self.state.patcher = Arc::new(patcher);
        self
    }

    /// Sets what serves the OpenAPI documents; without it they are computed from the registry, without schemas.
    #[must_use]
    pub fn openapi(mut self, openapi: impl OpenApi + 'static) -> Self {
        self.state.openapi = Some(Arc::new(openapi));
        self
    }

    /// Sets what the server says of itself.
    #[must_use]
    pub fn version(mut self, version: Version) -> Self {
        self.state.about.version = version;
        self
    }

    /// Sets the address that discovery names.
    #[must_use]
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.state.about.address = address.into();
        self
    }

    /// Builds the server.
    #[must_use]
    pub fn build(self) -> ApiServer {
        ApiServer { state: Arc::new(self.state), trusted: None }
    }
}
