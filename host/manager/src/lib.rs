//! The controller manager: the controllers that run Plugins, and everything that all plugins of a host share.
//!
//! It joins the API server side (`operetta-kube`), the sandbox (`operetta-wasm`) and the scheduler, and adds what a host
//! needs to be run: tenancy, logs, metrics and the admin endpoints.

pub mod admin;
pub mod authz;
pub mod config;
pub mod conflict;
pub mod logs;
pub mod manager;
pub mod metrics;
pub mod plugin;
pub mod tenancy;
mod triggers;

/// Returns the number of plugins that run at the same moment: one on each processor.
pub fn fair_slots() -> usize {
    std::thread::available_parallelism().map_or(2, std::num::NonZero::get)
}
