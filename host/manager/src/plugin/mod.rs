//! Plugins: the controller that reconciles them, from consent to status, and the controller that makes them for drop-in
//! ConfigMaps.
//!
//! A reconcile goes through [`reconcile`]: the [`source`] is fetched and loaded, the [`configuration`] read, the
//! controllers set up ([`running`], for each shard, by way of `wiring` and [`assembly`]), and [`facts`] become a [`status`], which
//! [`report`] writes.

pub mod assembly;
mod config_part;
pub mod config_text;
pub mod configuration;
pub mod crash_guard;
pub mod crd;
mod digest_pin;
pub mod drop_in;
mod enqueue;
pub mod facts;
mod fenced;
pub mod health;
pub mod held_shards;
pub mod history;
pub mod host_informers;
pub mod hosted_plugin;
pub mod hosted_plugins;
pub mod hot_loop;
mod installations;
mod long_run;
mod mapping_stage;
mod missing_kinds;
mod object_watch;
pub mod owners;
pub mod ownership;
mod pace;
pub mod queue;
pub mod reconcile;
mod records;
mod regained;
pub mod report;
pub mod retry;
mod roles;
pub mod running;
pub mod running_shards;
mod secrets;
pub mod setup;
pub mod shard_status;
pub mod source;
pub mod status;
mod traced;
pub mod triggers;
mod wiring;
