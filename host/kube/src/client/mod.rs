//! Requests to the API server: connecting, one HTTP exchange, and a plugin's reads and writes.

pub(crate) mod cached_reads;
pub mod connect;
pub mod diagnosis;
pub mod object_api;
pub(crate) mod raw;
pub(crate) mod requests;
pub mod table;
pub(crate) mod unchanged;
pub mod wire;
