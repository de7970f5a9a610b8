//! The flight recorder of a host, and who may read it.

pub mod config;
pub(crate) mod visible;
