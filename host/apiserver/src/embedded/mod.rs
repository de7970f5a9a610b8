//! A whole API server: the parts of this crate joined.
//!
//! [`EmbeddedServer::start`] opens the store, registers the built-in kinds and creates the objects that every cluster
//! has. Requests go to [`EmbeddedServer::api`], a `tower::Service`, or over a socket with
//! [`serve`](crate::http::serve()). Definitions of custom resources are served and controllers ([`Controllers`]) run while
//! [`EmbeddedServer::run`] is polled: the server has no threads of its own, and takes its time from its
//! [`Environment`].
//!
//! ```
//! use operetta_apiserver::{
//!     embedded::{EmbeddedServer, Options},
//!     http::{Body, Environment},
//! };
//! use tower::ServiceExt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let environment = Environment::fixed("2026-01-01T00:00:00Z".parse()?, 1);
//! let server = EmbeddedServer::start(Options::in_memory(environment))?;
//! let request = http::Request::get("/api/v1/namespaces/default").body(Body::full(""))?;
//! let response = server.administrator().oneshot(request).await?;
//! assert_eq!(response.status(), 200);
//! # Ok(())
//! # }
//! ```

mod access;
mod admission;
mod binding;
mod bootstrap;
mod built_in;
mod built_in_kind;
mod controllers;
mod credentials;
mod custom;
mod custom_controller;
mod definitions;
mod eviction;
mod fields;
mod objects;
mod openapi;
mod pods;
mod reviews;
mod shared;

use std::{path::PathBuf, sync::Arc};

use parking_lot::Mutex;
use tokio::net::TcpListener;

pub use self::controllers::{ControllerName, Controllers};
pub use self::credentials::{Credentials, CredentialsError};
use self::{
    access::Access, admission::Plugins, fields::Fields, objects::StoredObjects, openapi::Documents, shared::Shared,
};
use crate::{
    authz::{
        authenticate::{Authenticator, DEFAULT_ISSUER},
        impersonation::Impersonation,
        signing::{SigningError, SigningKey},
        user::{AUTHENTICATED, MASTERS, User},
    },
    http::{Admission, ApiError, ApiServer, AuditSink, Environment, Resources, ServeError, serve_tls},
    store::{LogError, Opened, Store, Window},
};

/// The choices with which a server starts.
pub struct Options {
    /// The file that keeps the objects; without one they are in memory.
    pub data: Option<PathBuf>,
    /// The source of time and randomness.
    pub environment: Environment,
    /// The past changes that the server remembers.
    pub window: Window,
    /// The bearer tokens that are accepted, besides those of ServiceAccounts.
    pub tokens: Vec<(String, User)>,
    /// Reports whether new Pods get the token of their ServiceAccount; a controller has to create the account `default`.
    pub service_accounts: bool,
    /// The address that discovery names.
    pub address: String,
    /// The sink of the audit log.
    pub audit: Option<Arc<dyn AuditSink>>,
    /// Plugins that refuse writes, besides those of the API server.
    pub admission: Vec<Arc<dyn Admission>>,
    /// The controllers that run.
    pub controllers: Controllers,
}

impl Options {
    /// Returns the options of a server in memory that accepts no tokens and has all controllers.
    #[must_use]
    pub fn in_memory(environment: Environment) -> Self {
        Self {
            data: None,
            environment,
            window: Window::default(),
            tokens: Vec::new(),
            service_accounts: false,
            address: "127.0.0.1:6443".into(),
            audit: None,
            admission: Vec::new(),
            controllers: Controllers::all(),
        }
    }
}

