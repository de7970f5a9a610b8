//! Attacks of a tenant with kubectl: who may create ConfigMaps, or Plugins, in one namespace, tries to hurt the host, its
//! neighbours, or to go on after consent was withdrawn.

mod configurations;
mod pins;
mod resources;
mod revocation;
mod sources;
