//! The controller manager: the controllers for Plugins, and the services that plugins share.
//!
//! The crate joins the API server side (`operetta-kube`), the sandbox (`operetta-wasm`) and the
//! scheduler (`operetta-scheduler`), and adds logs, metrics, traces, quotas, readiness and the
//! Leases of replicas. A [`manager::Manager`] starts two controllers of its own. One creates
//! Plugins for drop-in ConfigMaps. The other, in [`plugin`], reconciles Plugins: it checks consent
//! ([`authz`]), loads the code, reads the configuration, sets the controllers up and writes the
//! status. All plugins share the [`context::Context`], which doesn't know about any controller.
//!
//! ```no_run
//! # async fn example(client: kube::Client, users: kube::Client) -> anyhow::Result<()> {
//! use operetta_manager::{admin::Listeners, config::HostConfig, manager::Manager, metrics::Metrics};
//!
//! let manager = Manager::new(client, HostConfig::default(), Metrics::new())?;
//! let listeners = Listeners::bind(&manager.context.config).await?;
//! let address = listeners.admin_address()?;
//! let serving = tokio::spawn(listeners.serve(manager.clone(), users));
//! manager.start(address).await?;
//! # serving.await??;
//! # Ok(())
//! # }
//! ```
//!
//! Every field of the configuration has a default:
//!
//! ```
//! # fn main() -> Result<(), serde_yaml_ng::Error> {
//! use operetta_manager::config::HostConfig;
//!
//! let config: HostConfig = serde_yaml_ng::from_str("quotas: {namespaces: {team-a: {weight: 300}}}")?;
//! assert_eq!(config.quotas.of_namespace("team-a").weight, Some(300));
//! assert!(config.admin_address.ip().is_loopback());
//! # Ok(())
//! # }
//! ```

pub mod admin;
pub mod authz;
pub mod cluster;
pub mod config;
pub mod confinement;
pub mod conflict;
pub mod context;
pub mod crash_journal;
pub mod events;
pub mod identity;
pub mod logs;
pub mod manager;
pub mod metrics;
pub mod page;
pub mod plugin;
pub mod problem;
pub mod readiness;
pub mod recorder;
pub mod replicas;
pub mod tenancy;
pub mod traces;

/// Returns the number of poll slots and of runtime threads: one per processor, or 1 in a
/// simulation.
pub fn poll_slots() -> usize {
    if operetta_core::nondeterminism::replacement().is_some() {
        return 1;
    }
    std::thread::available_parallelism().map_or(2, std::num::NonZero::get)
}
