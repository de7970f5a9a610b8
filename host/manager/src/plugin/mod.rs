//! Plugins: the controller that reconciles them, from consent to status, and the one that creates
//! them for drop-in ConfigMaps.
//!
//! [`controller`] is the place to start: it shows what happens to a Plugin. The modules beside it
//! decide which replica acts ([`ownership`]), which code runs ([`source`]) with which configuration
//! ([`config`]), how its controllers are set up ([`setup`]) or its process is run ([`process`]), what
//! people get to see ([`status`]), and how it ends ([`teardown`]).

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
pub mod process;
pub mod queue;
pub mod retry;
pub mod setup;
pub mod source;
pub mod status;
pub mod teardown;
pub mod triggers;
