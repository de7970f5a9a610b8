//! The errors of commands that the user can cure.

reasons! {
    Commands:
    /// The Plugin does not exist in this namespace.
    PLUGIN_NOT_FOUND = "PluginNotFound",
        "`kubectl get plugins -A` lists all; `-n` selects the namespace.";
    /// The cluster has no Service of the host, and no host has written its address into the status
    /// of the Plugin, or of any Plugin.
    HOST_UNKNOWN = "HostUnknown",
        "Check that a host runs, and that its `/readyz` succeeds. Name its namespace with `--host-namespace`, or its address \
         with `--host`.";
    /// The cluster has no Service of the host, and the Plugins are assigned to several hosts.
    SEVERAL_HOSTS = "SeveralHosts",
        "Select one with `--host`.";
    /// The cluster has no Service of the host, and the host's admin port cannot be reached from
    /// here. In a Pod it listens on loopback.
    HOST_UNREACHABLE = "HostUnreachable",
        "Install the Service `operetta` of deploy/base, or name the host's namespace with `--host-namespace`. Without a Service: \
         `kubectl port-forward -n operetta-system pod/POD 8080`, and `--host localhost:8080`; POD is the first part of the \
         Plugin's `status.replica`.";
    /// The namespace has no Service of the host.
    SERVICE_NOT_FOUND = "ServiceNotFound",
        "`kubectl get services -A -l app.kubernetes.io/name=operetta` lists the Services of hosts; `--host-namespace` selects \
         the namespace. The chart installs one if `metrics.enable` is true.";
    /// The user may not use the Service of the host through the API server.
    PROXY_FORBIDDEN = "ProxyForbidden",
        "An administrator binds the Role `operetta-proxy`: `kubectl create rolebinding NAME -n operetta-system \
         --role=operetta-proxy --user=USER`, or with `--group` or `--serviceaccount=NAMESPACE:NAME`.";
    /// The user may use the Service of the host, but not do this: read the log of a Plugin, its
    /// permissions or the informers, or retry its keys.
    ENDPOINT_FORBIDDEN = "EndpointForbidden",
        "For the log and the permissions of Plugins, bind a ClusterRole in their namespace: `kubectl create rolebinding NAME -n \
         NAMESPACE --clusterrole=operetta-log-reader --user=USER`, and to retry keys `operetta-retrier`. For the informers, bind a ClusterRole with the verb `get` on \
         the nonResourceURL `/informers`.";
    /// The user has no token that the host could check. The API server passes on neither a client
    /// certificate nor the user's name.
    TOKEN_MISSING = "TokenMissing",
        "Use `--service-account NAME` with a ServiceAccount of the Plugin's namespace whose tokens you may create, or `--token`.";
    /// The API server does not accept the token that was sent to the host.
    TOKEN_REFUSED = "TokenRefused",
        "Log in again, or create another token: `kubectl create token NAME -n NAMESPACE`. Its audience is \
         that of the API server, or `operetta.dev`.";
    /// No replica of the host is ready, or the one that got the request has not joined the others
    /// yet.
    NO_READY_REPLICA = "NoReadyReplica",
        "`kubectl get pods -n operetta-system` shows the replicas; docs/troubleshooting.md explains their readiness. One that \
         starts joins within seconds.";
    /// The API server cannot reach the Pods of the host.
    SERVICE_UNREACHABLE = "ServiceUnreachable",
        "Let NetworkPolicies and firewalls admit the API server to port 8443 of the Pods.";
    /// The replica that got the request runs no such Plugin, and knows no other that does.
    PLUGIN_NOT_ASSIGNED = "PluginNotAssigned",
        "`kubectl get plugin PLUGIN -n NAMESPACE -o wide` shows whether it exists and which replica runs it. A Plugin that moves \
         to another replica is there within seconds: try again.";
    /// No controller of the Plugin has a key that `operetta retry` names.
    KEY_NOT_FOUND = "KeyNotFound",
        "Name an object of the kind that the plugin reconciles: `NAMESPACE/NAME`, or `NAME` in the Plugin's namespace and for \
         cluster-scoped kinds.";
    /// The replica that got the request cannot reach the one that runs the Plugin.
    REPLICA_UNREACHABLE = "ReplicaUnreachable",
        "Try again, for that replica may have just stopped. If it does not help: the replicas must reach each other on port \
         8443, and each needs the variable `POD_IP`, as in deploy/base.";
    /// Too many users read logs of the namespace's Plugins, or of all Plugins, from this replica,
    /// or one user has too many pages open.
    TOO_MANY_STREAMS = "TooManyStreams",
        "End some `operetta logs --follow`: a replica serves at most 32 for the Plugins of one namespace, and 256 in all. Close some \
         pages: one user has at most 10 streams of the page.";
    /// The host has recorded no calls of the plugin: it is suspended, does not run, or has not
    /// reconciled yet.
    NOTHING_RECORDED = "NothingRecorded",
        "Let the plugin do all of its work first. Or use `operetta generate rbac FILE.wasm`, which needs no running plugin.";
    /// The ServiceAccount consents to no plugin, so nothing can be granted to the host for it.
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
    /// The project's folder has no main package, or several, of which none is obviously the
    /// operator's.
    NO_MAIN_PACKAGE = "NoMainPackage",
        "Name the one that is the operator: `operetta build --main ./cmd/manager`. The message lists those there are.";
    /// Programs can't be built with this version of the language's toolchain, or with this copy of
    /// it.
    TOOL_UNSUPPORTED = "ToolUnsupported",
        "Use a version that the message lists. With Go, `GOTOOLCHAIN=go1.26.0` fetches one.";
    /// A package of the program can't be built for WebAssembly: it needs a system call, cgo or
    /// assembler that there is not.
    NOT_PORTABLE = "NotPortable",
        "Look at the chain of imports in the message: often a newer version of a module, a build tag (`--tags`) or a file with \
         `//go:build !wasip1` leaves the package out. In Rust, look for a feature that leaves out the crate.";
    /// The name is not valid for a plugin or a namespace.
    INVALID_NAME = "InvalidName",
        "Use lower case letters, digits, `-` and, in a plugin's name, `.`; at most 253 for a plugin and 63 for a namespace, as Kubernetes does.";
}
