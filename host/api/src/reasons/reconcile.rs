//! The reasons of failing reconciles and mappings.

reasons! {
    Reconcile:
    /// A reconcile returns an error again and again. It is retried with backoff.
    RECONCILE_FAILING = "ReconcileFailing",
        "The message has the plugin's own error; `operetta logs PLUGIN -n NAMESPACE` has what led to it.";
    /// A reconcile failed and asked not to be retried, or the API server rejected the same write of
    /// it twice, or it names an object that cannot exist. There is also an Event on the object.
    TERMINAL_ERROR = "TerminalError",
        "Correct the object that the message names: a change of it is reconciled again.";
    /// A reconcile trapped: a panic, an access out of bounds, a stack overflow or an exit. It is
    /// retried with backoff.
    RECONCILE_TRAPPED = "ReconcileTrapped",
        "It is a bug of the plugin. `operetta logs PLUGIN -n NAMESPACE` has the trap message; `operetta build --debug` keeps \
         the names of functions.";
    /// A reconcile or a mapping did not end within `limits.timeoutSeconds`. It is retried with
    /// backoff.
    DEADLINE_EXCEEDED = "DeadlineExceeded",
        "Do less in each reconcile, and requeue instead of waiting. Or raise `spec.limits.timeoutSeconds`, within \
         `maxLimits` of the host's configuration.";
    /// A reconcile has run for two seconds, not counting the time it waited, and is still running.
    /// It is an Event on the Plugin, at most once a minute for each controller, and a line in its
    /// log, not a condition.
    LONG_RECONCILE = "LongReconcile",
        "The message has the functions that it is in, innermost first: look there for an endless loop. `operetta build \
         --debug` keeps the names of functions.";
    /// A reconcile or a mapping asked for more memory than `limits.memory`. It is retried with
    /// backoff.
    MEMORY_EXCEEDED = "MemoryExceeded",
        "List with a limit and a projection. Or raise `spec.limits.memory`, within `maxLimits` of the host's configuration.";
    /// A mapping returns an error again and again. It is retried, and no event is lost.
    MAP_FAILING = "MapFailing",
        "The message has the plugin's own error; `operetta logs PLUGIN -n NAMESPACE` has what led to it.";
    /// A mapping trapped. It is retried, and no event is lost.
    MAP_TRAPPED = "MapTrapped",
        "It is a bug of the plugin: `operetta logs PLUGIN -n NAMESPACE` has the trap message.";
    /// A mapping returned keys that are not valid. The valid ones were enqueued.
    INVALID_KEYS = "InvalidKeys",
        "Return a namespace if and only if the kind is namespaced, valid names, and at most 1,000 keys for an event.";
    /// The plugin's own writes or requeues trigger its reconciles: the object is delayed. There is
    /// also an Event on the object.
    HOT_LOOP = "HotLoop",
        "Write only if something differs, and requeue after 1 s or more. docs/plugin.md describes the usual causes.";
    /// The object stayed in a hot loop and is no longer reconciled. There is also an Event on the
    /// object.
    QUARANTINED = "Quarantined",
        "Correct the plugin as for `HotLoop`. Any other writer's change of the object, a change of the Plugin, or ten minutes \
         end the quarantine.";
    /// Two controllers set the same fields back and forth. It is an Event on the object and on the
    /// Plugins, not a condition.
    FIGHTING_CONTROLLERS = "FightingControllers",
        "Let only one of them set the field: the message names both. With server-side apply, leave the field out of one.";
    /// The API server accepted a request of the plugin and warns about it: a field that the kind does
    /// not have was dropped, a version is deprecated, a webhook or policy has something to say. Each
    /// warning is reported once for each version of the code.
    API_WARNING = "APIWarning",
        "Correct the request in the plugin's code. A dropped field is written again and again for nothing.";
    /// The Plugin is deleted, and still removes its finalizers from objects that are being deleted.
    /// It is the reason of the condition `Terminating`.
    FINALIZERS_REMAIN = "FinalizersRemain",
        "Wait, or see in `operetta logs PLUGIN -n NAMESPACE` and the condition `Degraded` why the plugin doesn't clean up. \
         To give up its clean-up, remove its finalizer from the objects that the message names.";
    /// The Plugin is gone, and objects keep finalizers that only it would have removed. They can't
    /// be deleted until somebody does so.
    FINALIZERS_LEFT = "FinalizersLeft",
        "Create the Plugin again if they are still in use. Otherwise remove its finalizers with `kubectl edit`.";
    /// The process has ended, and is started again with a growing delay, at most five minutes: it
    /// returned, exited, crashed or exceeded a limit. `status.process.lastTermination` has the reason.
    PROCESS_ENDED = "ProcessEnded",
        "`operetta logs PLUGIN -n NAMESPACE` has what it printed before. After `OOMKilled`, raise `spec.limits.memory`; after \
         `Unresponsive`, the message has the functions in which it was.";
    /// The process runs, but it is being started, its startupProbe has not succeeded yet, or its
    /// readinessProbe fails.
    PROCESS_NOT_READY = "ProcessNotReady",
        "The message has what the probe got; `operetta logs PLUGIN -n NAMESPACE` has what the process printed.";
    /// The Plugin's spec does not fit its component: `process` is for an operator with a main of its
    /// own, `controllers` and `shards` are for plugins, whose functions the host calls.
    SPEC_MISMATCH = "SpecMismatch",
        "Remove the field that the message names.";
}
