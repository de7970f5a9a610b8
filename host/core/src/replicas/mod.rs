//! The replicas of a host and the Plugins that each of them runs.
//!
//! The replicas are the members of a [`Group`], which one object of the API server stores. Each member has an epoch, a
//! number that no other member ever has. [`assigned`] assigns each Plugin to one member. The owner of a Plugin is the
//! epoch in its status; [`role`] decides what a replica does with a Plugin. So no two replicas act for a Plugin:
//!
//! - a Plugin without an owner is claimed by a write that is conditional on its resourceVersion;
//! - an owner that is a member keeps the Plugin until it writes another owner itself, after it has stopped acting;
//! - an owner that is no member does not act: a member is removed only after its Lease was taken from it
//!   ([`Silence`]), and a replica acts only while its [`Fence`] stands, which is until its Lease may be taken. Somebody
//!   may also delete or edit these objects by hand. So a Plugin of such an owner is claimed only after the owner's Lease
//!   is gone, and later still if the object that stored the group was deleted ([`Group::is_earlier`]).
//!
//! ```
//! use operetta_core::{
//!     object::ObjectKey,
//!     replicas::{Group, Role, role},
//! };
//!
//! let mut group = Group::default();
//! let me = group.join("replica-a");
//! let plugin = ObjectKey::namespaced("team", "contact");
//! assert_eq!(role(me, &plugin, None, &group), Role::Claim);
//! ```

mod fence;
mod group;
mod ownership;
mod rendezvous;
mod silence;

pub use fence::Fence;
pub use group::{Epoch, Group, InvalidGroup, Member};
pub use ownership::{Owner, Role, role};
pub use rendezvous::assigned;
pub use silence::Silence;
