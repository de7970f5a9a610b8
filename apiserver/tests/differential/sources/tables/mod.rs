//! Requests from the tables of this crate's other tests.

pub mod admission;
pub mod apply;
pub mod authz;
pub mod crd;
pub mod http;
pub mod impersonation;
pub mod kinds;
