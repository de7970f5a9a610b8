//! The tables of the tests of this crate's parts, as requests.

pub mod admission;
pub mod apply;
pub mod authz;
pub mod crd;
pub mod http;
pub mod impersonation;
pub mod kinds;
