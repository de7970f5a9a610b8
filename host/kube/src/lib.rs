//! The part of Operetta that talks to an API server.
//!
//! Along the one-way flow: an [`informer`] watches and fills a [`store`], then calls its handlers; the
//! [`informer::registry`] shares one informer between all users of the same objects; [`authz`] asks the API server what a
//! plugin and the host itself may see, and shows a plugin only that; [`client`] answers a plugin's reads from the stores
//! and sends its writes; [`discovery`] resolves kinds to resources; [`events`] writes Events.

pub mod authz;
pub mod client;
pub mod discovery;
pub mod events;
pub mod informer;
pub mod store;
