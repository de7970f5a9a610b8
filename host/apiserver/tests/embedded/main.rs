//! The whole server: what its parts do together, without sockets.

mod client;
mod cluster;
mod collection;
mod copies;
mod custom;
mod jobs;
mod namespaces;
mod openapi_v2;
mod rights;
mod services;
mod sockets;
mod stateful;
mod workloads;
mod writes;
