//! The whole server, in one process and without sockets.

mod client;
mod cluster;
mod collection;
mod compaction;
mod copies;
mod custom;
mod encodings;
mod jobs;
mod namespaces;
mod openapi_v2;
mod rights;
mod services;
mod sockets;
mod stateful;
mod workloads;
mod writes;
