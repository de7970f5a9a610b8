//! The readiness checks of a host. Their codes are the names of the checks.

reasons! {
    Readiness:
    /// The API server cannot be used: it refuses the connection, does not respond, has another
    /// certificate authority, or answers 401 or 403.
    API_SERVER = "api-server",
        "The check has the cause: correct the kubeconfig or the network, renew the credentials, or apply deploy/rbac.";
    /// This replica has not joined the group yet, has not renewed its Lease in time, or is no
    /// longer in the group.
    LEASE = "lease",
        "Wait, if it has just started. Otherwise look at the API server's latency and the replica's processor limit, and \
         apply deploy/rbac, which permits the Leases.";
    /// The host's own watches of Plugins, ConfigMaps, namespaces and ServiceAccounts have not
    /// synced, or one of them fails.
    INFORMERS = "informers",
        "The check names the kind and the API server's error: install the CRD (deploy/crd) or the permissions (deploy/rbac).";
    /// The process that compiles plugins is not confined as it should be. Without seccomp, the host
    /// compiles nothing.
    COMPILE_SANDBOX = "compile-sandbox",
        "Let the container's seccomp profile allow `seccomp` and the Landlock system calls; SECURITY.md has the details.";
    /// Compiled code cannot be cached. The host stays ready, and compiles all plugins again at its
    /// next start.
    CODE_CACHE = "code-cache",
        "Free space below `cacheDir`, or correct its owner and mode: only the host's user may have access.";
    /// The host's own process is not confined as it could be. It stays ready.
    CONFINEMENT = "confinement",
        "The check has the cause: a kernel without Landlock, or a kubeconfig that gets credentials from a program. `confine: off` \
         accepts it, `confine: required` refuses to start.";
}
