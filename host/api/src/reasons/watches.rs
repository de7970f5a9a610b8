//! The reasons why controllers do not run, or not with all of their events.

reasons! {
    Watches:
    /// The Plugin overrides a controller that the manifest does not declare.
    UNKNOWN_CONTROLLER = "UnknownController",
        "Correct the name in `spec.controllers`: the message lists the component's controllers.";
    /// A predicate in `spec.controllers` is not valid.
    INVALID_PREDICATE = "InvalidPredicate",
        "Correct it: docs/events.md has the syntax and the limits.";
    /// A label selector of the manifest is not valid.
    INVALID_SELECTOR = "InvalidSelector",
        "Correct it in the plugin's code, with the syntax of `kubectl get -l`.";
    /// A kind of the manifest is not valid.
    INVALID_KIND = "InvalidKind",
        "Correct its `apiVersion` and `kind` in the plugin's code.";
    /// The API server does not serve a kind of the manifest. Only the condition `Ready` shows it,
    /// without an Event.
    KIND_NOT_FOUND = "KindNotFound",
        "Install the CRD: the plugin starts by itself then. Or correct the kind: the message names the versions that are \
         served, or suggests similar kinds.";
    /// The API server could not answer what the host asks to set the Plugin up: usually an aggregated
    /// API server is down, and the message has what its APIService says. The host retries with
    /// backoff.
    API_UNAVAILABLE = "APIUnavailable",
        "Repair the Service that the message names, or delete its APIService: `kubectl get apiservices` shows which are not \
         available. The plugin starts by itself then.";
    /// The API server does not support list and watch for a kind of the manifest.
    KIND_NOT_WATCHABLE = "KindNotWatchable",
        "Watch another kind: reviews, bindings and similar kinds can only be created.";
    /// A watch fails, and the host retries it. There is no Event.
    WATCH_FAILING = "WatchFailing",
        "Read the API server's error in the message; `operetta informers -o wide` shows the state of each watch.";
    /// The plugin's watches take more of the cache than its quota allows. Its controllers stop for
    /// ten minutes.
    CACHE_QUOTA_EXCEEDED = "CacheQuotaExceeded",
        "Watch less: use label selectors and `prune`. Or raise `cacheBytes` under `quotas` of the host's configuration.";
    /// The namespace has as many Plugins, controllers or sources as its quota allows, all of older
    /// Plugins.
    QUOTA_EXCEEDED = "QuotaExceeded",
        "Delete or suspend one of the older Plugins, or raise the quota that the message names. The Plugin then starts by \
         itself.";
    /// For more than a tenth of the time, the plugin waits for a quota: of processor time, of
    /// reconciles or requests in flight, or of requests in each second. Or it waits for its turn on the
    /// processors for half of the time, or for an instance. Or its reads are not answered from the
    /// host's cache any more, because it has used up its part of that. It is the reason of the
    /// condition `Throttled`, not of `Ready` or `Degraded`.
    THROTTLED = "Throttled",
        "If the plugin needs what it asks for, raise the quota that the message names. Otherwise let it ask for less: cached \
         reads, writes only where something differs, fewer workers.";
}
