//! Plugins: the controller that reconciles them, from consent to status, and the controller that
//! makes them for drop-in ConfigMaps.
//!
//! [`controller`] tells what happens to a Plugin. It decides with the rooms beside it: which
//! replica acts ([`ownership`]), which code runs ([`source`]) with which configuration
//! ([`config`]), how its controllers are made ([`setup`]), and what people are told ([`status`]).

pub mod config;
pub mod controller;
pub mod crash_guard;
pub mod crd;
pub mod drop_in;
pub mod history;
pub mod host_informers;
pub mod hosted_plugin;
pub mod hosted_plugins;
pub mod ownership;
pub mod queue;
pub mod retry;
pub mod setup;
pub mod source;
pub mod status;
pub mod triggers;
