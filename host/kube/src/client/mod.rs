//! Requests to the API server: the connection, HTTP exchanges, and a plugin's reads and writes.

mod answers;
pub mod api_client;
mod cached_reads;
pub mod connect;
pub mod diagnosis;
pub(crate) mod no_ops;
pub mod object_api;
pub mod observed;
pub mod own_token;
mod own_writes;
mod permitted;
mod plugin_identity;
pub(crate) mod protobuf;
pub(crate) mod proxied;
pub(crate) mod raw;
pub(crate) mod requests;
pub mod table;
pub(crate) mod unchanged;
pub mod user_api;
pub mod version;
mod warnings;
