//! Server-side apply: managed fields, merges and conflicts.

pub mod fieldpath;
pub mod manager;
pub mod merge;
pub mod schema;
pub mod typed;
pub mod value;
