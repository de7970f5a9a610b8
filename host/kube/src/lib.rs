//! The Kubernetes side of Operetta: everything that talks to an API server.
//!
//! Data flows one way. An [`informer`] watches and fills a [`store`], then calls its handlers; the
//! [`informer::registry`] shares one informer between all users of the same objects; [`authz`] asks the API server what
//! a plugin and the host itself may see, and filters what a plugin gets; [`client`] answers a plugin's reads from the
//! stores and sends its writes; [`discovery`] resolves kinds to resources; [`events`] writes Events.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use operetta_core::object::kind::GroupVersionKind;
//! use operetta_kube::{
//!     client::wire::{Identity, Wire},
//!     discovery::Discovery,
//!     informer::{Scope, registry::InformerRegistry},
//! };
//!
//! let wire = Wire::new(client, &Identity::Host)?;
//! let pods = Discovery::new(wire.clone()).wait_for(&GroupVersionKind::new("v1", "Pod")).await;
//! let informer = InformerRegistry::new(wire).informer(&pods, Scope::everything());
//! let _subscription = informer.subscribe(Arc::new(|event| println!("{}", event.object().key())), None);
//! informer.synced().await;
//! # Ok(())
//! # }
//! ```

pub mod authz;
pub mod client;
pub mod discovery;
pub mod events;
pub mod informer;
pub mod store;
