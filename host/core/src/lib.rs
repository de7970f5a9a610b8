//! What a controller host is, without Kubernetes clients, sandboxes or sockets.
//!
//! Kinds, objects and keys; events, predicates and the handlers that turn them into keys; the workqueue; the fair
//! scheduler of guests; the gate that every guest call passes; the traits at which `operetta-kube` and `operetta-wasm`
//! plug in. Nothing here does I/O, so everything here is tested with paused time.

pub mod audit;
mod body;
pub mod changes;
pub mod controller;
pub mod event;
pub mod fair;
pub mod fights;
pub mod gate;
pub mod grants;
pub mod handler;
mod head;
pub mod hot_loop;
pub mod kind;
pub mod manifest;
pub mod mapping;
pub mod object;
pub mod observed;
pub mod operation;
pub mod ports;
pub mod predicate;
pub mod projection;
pub mod prune;
pub mod queue;
pub mod raw;
pub mod request;
mod scan;
pub mod selector;
pub mod status;
pub mod throttle;
