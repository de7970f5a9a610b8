//! The whole server: what its parts do together, without sockets.

mod client;
mod custom;
mod rights;
mod sockets;
mod writes;
