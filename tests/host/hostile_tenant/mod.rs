//! Attacks of a tenant with kubectl. A user who may create ConfigMaps or Plugins in one namespace
//! tries to harm the host or its neighbours, or to keep a plugin running after consent was
//! withdrawn.

mod configurations;
mod limits;
mod pins;
mod resources;
mod revocation;
mod sources;
mod swaps;
