//! Everything of Operetta that talks to an API server.
//!
//! Along the one-way flow: [`informer`] watches and fills a [`store`], then tells its handlers; [`registry`] shares one
//! informer between all who ask for the same objects; [`view`] tells a plugin what RBAC, which [`access`] asks, lets it see;
//! [`reach`] says where the host itself may watch; [`object_api`] answers a plugin's reads from there (cached_reads.rs) and sends its writes; [`overlay`] lets reads see the
//! host's own writes before the watch brings them; [`needs`] notes what rights all that takes. [`discovery`] resolves kinds,
//! [`recorder`] writes Events, [`wire`] is one HTTP exchange. [`table`] has objects rendered as kubectl shows them, and
//! [`probe`] asks whether a collection can be read and how far it is.

pub mod access;
pub mod cache;
mod cached_reads;
pub mod connect;
pub mod correlator;
pub mod discovery;
pub mod informer;
pub mod needs;
pub mod object_api;
pub mod overlay;
pub mod probe;
mod raw;
pub mod reach;
pub mod recorder;
pub mod registry;
mod requests;
pub mod store;
pub mod table;
mod unchanged;
pub mod view;
pub mod wire;
