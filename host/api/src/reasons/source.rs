//! The reasons why no component was found.

reasons! {
    Source:
    /// The ConfigMap or file that `spec.source` names does not exist.
    SOURCE_NOT_FOUND = "SourceNotFound",
        "Create it, or correct `spec.source`. A ConfigMap must be in the Plugin's namespace.";
    /// The source exists, but the host failed to read it.
    SOURCE_UNREADABLE = "SourceUnreadable",
        "Read the cause in the message. For a file, let the host's user read it. The host retries when the source changes.";
    /// This version of the host does not support this kind of source.
    SOURCE_NOT_SUPPORTED = "SourceNotSupported",
        "Use `spec.source.configMap` or `spec.source.path`.";
    /// The ConfigMap has no key in `binaryData` that ends in `.wasm` or `.wasm.zst`, or not the one
    /// that the Plugin names.
    NO_WASM_IN_CONFIG_MAP = "NoWasmInConfigMap",
        "Make the ConfigMap with `operetta bundle FILE.wasm`, or correct `spec.source.configMap.key`.";
    /// The ConfigMap holds several components, and the Plugin names none of them.
    SEVERAL_WASM_IN_CONFIG_MAP = "SeveralWasmInConfigMap",
        "Set `spec.source.configMap.key`, or keep one component in each ConfigMap.";
    /// The path is not a file that ends in `.wasm` or `.wasm.zst`.
    NO_WASM_AT_PATH = "NoWasmAtPath",
        "Correct `spec.source.path`.";
    /// The path leaves the host's directory of plugins, for example by `..` or a symbolic link.
    PATH_OUTSIDE = "PathOutside",
        "Copy the file below `pluginDirectory` of the host's configuration.";
    /// The host's configuration has no directory of plugins.
    PATHS_NOT_ENABLED = "PathsNotEnabled",
        "Use `spec.source.configMap`, or set `pluginDirectory` in the host's configuration and restart the host.";
    /// The compressed component is damaged or truncated.
    DAMAGED_ARCHIVE = "DamagedArchive",
        "Compress it again with `operetta bundle FILE.wasm`.";
    /// The annotations of a component in parts are not valid.
    INVALID_PARTS = "InvalidParts",
        "Apply the output of `operetta bundle FILE.wasm` without changes.";
    /// Parts of a component in parts are missing, or belong to another version.
    PARTS_MISSING = "PartsMissing",
        "Apply all ConfigMaps that `operetta bundle FILE.wasm` prints. The host waits for those that the message names.";
    /// The joined parts have another digest than their annotations.
    WRONG_DIGEST = "WrongDigest",
        "Bundle the component again, and apply all parts.";
    /// The component's digest is not `spec.digest`, or somebody else has set another digest than
    /// the ConfigMap's annotation.
    DIGEST_MISMATCH = "DigestMismatch",
        "If the new code is the one you want, change `spec.digest`; for a drop-in, run `operetta bundle` again and apply its \
         output. If nobody changed the code on purpose, find out who did. Earlier code keeps running.";
}
