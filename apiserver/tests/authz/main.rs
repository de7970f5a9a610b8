//! Compares authentication, authorization and impersonation with the recorded answers of
//! kube-apiserver 1.36.
//!
//! The tables are written by the `record_*.py` scripts of this folder.

mod decisions;
mod escalations;
mod impersonation;
mod reviews;
mod store;
mod tables;
mod tokens;

use tables::{status, table};
