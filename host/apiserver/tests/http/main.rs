//! Tests of the HTTP API as a client sees it, without sockets and with them.

mod client;
mod kinds;
mod normalize;
mod recorded;
