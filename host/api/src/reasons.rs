//! Reasons of a Plugin's conditions and of the host's Events. They are stable, because scripts match on them.

macro_rules! reasons {
    ($($(#[$doc:meta])+ $name:ident = $text:literal;)+) => {
        $($(#[$doc])+ pub const $name: &str = $text;)+

        /// All reasons of this module.
        pub const ALL: &[&str] = &[$($text),+];
    };
}

reasons! {
    /// Nothing is wrong.
    AS_EXPECTED = "AsExpected";
    /// The component is loaded.
    LOADED = "Loaded";
    /// The component is being loaded.
    LOADING = "Loading";
    /// No component is loaded.
    NOT_LOADED = "NotLoaded";
    /// The component is not loaded: consent is missing.
    NOT_PERMITTED = "NotPermitted";
    /// All controllers run.
    RUNNING = "Running";
    /// `spec.suspend` is true.
    SUSPENDED = "Suspended";
    /// The first list of a watched kind has not arrived yet.
    SYNCING = "Syncing";

    /// The namespace is not opted in.
    NAMESPACE_NOT_ENABLED = "NamespaceNotEnabled";
    /// The namespace is reserved for the cluster or the host.
    NAMESPACE_RESERVED = "NamespaceReserved";
    /// The Plugin names no ServiceAccount, or one that no plugin may use.
    SERVICE_ACCOUNT_REQUIRED = "ServiceAccountRequired";
    /// The ServiceAccount does not exist.
    SERVICE_ACCOUNT_NOT_FOUND = "ServiceAccountNotFound";
    /// The ServiceAccount's name is invalid.
    INVALID_SERVICE_ACCOUNT = "InvalidServiceAccount";
    /// The ServiceAccount does not allow this plugin to act as it.
    CONSENT_MISSING = "ConsentMissing";
    /// The ServiceAccount does not allow this code, or names no digest although it must.
    CODE_NOT_ALLOWED = "CodeNotAllowed";
    /// The ServiceAccount lacks a permission that the plugin needs.
    FORBIDDEN = "Forbidden";
    /// The host lacks the permission for a watch that the plugin needs, or to impersonate its ServiceAccount.
    HOST_FORBIDDEN = "HostForbidden";

    /// The source does not exist.
    SOURCE_NOT_FOUND = "SourceNotFound";
    /// The source exists, but reading it failed.
    SOURCE_UNREADABLE = "SourceUnreadable";
    /// This version of the host does not support this kind of source.
    SOURCE_NOT_SUPPORTED = "SourceNotSupported";
    /// The ConfigMap holds no component.
    NO_WASM_IN_CONFIG_MAP = "NoWasmInConfigMap";
    /// The ConfigMap holds several components, and the Plugin names none of them.
    SEVERAL_WASM_IN_CONFIG_MAP = "SeveralWasmInConfigMap";
    /// The path names no component.
    NO_WASM_AT_PATH = "NoWasmAtPath";
    /// The path leaves the plugin directory.
    PATH_OUTSIDE = "PathOutside";
    /// The host's configuration has no plugin directory.
    PATHS_NOT_ENABLED = "PathsNotEnabled";
    /// The compressed component cannot be decompressed.
    DAMAGED_ARCHIVE = "DamagedArchive";
    /// The annotations of a split component are invalid.
    INVALID_PARTS = "InvalidParts";
    /// Parts of a split component are missing.
    PARTS_MISSING = "PartsMissing";
    /// The joined parts have another digest.
    WRONG_DIGEST = "WrongDigest";
    /// The component's digest is not `spec.digest`.
    DIGEST_MISMATCH = "DigestMismatch";

    /// The file is not WebAssembly.
    NOT_WASM = "NotWasm";
    /// The component exceeds the host's size limit.
    TOO_LARGE = "TooLarge";
    /// The file is a core module, not a component.
    CORE_MODULE = "CoreModule";
    /// The component is not valid.
    INVALID_COMPONENT = "InvalidComponent";
    /// The component uses a version of the contract that the host does not support.
    UNSUPPORTED_VERSION = "UnsupportedVersion";
    /// The component lacks a required export.
    MISSING_EXPORT = "MissingExport";
    /// An export of the component has another type than in the contract.
    INCOMPATIBLE_EXPORT = "IncompatibleExport";
    /// The manifest has a custom mapping, and the component exports no mapper.
    MISSING_MAPPER = "MissingMapper";
    /// The component imports something that the host does not provide.
    MISSING_IMPORT = "MissingImport";
    /// An import of the component has another type than the host's.
    INCOMPATIBLE_IMPORT = "IncompatibleImport";
    /// The component does not compile.
    COMPILE_FAILED = "CompileFailed";
    /// Compiling the component takes more memory than allowed.
    COMPILE_MEMORY_EXCEEDED = "CompileMemoryExceeded";
    /// Compiling the component takes longer than allowed.
    COMPILE_TIMED_OUT = "CompileTimedOut";
    /// The component trapped in `describe`.
    DESCRIBE_TRAPPED = "DescribeTrapped";
    /// `describe` took longer than allowed.
    DESCRIBE_TIMED_OUT = "DescribeTimedOut";
    /// `describe` took more memory than allowed.
    DESCRIBE_MEMORY_EXCEEDED = "DescribeMemoryExceeded";
    /// The manifest that `describe` returned is invalid.
    INVALID_MANIFEST = "InvalidManifest";
    /// The host crashed while it parsed, decompressed or loaded the object, which it therefore retries last and alone.
    CRASH_SUSPECTED = "CrashSuspected";
    /// The host crashed twice in a row while it parsed, decompressed or loaded the object, which it therefore does not retry.
    CRASH_QUARANTINED = "CrashQuarantined";
    /// The host lacks memory or mappings to load the component now.
    BUSY = "Busy";

    /// The Plugin overrides a controller that the manifest does not declare.
    UNKNOWN_CONTROLLER = "UnknownController";
    /// A predicate of the Plugin is invalid.
    INVALID_PREDICATE = "InvalidPredicate";
    /// A selector of the manifest is invalid.
    INVALID_SELECTOR = "InvalidSelector";
    /// A kind of the manifest is invalid.
    INVALID_KIND = "InvalidKind";
    /// The API server does not serve a kind.
    KIND_NOT_FOUND = "KindNotFound";
    /// The API server does not support watches of a kind.
    KIND_NOT_WATCHABLE = "KindNotWatchable";
    /// A watch fails.
    WATCH_FAILING = "WatchFailing";
    /// The plugin's share of the cache exceeds its quota.
    CACHE_QUOTA_EXCEEDED = "CacheQuotaExceeded";
    /// The namespace has as many Plugins, controllers or sources as its quota allows.
    QUOTA_EXCEEDED = "QuotaExceeded";

    /// A ConfigMap or Secret of the configuration, or a key of it, does not exist.
    CONFIG_NOT_FOUND = "ConfigNotFound";
    /// The ServiceAccount may not read a part of the configuration.
    CONFIG_FORBIDDEN = "ConfigForbidden";
    /// The configuration exceeds its size limit.
    CONFIG_TOO_LARGE = "ConfigTooLarge";
    /// A part of the configuration is not an object.
    INVALID_CONFIG = "InvalidConfig";

    /// A Plugin with the ConfigMap's name exists and is not owned by the ConfigMap.
    PLUGIN_EXISTS = "PluginExists";
    /// The API server rejects the Plugin that the ConfigMap describes.
    INVALID_PLUGIN = "InvalidPlugin";
    /// The annotations or the configuration of the ConfigMap are invalid.
    INVALID_PLUGIN_CONFIG = "InvalidPluginConfig";

    /// Reconciles fail again and again.
    RECONCILE_FAILING = "ReconcileFailing";
    /// A reconcile failed and asked not to be retried.
    TERMINAL_ERROR = "TerminalError";
    /// A reconcile trapped.
    RECONCILE_TRAPPED = "ReconcileTrapped";
    /// A call exceeded its deadline.
    DEADLINE_EXCEEDED = "DeadlineExceeded";
    /// A call exceeded its limit of memory.
    MEMORY_EXCEEDED = "MemoryExceeded";
    /// A custom mapping fails again and again.
    MAP_FAILING = "MapFailing";
    /// A custom mapping trapped.
    MAP_TRAPPED = "MapTrapped";
    /// A custom mapping returned invalid keys.
    INVALID_KEYS = "InvalidKeys";
    /// The plugin's own writes trigger its reconciles: the key is delayed.
    HOT_LOOP = "HotLoop";
    /// The plugin's own writes trigger its reconciles: the key is not reconciled any more.
    QUARANTINED = "Quarantined";
    /// Two controllers change the same fields back and forth.
    FIGHTING_CONTROLLERS = "FightingControllers";
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn reasons_are_unique_camel_case_words() {
        let unique: HashSet<_> = ALL.iter().collect();
        assert_eq!(unique.len(), ALL.len());
        for reason in ALL {
            assert!(reason.starts_with(|first: char| first.is_ascii_uppercase()), "{reason}");
            assert!(reason.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{reason}");
        }
    }
}
