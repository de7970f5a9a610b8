//! The logic of a controller host, without Kubernetes clients, sandboxes or sockets.
//!
//! Kinds, objects and keys; events, predicates and the handlers turning them into keys; the work
//! queue and the controller draining it; the gate in front of every guest call; the traits
//! implemented by `operetta-kube` and `operetta-wasm`. Nothing here does I/O or starts a thread:
//! waiting happens in tasks on tokio's clock, so that tests can pause time. The machine's clock is
//! read for a single date, the beginning of a record of permissions.
//!
//! ```
//! use operetta_core::object::{ManagedFields, Object, ObjectKey, kind::GroupVersionKind};
//!
//! let text = r#"{"metadata":{"name":"web","namespace":"default"},"spec":{"nodeName":"n1"}}"#;
//! let pod = Object::from_json(text, &GroupVersionKind::new("v1", "Pod"), ManagedFields::Drop)?;
//! assert_eq!(pod.key(), &ObjectKey::namespaced("default", "web"));
//! assert_eq!(pod.scalar_at(".spec.nodeName").as_deref(), Some("n1"));
//! # Ok::<(), operetta_core::object::ObjectError>(())
//! ```

pub mod authz;
pub mod conflict;
pub mod controller;
pub mod gate;
pub mod handler;
pub mod hot_loop;
pub mod manifest;
pub mod nondeterminism;
pub mod object;
pub mod panics;
pub mod ports;
pub mod predicate;
pub mod queue;
pub mod recorder;
pub mod remedy;
pub mod replicas;
pub mod status;
