//! The reasons why a plugin's configuration cannot be read.

reasons! {
    Configuration:
    /// A ConfigMap or Secret of `spec.configFrom` or `spec.process`, or a key of it, does not
    /// exist.
    CONFIG_NOT_FOUND = "ConfigNotFound",
        "Create it, or set `optional: true` on the entry.";
    /// The ServiceAccount may not read a ConfigMap or Secret of `spec.configFrom` or
    /// `spec.process`.
    CONFIG_FORBIDDEN = "ConfigForbidden",
        "Let the ServiceAccount `get` it: the message has the command.";
    /// The configuration, or what `spec.process` names, exceeds its size limit.
    CONFIG_TOO_LARGE = "ConfigTooLarge",
        "Make it smaller, or let the plugin read the ConfigMap itself.";
    /// A part of the configuration is not an object, or exceeds a limit on its values or its
    /// nesting. Or a volume of `spec.process` has an impossible path, or a variable is no text.
    INVALID_CONFIG = "InvalidConfig",
        "Correct the part that the message names. Configuration is a JSON object or a YAML mapping, without anchors, aliases and merge keys.";
}
