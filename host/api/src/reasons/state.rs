//! The reasons of a Plugin without a problem.

reasons! {
    State:
    /// Nothing is wrong.
    AS_EXPECTED = "AsExpected", "";
    /// The component is loaded.
    LOADED = "Loaded", "";
    /// The component is being loaded: the first time it is compiled, which takes seconds for a
    /// large one.
    LOADING = "Loading", "";
    /// No component is loaded. The condition `Loaded` has the reason.
    NOT_LOADED = "NotLoaded", "";
    /// The component is not loaded, because the Plugin may not run here. The condition `Ready` has
    /// the reason.
    NOT_PERMITTED = "NotPermitted", "";
    /// All controllers run.
    RUNNING = "Running", "";
    /// A shard of the Plugin is not running yet: a replica is taking it over, or has just started
    /// it.
    SHARDS_STARTING = "ShardsStarting", "";
    /// `spec.suspend` is true: no controller runs. Set it to false to resume.
    SUSPENDED = "Suspended", "";
    /// The first list of a watched kind has not arrived yet, or the API server asks to wait before
    /// the next one (code 429).
    SYNCING = "Syncing", "";
}
