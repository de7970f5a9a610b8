//! The whole server: what its parts do together, without sockets.

mod client;
mod cluster;
mod collection;
mod custom;
mod namespaces;
mod rights;
mod writes;
