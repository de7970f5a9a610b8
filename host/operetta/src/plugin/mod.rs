//! The host as a controller of its own: it reconciles Plugins, and makes them for ConfigMaps that are dropped in.

pub mod configuration;
pub mod consent;
pub mod crd;
pub mod drop_in;
pub mod health;
pub mod looping;
mod map_stage;
pub mod path_source;
pub mod reconcile;
pub mod report;
pub mod running;
pub mod slot;
pub mod source;
pub mod status;
mod wiring;

pub use operetta::{artifact, parts};
