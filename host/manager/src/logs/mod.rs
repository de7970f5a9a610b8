//! Logs: what plugins log, how much of it is kept, and the audit log of their writes.

pub mod audit;
mod quota;
pub mod store;
