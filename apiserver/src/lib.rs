//! A Kubernetes API server in memory, for everybody's tests.
//!
//! It does what kube-apiserver does, down to the words of its errors, and refuses with 501 what it
//! does not do. One crate holds the whole server: [`EmbeddedServer`] starts it, clients in the same
//! process call it as a `tower::Service`, others over a loopback address with TLS.
//!
//! ```
//! use operetta_apiserver::{
//!     EmbeddedServer, Options,
//!     server::{Body, Environment},
//! };
//! use tower::ServiceExt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = EmbeddedServer::start(Options::in_memory(Environment::system()))?;
//!
//! let request = http::Request::get("/api/v1/namespaces/default").body(Body::full(""))?;
//! let response = server.administrator().oneshot(request).await?;
//! assert_eq!(response.status(), 200);
//! # Ok(())
//! # }
//! ```
//!
//! A request passes these modules: [`server`] routes it, [`authn`] and [`authz`] say who sends it
//! and whether they may, [`admission`] judges what it writes, [`builtin`] and [`apiextensions`] know
//! the kinds, [`apply`] keeps managed fields, and [`store`] keeps the objects. What they have in
//! common is in [`apimachinery`].

pub mod admission;
pub mod apiextensions;
pub mod apimachinery;
pub mod apply;
pub mod authn;
pub mod authz;
mod bootstrap;
pub mod builtin;
mod cel;
mod controllers;
mod credentials;
mod embedded;
mod golang;
pub mod server;
mod shared;
pub mod store;

pub use self::{
    controllers::{ControllerName, Controllers},
    credentials::{Credentials, CredentialsError},
    embedded::{EmbeddedServer, Options, StartError},
};
