//! The errors of commands that the user can cure.

reasons! {
    Commands:
    /// The Plugin does not exist in this namespace.
    PLUGIN_NOT_FOUND = "PluginNotFound",
        "`kubectl get plugins -A` lists all; `-n` selects the namespace.";
    /// No host has written its address into the status of the Plugin, or of any Plugin.
    HOST_UNKNOWN = "HostUnknown",
        "Check that a host runs, and that its `/readyz` succeeds. Or name it with `--host`.";
    /// The Plugins are assigned to several hosts.
    SEVERAL_HOSTS = "SeveralHosts",
        "Select one with `--host`.";
    /// The host's admin port cannot be reached from here. In a Pod it listens on loopback.
    HOST_UNREACHABLE = "HostUnreachable",
        "`kubectl port-forward -n operetta-system pod/POD 8080`, and `--host localhost:8080`; POD is the first part of the \
         Plugin's `status.replica`.";
    /// The host has recorded no calls of the plugin: it is suspended, does not run, or has not reconciled yet.
    NOTHING_RECORDED = "NothingRecorded",
        "Let the plugin do all of its work first. Or use `operetta generate rbac FILE.wasm`, which needs no running plugin.";
    /// The ServiceAccount consents to no plugin, so the host cannot be granted it.
    NOT_GRANTABLE = "NotGrantable",
        "Annotate the ServiceAccount: `kubectl annotate serviceaccount NAME -n NAMESPACE operetta.dev/allow-plugins=PLUGIN`.";
    /// A tool that the project's language needs is not installed, or too old.
    TOOL_MISSING = "ToolMissing",
        "Install it with the command in the message, or set `OPERETTA_TOOLS` to the folder that has it in `bin`.";
    /// The language's compiler failed. Its own output is above the error.
    COMPILER_FAILED = "CompilerFailed",
        "Correct what the compiler reports. `operetta build` prints the compiler's command line.";
    /// The folder has no project of a known language, or has several.
    NO_PROJECT = "NoProject",
        "Name the project's folder: `operetta build DIR`. It is recognized by one of the files that the message lists.";
    /// The name cannot be that of a plugin or a namespace.
    INVALID_NAME = "InvalidName",
        "Use lower case letters, digits and `-`, at most 63, as Kubernetes does for labels (RFC 1123).";
}
