//! The server: its store, its resources and its parts.

use std::{fmt, sync::Arc};

use super::{audit::AuditSink, environment::Environment, hooks::Admission, registry::Resources};
use crate::{
    apply::fields::Fields,
    authn::user::User,
    server::{access::Access, documents::Documents},
    store::Store,
};

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
        Self {
            git_version: "v1.36.2".into(),
            major: "1".into(),
            minor: "36".into(),
        }
    }
}

/// The state of a server, shared by its requests.
pub(crate) struct State {
    pub store: Store,
    pub resources: Resources,
    pub environment: Environment,
    pub access: Access,
    /// Changes and refuses writes, in this order.
    pub admission: Vec<Arc<dyn Admission>>,
    pub audit: Option<Arc<dyn AuditSink>>,
    pub fields: Fields,
    pub documents: Documents,
    pub about: About,
}

/// The facts that a server says of itself.
pub(crate) struct About {
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
        formatter
            .debug_struct("ApiServer")
            .field("revision", &self.state.store.revision())
            .finish_non_exhaustive()
    }
}

impl ApiServer {
    /// Creates a server.
    pub(crate) fn new(state: State) -> Self {
        Self {
            state: Arc::new(state),
            trusted: None,
        }
    }

    /// Returns the same server for callers whose requests without credentials are those of a user,
    /// as clients in this process.
    #[must_use]
    pub fn acting_as(&self, user: User) -> Self {
        Self {
            state: Arc::clone(&self.state),
            trusted: Some(user),
        }
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
