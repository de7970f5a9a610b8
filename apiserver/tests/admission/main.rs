//! Compares admission with the recorded answers of kube-apiserver 1.36.
//!
//! The tables are written by the `record_*.py` scripts of this folder.

mod expressions;
mod limits;
mod plugins;
mod pod_security;
mod policies;
#[path = "../authz/store.rs"]
mod store;
#[path = "../authz/tables.rs"]
mod tables;
mod wrong_policies;

use tables::{status, table};
