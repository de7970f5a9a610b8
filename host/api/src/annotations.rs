//! Annotations under `operetta.dev/`.

/// Annotation of a ServiceAccount: the Plugins that may act as it, separated by commas. `NAME` and
/// `*` allow any code, `NAME@sha256:HASH` only code with that digest.
pub const ALLOW_PLUGINS: &str = "operetta.dev/allow-plugins";

/// Annotation of a ConfigMap with a component: the ServiceAccount that the plugin acts as.
pub const SERVICE_ACCOUNT: &str = "operetta.dev/service-account";

/// Annotation of a ConfigMap with a component: `true` suspends the plugin.
pub const SUSPEND: &str = "operetta.dev/suspend";

/// Annotation of a ConfigMap with a component: `true` keeps instances between reconciles.
pub const WARM: &str = "operetta.dev/warm";

/// Annotation of a ConfigMap with a component: `sha256:` and the hash, in hex, of the component
/// itself, not compressed. It becomes the Plugin's `spec.digest`.
pub const COMPONENT_DIGEST: &str = "operetta.dev/component-digest";

/// Annotation of the first part of a component: the number of parts.
pub const PARTS: &str = "operetta.dev/parts";

/// Annotation of each part but the first: its number, from 2 on.
pub const PART: &str = "operetta.dev/part";

/// Annotation of every part: `sha256:` and the hex digest of the whole file as it is stored.
pub const DIGEST: &str = "operetta.dev/digest";

/// Annotation of a Plugin: the least severe level that it logs: `error`, `warn`, `info`, `debug` or
/// `trace`.
pub const LOG_LEVEL: &str = "operetta.dev/log-level";

/// Annotation of a Plugin in `CrashQuarantined`: a new value asks the host to load the code again.
pub const RETRY: &str = "operetta.dev/retry";

/// Annotation of the replica group's Lease: the group's members, as EPOCH=IDENTITY, separated by
/// commas.
pub const MEMBERS: &str = "operetta.dev/members";

/// Annotation of the replica group's Lease: the epochs of members that are handing over their
/// Plugins, separated by commas.
pub const LEAVING: &str = "operetta.dev/leaving";

/// Annotation of a replica's Lease: the IP address and port of its endpoints for users.
pub const ADDRESS: &str = "operetta.dev/address";

/// Annotation of a replica's Lease: the certificate that it shows to other replicas, in PEM.
pub const CERTIFICATE: &str = "operetta.dev/certificate";

/// Annotation of a Plugin that `operetta adopt` has made: a List in JSON with the Deployment that it
/// replaces, and the webhook configurations that were left out.
pub const ADOPTED: &str = "operetta.dev/adopted";
