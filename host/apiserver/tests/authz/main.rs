//! Holds authentication, authorization and impersonation against answers that kube-apiserver 1.36 gave.
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
