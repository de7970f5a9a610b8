//! The HTTP API: what kube-apiserver answers, from a [`Store`](crate::store::Store).
//!
//! An [`ApiServer`] is a `tower::Service` of HTTP requests, so a client in the same process needs
//! no socket; [`serve`] and [`serve_tls`] serve it on a loopback address. It has the resources of
//! its registry ([`Resources`]), each with the behaviour of its kind ([`Strategy`]). Time and
//! randomness come from its [`Environment`].
//!
//! Answers in protobuf are refused with 501. Requests may be in protobuf, as those of `kubectl
//! create` are.
//!
//! Known differences from kube-apiserver: YAML is version 1.2, where `y` and `on` are texts, and
//! messages about malformed YAML have the words of this parser; the order of members in JSON is
//! another one; a path with `//` is not redirected; `/readyz?verbose` lists one check. Lists and
//! watches of an old revision are also answered after other resources have pushed it out of the
//! window, because the answer is exact.
//!
//! A request passes these files: `service` (routing), `path` and `query`, `negotiate`, the verbs
//! (`list`, `watch`, `create`, `update`, `patch`, `delete`, `scale`), which share `call` and
//! `read_object`, and `represent`, which writes the answer. `root`, `discovery` and
//! `openapi_v2` answer paths that are no resources.

pub(crate) mod access;
pub mod columns;
pub(crate) mod documents;
pub mod hooks;
pub(crate) mod objects;
pub mod resource;

mod audit;
mod body;
mod call;
mod compaction;
mod create;
mod decode;
mod delete;
mod discovery;
mod environment;
mod handler;
mod list;
mod namespaces;
mod negotiate;
mod object_meta;
mod openapi_v2;
mod owners;
mod patch;
mod path;
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
mod service;
mod state;
mod update;
mod view;
mod watch;

pub(crate) use self::state::{About, State};
pub use self::{
    audit::AuditSink,
    body::Body,
    columns::Column,
    decode::{Admitted, Decoded, decode_object},
    environment::{Environment, format_time},
    handler::{Handler, HandlerRequest},
    hooks::{Admission, FieldWrite, Requester},
    openapi_v2::OpenApiV2,
    read_object::RequestBody,
    registry::{Resources, WeakResources},
    resource::{
        Flavor, Names, Part, Resource, Rules, Scale, Strategy, Subresource, Subresources,
        TableConvertor,
    },
    serve::{ServeError, serve, serve_tls},
    state::{ApiServer, BODY_LIMIT, Version},
};
