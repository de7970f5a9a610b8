//! The HTTP API: what kube-apiserver answers, from a [`Store`](crate::store::Store).
//!
//! An [`ApiServer`] is a `tower::Service` of HTTP requests, so a client in the same process needs no socket; [`serve`]
//! and [`serve_tls`] serve it on a loopback address. It has the resources of its registry ([`Resources`]), each with the behaviour of its
//! kind ([`Strategy`]). Authentication, authorization, admission, patches that need a schema and OpenAPI documents are
//! plugged in ([`hooks`]). Time and randomness come from its [`Environment`].
//!
//! What it does not implement it refuses with 501: answers in protobuf, and strategic and apply patches without a
//! [`Patcher`]. Requests may be in protobuf, as those of `kubectl create` are.
//!
//! Known differences from kube-apiserver: YAML is version 1.2, where `y` and `on` are texts, and messages about malformed
//! YAML have the words of this parser; the order of members in JSON is another one; a path with `//` is not redirected; `/readyz?verbose` lists one check. Lists and watches of an old revision are also answered after
//! other resources have pushed it out of the window, because the answer is exact.
//!
//! ```
//! use operetta_apiserver::{
//!     http::{ApiServer, Body, Environment, Resource},
//!     store::{Store, Window},
//! };
//! use tower::ServiceExt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let environment = Environment::fixed("2026-01-01T00:00:00Z".parse()?, 1);
//! let server = ApiServer::builder(Store::new(Window::default()), environment).build();
//! server.resources().register(Resource::custom("example.com", "v1", "Widget", "widgets"));
//! let request = http::Request::get("/apis/example.com/v1/widgets").body(Body::full(""))?;
//! let response = server.oneshot(request).await?;
//! assert_eq!(response.status(), 200);
//! # Ok(())
//! # }
//! ```
//!
//! A request passes these files: `service` (routing), `path` and `query`, `negotiate`, the verbs (`list`, `watch`,
//! `create`, `update`, `patch`, `delete`, `scale`), which share `call`, `read_object`, `prepare` and `validate_meta`, and
//! `represent`, which writes the answer. `root`, `discovery`, `openapi` and `openapi_v2` answer paths that are no resources.

pub mod columns;
pub mod field_error;
pub mod hooks;
pub mod names;
pub mod resource;
pub mod selector;

mod attributes;
mod audit;
mod body;
mod call;
mod create;
mod decode;
mod delete;
mod discovery;
mod environment;
mod handler;
mod json;
mod list;
mod metadata;
mod namespaces;
mod negotiate;
mod object_meta;
mod openapi;
mod openapi_v2;
mod patch;
mod path;
mod prepare;
mod protobuf;
mod query;
mod read_object;
mod registry;
mod represent;
mod respond;
mod root;
mod scale;
mod scale_kind;
mod serve;
mod server;
mod service;
mod status;
#[cfg(test)]
mod tests;
mod update;
mod validate_meta;
mod view;
mod watch;

pub use self::{
    attributes::{Attributes, User},
    audit::AuditSink,
    body::Body,
    columns::Column,
    decode::{Admitted, Decoded, decode_object},
    environment::{Environment, format_time},
    field_error::{Cause, FieldError},
    handler::{Handler, HandlerRequest},
    hooks::{
        Admission, AdmissionRequest, AllowAll, Authenticator, Authorizer, FieldWrite, OpenApi, Patcher, Requester,
    },
    openapi_v2::OpenApiV2,
    query::FieldValidation,
    registry::{Resources, WeakResources},
    resource::{AnyObject, Flavor, Names, Part, Resource, Rules, Scale, Strategy, Subresource, Subresources},
    serve::{ServeError, serve, serve_tls},
    server::{ApiServer, BODY_LIMIT, Builder, Version},
    status::{ApiError, Details},
};
