//! An embedded Kubernetes API server for development, tests and simulation.
//!
//! It keeps objects in memory. What it does, it does as kube-apiserver does; what it does not do, it refuses.

pub mod admission;
pub mod apply;
pub mod authz;
mod cel;
pub mod crd;
pub mod embedded;
mod field;
mod golang;
pub mod http;
pub mod kinds;
mod openapi_v2;
pub mod store;
