//! The Kubernetes side of Operetta: everything that talks to an API server.
//!
//! Data flows one way. An [`informer`] watches and fills a [`store`], then calls its handlers. The
//! [`informer::registry`] shares one informer between all users of the same objects. [`authz`] asks
//! the API server what a plugin and the host itself may see, and filters what a plugin gets.
//! [`client`] answers a plugin's reads from the stores and sends its writes. [`endpoint`] is the API
//! server that an operator's process sees. [`discovery`] resolves kinds to resources, and [`events`]
//! writes Events.
//!
//! ```
//! # use std::sync::Arc;
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let control_plane = operetta_testkit::ControlPlane::start(&[])?;
//! # let client = control_plane.client().await;
//! use operetta_core::object::kind::GroupVersionKind;
//! use operetta_kube::{
//!     client::api_client::{ApiClient, Identity},
//!     discovery::Discovery,
//!     informer::{Scope, registry::InformerRegistry},
//!     store::Lookup,
//! };
//!
//! let api_client = ApiClient::new(client, &Identity::Host)?;
//! let discovery = Discovery::new(api_client.clone());
//! let namespaces = discovery.wait_for(&GroupVersionKind::new("v1", "Namespace")).await;
//! let informer = InformerRegistry::new(api_client).informer(&namespaces, Scope::everything());
//! let subscription =
//!     informer.subscribe(Arc::new(|event| println!("{}", event.object().key())), None);
//! subscription.synced().await;
//! let mut cached = informer.cache.store.list(&Lookup::All, None, None);
//! assert!(cached.any(|namespace| namespace.key().name == "kube-system"));
//! # Ok(())
//! # }
//! ```

pub mod authz;
pub mod client;
pub mod clock;
pub mod discovery;
pub mod endpoint;
pub mod events;
pub mod informer;
pub mod store;