/// A server that does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data file cannot be used.
    #[error(transparent)]
    Data(#[from] LogError),
    /// The key for tokens cannot be generated.
    #[error(transparent)]
    Key(#[from] SigningError),
    /// An object that every cluster has cannot be created.
    #[error("{0}")]
    Bootstrap(String),
}

/// An API server with everything that this crate has.
#[derive(Clone)]
pub struct EmbeddedServer {
    api: ApiServer,
    shared: Arc<Shared>,
    controllers: Controllers,
}

impl EmbeddedServer {
    /// Starts a server. What the data file says beyond the objects is logged.
    ///
    /// # Errors
    ///
    /// [`StartError`], when the data file belongs to another program or version or is damaged.
    pub fn start(options: Options) -> Result<Self, StartError> {
        let store = match &options.data {
            None => Store::new(options.window),
            Some(path) => {
                let (store, opened) = Store::open(path, options.window)?;
                report(path, &opened);
                store
            }
        };
        let key = Arc::new(SigningKey::generate()?);
        let server = Self::assemble(options, store, key, custom::CustomResources::default());
        bootstrap::create_missing(&server.shared).map_err(StartError::Bootstrap)?;
        custom_controller::serve_stored(&server.shared);
        Ok(server)
    }

    /// Starts a server in memory with the objects of this one. From then on the two have nothing to do with each other. What
    /// is costly to prepare is shared: the objects themselves, the key for tokens and what definitions define.
    ///
    /// `options.data` is not used.
    #[must_use]
    pub fn copy(&self, options: Options) -> Self {
        let store = self.shared.store.copy(options.window);
        let key = Arc::clone(&self.shared.key);
        Self::assemble(options, store, key, self.shared.customs.copy())
    }

    /// Joins the parts of a server whose store has its objects already, or gets them next.
    fn assemble(options: Options, store: Store, key: Arc<SigningKey>, customs: custom::CustomResources) -> Self {
        let resources = Resources::default();
        let objects = Arc::new(StoredObjects::new(store.clone(), resources.downgrade()));
        let mut authenticator = Authenticator::new(Arc::clone(&key), DEFAULT_ISSUER);
        for (token, user) in options.tokens {
            authenticator = authenticator.with_token(token, user);
        }
        let shared = Arc::new(Shared {
            store: store.clone(),
            registry: resources.downgrade(),
            environment: options.environment.clone(),
            objects,
            customs,
            key,
            authenticator: Arc::new(authenticator),
            has_disruption_budgets: options.controllers.enabled.contains(&ControllerName::DisruptionBudgets),
        });
        built_in::register(&shared);
        shared.customs.register(&shared.resources());
        let access = Arc::new(access(&shared));
        let mut builder = ApiServer::builder(store, options.environment)
            .resources(resources)
            .authenticator(Arc::clone(&access))
            .authorizer(access)
            .admission(Plugins {
                shared: Arc::clone(&shared),
                service_accounts: options.service_accounts,
                policies: Mutex::new(None),
            })
            .patcher(Fields(Arc::clone(&shared)))
            .openapi(Documents::new(Arc::clone(&shared)))
            .address(options.address);
        for plugin in options.admission {
            builder = builder.admission(plugin);
        }
        if let Some(sink) = options.audit {
            builder = builder.audit(sink);
        }
        Self { api: builder.build(), shared, controllers: options.controllers }
    }

    /// Returns the API. Requests without credentials are those of `system:anonymous`.
    #[must_use]
    pub fn api(&self) -> &ApiServer {
        &self.api
    }

    /// Returns the objects. What is written here passes no admission.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// Returns the resources that are served now.
    #[must_use]
    pub fn resources(&self) -> Resources {
        self.shared.resources()
    }

    /// Serves what the stored definitions define before it returns. [`EmbeddedServer::run`] does the same in the
    /// background, and also ends deleted definitions.
    pub fn serve_definitions(&self) {
        custom_controller::establish_stored(&self.shared);
    }

    /// Returns the API for an administrator in this process, who needs no credentials.
    #[must_use]
    pub fn administrator(&self) -> ApiServer {
        self.api.acting_as(User::new("admin", &[MASTERS, AUTHENTICATED]))
    }

    /// Serves the API on a loopback address with TLS, and runs the controllers, until `shutdown` is ready.
    ///
    /// # Errors
    ///
    /// [`ServeError`], when the address is not a loopback address.
    pub async fn serve(
        &self,
        listener: TcpListener,
        credentials: &Credentials,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        tokio::select! {
            served = serve_tls(listener, self.api.clone(), credentials.tls(), shutdown) => served,
            () = self.run() => Ok(()),
        }
    }

    /// Serves what CustomResourceDefinitions define, deletes the objects of deleted ones, and runs the controllers.
    /// Never ends. One call is enough: with a second one, two of each controller would work against each other.
    pub async fn run(&self) {
        let administrator = self.administrator();
        tokio::join!(
            custom_controller::run(&self.shared, &administrator),
            controllers::run(&self.shared, &self.api, &self.controllers),
        );
    }
}

fn access(shared: &Arc<Shared>) -> Access {
    Access {
        objects: Arc::clone(&shared.objects),
        authenticator: Arc::clone(&shared.authenticator),
        environment: shared.environment.clone(),
        impersonation: Mutex::new(Impersonation::default()),
    }
}

/// Logs that a data file was cut short.
fn report(path: &std::path::Path, opened: &Opened) {
    if let Some(cut) = &opened.cut_short {
        tracing::warn!("the last record of {} is cut short and was never answered: {cut:?}", path.display());
    }
}

/// Returns an error of authorization or admission as an answer.
fn refused(error: &crate::authz::error::ApiError) -> ApiError {
    ApiError::from_status(&error.status())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures::FutureExt;
    use tower::ServiceExt;

    use super::*;
    use crate::http::Body;

    #[tokio::test]
    async fn stopped_server_leaves_memory() {
        let options = Options::in_memory(Environment::fixed("2026-01-01T00:00:00Z".parse().expect("a time"), 1));
        let server = EmbeddedServer::start(options).expect("a server");
        let shared = Arc::downgrade(&server.shared);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let credentials = Credentials::generate().expect("credentials");
        let request = http::Request::get("/api/v1/pods?watch=1").body(Body::full("")).expect("a request");
        let watch = server.administrator().oneshot(request).await.expect("a watch");
        let served = server.serve(listener, &credentials, std::future::pending());
        assert!(served.now_or_never().is_none());
        drop((server, watch));
        assert!(shared.upgrade().is_none(), "something of the server holds it");
    }
}
