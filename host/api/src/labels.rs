//! Labels under `operetta.dev/`.

/// Label of a namespace in which plugins may run: `enabled`, or `pinned` if consent must name
/// digests.
pub const PLUGINS: &str = "operetta.dev/plugins";

/// Label of a namespace whose plugins are run by the hosts of a trust class: the name of the class.
/// The hosts without a class run the namespaces without the label.
pub const CLASS: &str = "operetta.dev/class";

/// Label of a ConfigMap that holds a component; its value is `true`.
pub const PLUGIN: &str = "operetta.dev/plugin";

/// Label of each part of a component but the first: the name of the first part's ConfigMap.
pub const PART_OF: &str = "operetta.dev/part-of";

/// Label of the host replicas' Leases: `replica`, or `group` for the list of members. Those of the
/// hosts of a trust class are `replica.CLASS` and `group.CLASS`.
pub const LEASE: &str = "operetta.dev/lease";
