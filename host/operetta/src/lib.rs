//! From ConfigMaps to the bytes of a component: what the host makes of whatever people put there. The rest of the host is
//! the binary's.

pub mod artifact;
pub mod parts;
