//! Labels under `operetta.dev/`.

/// Label of a namespace in which plugins may run: `enabled`, or `pinned` if consent must name
/// digests.
pub const PLUGINS: &str = "operetta.dev/plugins";

/// Label of a ConfigMap that holds a component; its value is `true`.
pub const PLUGIN: &str = "operetta.dev/plugin";

/// Label of each part of a component but the first: the name of the first part's ConfigMap.
pub const PART_OF: &str = "operetta.dev/part-of";

/// Label of the host replicas' Leases: `replica`, or `group` for the list of members.
pub const LEASE: &str = "operetta.dev/lease";
