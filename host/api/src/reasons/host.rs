//! The errors with which a host does not start, or ends.

reasons! {
    Host:
    /// The host's configuration cannot be read, is not YAML, or has an unknown field or an invalid
    /// value.
    INVALID_HOST_CONFIG = "InvalidHostConfig",
        "Correct the field, the variable or the file that the message names; docs/reference/configuration.md lists all fields.";
    /// `cacheDir` cannot be used: it cannot be created, or users other than the host's have access
    /// to it.
    CACHE_DIR_UNUSABLE = "CacheDirUnusable",
        "Make it a directory of the host's user with mode 0700, on a writable volume.";
    /// The host cannot listen on an address in its configuration.
    ADDRESS_UNAVAILABLE = "AddressUnavailable",
        "Stop the process that has it, or set another address in the field that the message names. Ports below 1024 need a \
         privilege that the host drops.";
    /// The certificate of `secureEndpoints` or its key cannot be used.
    INVALID_CERTIFICATE = "InvalidCertificate",
        "Correct the files that the message names: PEM, the key for this certificate. Without `certificate`, the host signs \
         one itself.";
    /// No API server is configured, or the kubeconfig cannot be used.
    INVALID_KUBECONFIG = "InvalidKubeconfig",
        "Use `--kubeconfig`, set `KUBECONFIG`, or run in a Pod with a ServiceAccount; `kubectl config get-contexts` lists the \
         contexts.";
    /// The API server's Kubernetes version is older than the host supports. The host exits before
    /// it does anything.
    API_SERVER_TOO_OLD = "APIServerTooOld",
        "Upgrade the cluster to Kubernetes 1.30 or later.";
    /// The API server does not serve a kind that the host needs.
    KIND_NOT_SERVED = "KindNotServed",
        "Install the CRD: `kubectl apply -k deploy/crd`. The API server must be Kubernetes 1.30 or later.";
    /// A host that is installed in another namespace, or that is of another trust class, runs the
    /// plugin: this one leaves it alone.
    OTHER_INSTALLATION = "OtherInstallation",
        "Uninstall one of two hosts in different namespaces. If the other one is gone, delete the Lease that the message names: the plugin then runs \
         here within ten seconds.";
    /// The replica lost its Lease, and exited: the others run its plugins.
    LEASE_LOST = "LeaseLost",
        "Nothing: it joins again when it is restarted. If it happens often, the host or the API server is too slow to renew the \
         Lease within `replicas.leaseSeconds`: look at the processor limit and the API server's latency.";
    /// The configuration requires that the host confines its own process, and that is not possible
    /// here: the host does not start.
    NOT_CONFINED = "NotConfined",
        "The message has the cause. Use a kernel with Landlock (5.13 or later, with `landlock` in its `lsm` parameter), let the \
         container's seccomp profile allow the system calls of seccomp and Landlock, or set `confine: auto`.";
}
