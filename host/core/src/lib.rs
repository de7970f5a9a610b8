//! The logic of a controller host, without Kubernetes clients, sandboxes or sockets.
//!
//! Kinds, objects and keys; events, predicates and the handlers that turn them into keys; the work queue and the
//! controller that drains it; the gate that every guest call passes; the traits at which `operetta-kube` and
//! `operetta-wasm` plug in. Nothing here does I/O or starts a thread, so everything here is tested with paused time.

pub mod authz;
pub mod conflict;
pub mod controller;
pub mod gate;
pub mod handler;
pub mod hot_loop;
pub mod manifest;
pub mod object;
pub mod ports;
pub mod predicate;
pub mod queue;
pub mod status;
