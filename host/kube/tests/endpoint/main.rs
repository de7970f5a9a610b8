//! The API server that an operator's process sees: what passes, what is refused, and how it ends.
//!
//! Most tests play the real API server, so they see what reaches it. Those in `cluster` have one.

mod bad_input;
mod cluster;
mod limits;
mod passing;
mod rights;
mod stage;
mod tls;
mod watch_cache;
