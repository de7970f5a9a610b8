//! The reasons why the host refuses a component.

reasons! {
    Component:
    /// The file is not WebAssembly.
    NOT_WASM = "NotWasm",
        "Use the file that `operetta build` has written. The message has the first bytes of this one.";
    /// The component exceeds the host's size limit.
    TOO_LARGE = "TooLarge",
        "Make it smaller: build without `--debug`, with fewer dependencies. Or raise `maxWasmBytes` of the host's \
         configuration; for a process, put it into a file (`spec.source.path`), whose limit is `maxProcessBytes`.";
    /// The file is a core module, not a component.
    CORE_MODULE = "CoreModule",
        "Build with `operetta build`, or make a component of the module with `operetta component FILE.wasm`.";
    /// The component is truncated or malformed.
    INVALID_COMPONENT = "InvalidComponent",
        "Build it again with a current toolchain, and compare the digests of `operetta check` before and after copying it.";
    /// The component uses a version of the contract that the host does not support.
    UNSUPPORTED_VERSION = "UnsupportedVersion",
        "Build it with the SDK of the host's version, or upgrade the host.";
    /// The component does not export the reconciler, so it is not a plugin.
    MISSING_EXPORT = "MissingExport",
        "Build it with an SDK, or export the interface `reconciler` of wit/controller.wit.";
    /// The functions of an export are not those of the contract.
    INCOMPATIBLE_EXPORT = "IncompatibleExport",
        "Generate the bindings again from the host's wit/controller.wit.";
    /// The manifest has a mapping of the type `Custom`, and the component exports no mapper.
    MISSING_MAPPER = "MissingMapper",
        "Export the interface `mapper`: in Rust with `mapping_plugin!` instead of `plugin!`; the other SDKs export it.";
    /// The component imports something that the host does not provide.
    MISSING_IMPORT = "MissingImport",
        "Remove the dependency that needs it, such as one on sockets or files: plugins reach the API server only through the \
         contract. `operetta check` lists the imports.";
    /// An import of the component has other functions or types than the host's.
    INCOMPATIBLE_IMPORT = "IncompatibleImport",
        "Generate the bindings again from the host's wit/controller.wit.";
    /// The component does not compile: it is invalid, needs an unsupported feature, or exceeds a
    /// limit of the engine.
    COMPILE_FAILED = "CompileFailed",
        "Read the cause in the message. A very large function or table is often generated code: split it.";
    /// Compiling the component takes more memory than the host allows.
    COMPILE_MEMORY_EXCEEDED = "CompileMemoryExceeded",
        "Make it smaller, or raise the setting of the host's configuration that the message names together with the Pod's memory limit.";
    /// Compiling the component takes longer than the host allows.
    COMPILE_TIMED_OUT = "CompileTimedOut",
        "Make it smaller, or raise the setting that the message names, if it names one.";
    /// The component trapped in `describe`, which returns its manifest.
    DESCRIBE_TRAPPED = "DescribeTrapped",
        "Read the trap message. Code that runs before the first reconcile, such as initializers, must not call the API \
         server.";
    /// `describe` took longer than the host allows.
    DESCRIBE_TIMED_OUT = "DescribeTimedOut",
        "Do less before the manifest is returned; in Go, let `operetta build` take a snapshot.";
    /// `describe` took more memory than the host allows.
    DESCRIBE_MEMORY_EXCEEDED = "DescribeMemoryExceeded",
        "Allocate less before the manifest is returned.";
    /// The manifest that `describe` returned is not valid.
    INVALID_MANIFEST = "InvalidManifest",
        "Correct the field that the message names; wit/manifest.schema.json is the manifest's schema.";
    /// The host crashed while it parsed, decompressed or loaded this object. It loads it last, and
    /// one such object of a namespace at a time.
    CRASH_SUSPECTED = "CrashSuspected",
        "Wait. If it was not the cause, it loads. If the host ran out of memory, raise its limit.";
    /// The host crashed twice in a row while it parsed, decompressed or loaded this object (three
    /// times if it did so with others as well), and does not retry.
    CRASH_QUARANTINED = "CrashQuarantined",
        "Change the component or the configuration. Or, after raising the host's memory limit: `kubectl annotate plugin PLUGIN \
         -n NAMESPACE --overwrite operetta.dev/retry=$(date +%s)`.";
    /// The host lacks memory or address space to load the component now. It retries.
    BUSY = "Busy",
        "Wait. If it lasts, raise the host's memory limit and `mappedCodeMiB` of its configuration.";
}
