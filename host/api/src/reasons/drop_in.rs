//! The reasons why a drop-in ConfigMap does not become a Plugin.

reasons! {
    DropIn:
    /// A Plugin with the ConfigMap's name exists, and the ConfigMap does not own it.
    PLUGIN_EXISTS = "PluginExists",
        "Rename one of them, or remove the label `operetta.dev/plugin` from the ConfigMap.";
    /// The API server rejects the Plugin that the ConfigMap describes, or the host cannot decode a
    /// Plugin. The latter is also in the conditions of that Plugin.
    INVALID_PLUGIN = "InvalidPlugin",
        "Correct the field that the message names, in the ConfigMap's annotations or in the Plugin.";
    /// The annotations or the configuration of the ConfigMap are not valid.
    INVALID_PLUGIN_CONFIG = "InvalidPluginConfig",
        "Correct the annotation or the key that the message names.";
    /// Somebody changed a field of the Plugin that its ConfigMap decides, and the host put it back.
    PLUGIN_PUT_BACK = "PluginPutBack",
        "Change the annotation or the key of the ConfigMap that the message names. Only `suspend: true` may be set on the Plugin itself.";
}
