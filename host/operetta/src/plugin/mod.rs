//! The host as a controller of its own: it reconciles Plugins, and makes them for ConfigMaps that are dropped in.

pub mod artifact;
pub mod consent;
pub mod crd;
pub mod drop_in;
pub mod health;
pub mod parts;
pub mod reconcile;
pub mod running;
pub mod status;
