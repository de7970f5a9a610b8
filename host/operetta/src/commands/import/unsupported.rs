//! The parts of an operator that a plugin does not have, or that work differently in it, found by the names that the code uses.

/// A part of an operator that is not imported, or works differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file and the line.
    pub place: String,
    /// The part, and what to do.
    pub text: String,
}

/// Names in code, where `*` stands for the beginning of a longer name, and the sentence about the part that they stand for.
pub type Pattern = (&'static [&'static str], &'static str);

/// Returns the findings as a list for people.
pub fn report(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "Everything was imported.\n".to_owned();
    }
    let lines: String = findings.iter().map(|Finding { place, text }| format!("- {place}: {text}\n")).collect();
    format!("These parts of the operator were not imported, or work differently:\n\n{lines}")
}

/// The parts of a main for controller-runtime that the plugin's main does not have.
pub const MANAGER: &[Pattern] = &[
    (
        &["*WebhookWithManager(", "NewServer(", "webhook.Options"],
        "webhooks: a plugin serves none. Keep them in the operator's own Deployment, or use a ValidatingAdmissionPolicy",
    ),
    (&["LeaderElection:"], "leader election: not needed, because only one replica of the host runs a plugin"),
    (
        &["Metrics:", "MetricsBindAddress:"],
        "the metrics server: the host serves metrics of each plugin; metrics of your own are not served",
    ),
    (
        &["HealthProbeBindAddress:", "AddHealthzCheck(", "AddReadyzCheck("],
        "health probes: the host has its own, and the Plugin's status has the conditions",
    ),
    (
        &["Cache:", "NewCache:"],
        "options of the cache: set OwnNamespace or ByObject of controllerruntime.Options in main.go",
    ),
    (&["GetFieldIndexer("], "an index: call IndexField in `setup` of main.go, or in SetupWithManager"),
    (
        &[".Add("],
        "a Runnable: a plugin runs only while a key is reconciled. Return ctrl.Result{RequeueAfter: …} in place of a ticker",
    ),
];

/// The parts of reconcilers for controller-runtime that `operetta check` refuses, or that work differently.
pub const RECONCILERS: &[Pattern] = &[
    (
        &["EnqueueRequestsFromMapFunc(", "TypedEnqueueRequestsFromMapFunc("],
        "a handler that maps events with a function: it gets the object of the event and no API, so a call of the client fails",
    ),
    (
        &["IndexField("],
        "an index: a list by it reads all objects of the kind in the namespace. If its values are the names of controllers, name it in \
         Options.ControllerIndexes of main.go",
    ),
    (
        &[
            "predicate.Funcs",
            "predicate.TypedFuncs",
            "NewPredicateFuncs(",
            "NewTypedPredicateFuncs(",
            "LabelSelectorPredicate(",
        ],
        "a predicate that is a function: filter in Reconcile, or set a selector in Options.ByObject of main.go",
    ),
    (
        &["WatchesRawSource(", "source.Channel", "source.TypedChannel", "source.Func"],
        "a custom source: a plugin watches kinds only. Use ctrl.Result{RequeueAfter: …} for other systems",
    ),
];
