//! The entry to the crate: a whole API server, with everything that this crate has.
//!
//! [`EmbeddedServer::start`] opens the store, registers the built-in kinds and creates the objects
//! that every cluster has. Definitions of custom resources are served and controllers run while
//! [`EmbeddedServer::run`] is polled: the server has no threads of its own, and takes its time from
//! its [`Environment`].

use std::{iter, net::SocketAddr, path::PathBuf, sync::Arc};

use parking_lot::Mutex;
use tokio::net::TcpListener;

use crate::{
    admission::plugins::Plugins,
    apiextensions::{controller as custom_controller, custom::CustomResources},
    apply::fields::Fields,
    authn::{
        authenticate::{Authenticator, DEFAULT_ISSUER},
        signing::{SigningError, SigningKey},
        user::{AUTHENTICATED, MASTERS, User},
    },
    authz::impersonation::Impersonation,
    bootstrap,
    builtin::registry,
    controllers::{self, ControllerName, Controllers},
    credentials::Credentials,
    server::{
        About, Admission, ApiServer, AuditSink, Environment, Resources, ServeError, State, Version,
        access::Access, documents::Documents, objects::StoredObjects, serve_tls,
    },
    shared::Shared,
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
    /// Reports whether new Pods get the token of their ServiceAccount; a controller has to create
    /// the account `default`.
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

    /// Returns the options of a server in memory that its administrator reaches over a socket:
    /// with these credentials, at this address. Pods get the tokens of their ServiceAccounts.
    #[must_use]
    pub fn on_socket(
        environment: Environment,
        credentials: &Credentials,
        address: SocketAddr,
        controllers: Controllers,
    ) -> Self {
        Self {
            tokens: vec![credentials.administrator()],
            // The account that new Pods get by default is made by a controller.
            service_accounts: controllers
                .enabled
                .contains(&ControllerName::ServiceAccounts),
            address: address.to_string(),
            controllers: Controllers {
                root_certificate: Some(credentials.authority().to_owned()),
                ..controllers
            },
            ..Self::in_memory(environment)
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
        let server = Self::assemble(options, store, key, CustomResources::default());
        bootstrap::create_missing(&server.shared).map_err(StartError::Bootstrap)?;
        custom_controller::serve_stored(&server.shared);
        Ok(server)
    }

    /// Starts a server in memory with the objects of this one. From then on the two have nothing to
    /// do with each other. What is costly to prepare is shared: the objects themselves, the key for
    /// tokens and what definitions define.
    ///
    /// `options.data` is not used.
    #[must_use]
    pub fn copy(&self, options: Options) -> Self {
        let store = self.shared.store.copy(options.window);
        let key = Arc::clone(&self.shared.key);
        Self::assemble(options, store, key, self.shared.customs.copy())
    }

    /// Joins the parts of a server whose store has its objects already, or gets them next.
    fn assemble(
        options: Options,
        store: Store,
        key: Arc<SigningKey>,
        customs: CustomResources,
    ) -> Self {
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
            has_disruption_budgets: options
                .controllers
                .enabled
                .contains(&ControllerName::DisruptionBudgets),
        });
        registry::register(&shared);
        shared.customs.register(&shared.resources());

        let plugins: Arc<dyn Admission> = Arc::new(Plugins {
            shared: Arc::clone(&shared),
            service_accounts: options.service_accounts,
            policies: Mutex::new(None),
        });
        let api = ApiServer::new(State {
            store,
            resources,
            environment: options.environment,
            access: access(&shared),
            admission: iter::once(plugins).chain(options.admission).collect(),
            audit: options.audit,
            fields: Fields(Arc::clone(&shared)),
            documents: Documents::new(Arc::clone(&shared)),
            about: About {
                version: Version::default(),
                address: options.address,
            },
        });

        Self {
            api,
            shared,
            controllers: options.controllers,
        }
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

    /// Serves what the stored definitions define before it returns. [`EmbeddedServer::run`] does
    /// the same in the background, and also ends deleted definitions.
    pub fn serve_definitions(&self) {
        custom_controller::establish_stored(&self.shared);
    }

    /// Returns the API for an administrator in this process, who needs no credentials.
    #[must_use]
    pub fn administrator(&self) -> ApiServer {
        self.api
            .acting_as(User::new("admin", &[MASTERS, AUTHENTICATED]))
    }

    /// Serves the API on a loopback address with TLS, and runs the controllers, until `shutdown` is
    /// ready.
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

    /// Serves what CustomResourceDefinitions define, deletes the objects of deleted ones, runs the
    /// controllers, and forgets past changes after five to ten minutes. Never ends. One call is
    /// enough: with a second one, two of each controller would work against each other.
    pub async fn run(&self) {
        let administrator = self.administrator();
        tokio::join!(
            custom_controller::run(&self.shared, &administrator),
            controllers::run(&self.shared, &self.api, &self.controllers),
            self.api.compact(),
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
        tracing::warn!(
            "the last record of {} is cut short and was never answered: {cut:?}",
            path.display()
        );
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures::FutureExt;
    use tower::ServiceExt;

    use super::*;
    use crate::server::Body;

    #[tokio::test]
    async fn stopped_server_leaves_memory() {
        let options = Options::in_memory(Environment::fixed(
            "2026-01-01T00:00:00Z".parse().expect("a time"),
            1,
        ));
        let server = EmbeddedServer::start(options).expect("a server");
        let shared = Arc::downgrade(&server.shared);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a port");
        let credentials = Credentials::generate().expect("credentials");
        let request = http::Request::get("/api/v1/pods?watch=1")
            .body(Body::full(""))
            .expect("a request");
        let watch = server
            .administrator()
            .oneshot(request)
            .await
            .expect("a watch");
        let served = server.serve(listener, &credentials, std::future::pending());
        assert!(served.now_or_never().is_none());
        drop((server, watch));
        assert!(
            shared.upgrade().is_none(),
            "something of the server holds it"
        );
    }
}
