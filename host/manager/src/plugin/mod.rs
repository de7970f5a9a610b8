//! The host as a controller of its own: it reconciles Plugins, and makes them for ConfigMaps that are dropped in.

pub mod configuration;
pub mod crd;
pub mod drop_in;
pub mod health;
pub mod hot_loop;
mod mapping_stage;
pub mod reconcile;
pub mod report;
pub mod running;
pub mod slot;
pub mod source;
pub mod status;
mod wiring;
