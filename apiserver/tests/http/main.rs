//! The HTTP API as a client sees it, with and without sockets.

mod behaviour;
mod client;
mod kinds;
mod kubectl;
mod normalize;
mod recorded;
