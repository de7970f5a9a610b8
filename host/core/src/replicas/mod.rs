//! The replicas of a host and the Plugins that each of them runs.
//!
//! The replicas are the members of a [`Group`], which one object of the API server stores. Each
//! member has an epoch, a number that no other member ever has. The keys of a Plugin are split into
//! [`Shard`]s; most Plugins have one. [`assigned_shards`] assigns each shard to one member. The
//! owner of a shard is the epoch in the Plugin's status; [`plan`] decides what a replica does with
//! a Plugin. So no two replicas act for a shard:
//!
//! - a shard without an owner is claimed by a write that is conditional on the Plugin's
//!   resourceVersion;
//! - an owner that is a member keeps the shard until it writes another owner itself, after it has
//!   stopped acting;
//! - an owner that is no member does not act: a member is removed only after its Lease was taken
//!   from it ([`Silence`]), and a replica acts only while its [`Fence`] stands, which is until its
//!   Lease may be taken. Somebody may also delete or edit these objects by hand. So a shard of such
//!   an owner is claimed only after the owner's Lease is gone, and later still if the object that
//!   stored the group was deleted ([`Group::is_earlier`]);
//! - the number of shards changes when no member is the owner of any, and each former owner's Lease
//!   is gone.
//!
//! ```
//! use operetta_core::{
//!     object::ObjectKey,
//!     replicas::{Group, Plan, Role, Shard, plan},
//! };
//!
//! let mut group = Group::default();
//! let me = group.join("replica-a");
//! let plugin = ObjectKey::namespaced("team", "contact");
//! assert_eq!(plan(me, &plugin, 1, &[None], &group), Plan::Act(vec![(Shard::WHOLE, Role::Claim)]));
//! ```

mod fence;
mod group;
mod ownership;
mod rendezvous;
mod shard;
mod silence;

pub use fence::Fence;
pub use group::{Epoch, Group, InvalidGroup, Member};
pub use ownership::{Owner, Plan, Role, SentHandOver, plan};
pub use rendezvous::{assigned, assigned_shards};
pub use shard::Shard;
pub use silence::Silence;
