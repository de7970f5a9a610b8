//! The replicas of a host, and which Plugins each of them runs.
//!
//! The replicas are the members of a [`Group`], stored in one object of the API server. Each member
//! has an epoch, a number no other member ever has. A Plugin's keys are split into [`Shard`]s; most
//! Plugins have one. [`assigned_shards`] assigns each shard to one member. A shard's owner is the
//! epoch in the Plugin's status; [`plan`] decides what a replica does with a Plugin. This keeps two
//! replicas from acting for the same shard:
//!
//! - to claim a shard without an owner, a replica writes on condition of the Plugin's
//!   resourceVersion;
//! - an owner among the members keeps the shard until it has stopped acting and then writes another
//!   owner itself;
//! - an owner outside the members does not act: a member is removed only after its Lease was taken
//!   from it ([`Silence`]), and a replica acts only while its [`Fence`] stands, that is, until its
//!   Lease may be taken. But somebody may also delete or edit these objects by hand. So such an
//!   owner's shard is claimed only after the owner's Lease is gone, and later still if the group's
//!   object was deleted ([`Group::is_earlier`]);
//! - the number of shards changes only when no member owns any, and each former owner's Lease is
//!   gone.
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
