//! A host's flight recorder, and who may read it.

pub mod config;
pub(crate) mod visible;
