//! Tests of the HTTP API as a client sees it, without sockets and with them.

mod behaviour;
mod client;
mod kinds;
mod kubectl;
mod normalize;
mod recorded;
