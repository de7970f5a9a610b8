//! State shared by successive gates of a plugin.

use std::sync::Arc;

use crate::{
    gate::{
        audit::Audit, bytes::ByteBudget, finalizers::OwnFinalizers, permit::RequestPermit,
        throttle::Throttle,
    },
    hot_loop::HotLoops,
    ports::{LongRunSink, Nondeterminism, ObjectLookup},
};

/// State that outlives a gate and is passed on to the next one.
#[derive(Clone, Default)]
pub struct Shared {
    /// The plugin's counters, and its quotas for requests to the API server.
    pub throttle: Throttle,
    /// The audit of writes; None disables it.
    pub audit: Option<Audit>,
    /// The hot-loop detector, which sees each write so that it recognizes its event; None disables
    /// it.
    pub loops: Option<Arc<HotLoops>>,
    /// The finalizers that the plugin is seen to set; None if nobody wants to know.
    pub finalizers: Option<Arc<OwnFinalizers>>,
    /// The host's own object lookup, for the audit and the detector; None disables lookups.
    pub objects: Option<Arc<dyn ObjectLookup>>,
    /// Gets reports of long-running reconciles; None drops them.
    pub long_runs: Option<Arc<dyn LongRunSink>>,
    /// The memory budget of the plugin's namespace; None for no limit.
    pub memory: Option<Arc<ByteBudget>>,
    /// Permits the plugin's requests until revoked.
    pub permit: Arc<RequestPermit>,
    /// The source of time and randomness; None for the machine's.
    pub nondeterminism: Option<Arc<dyn Nondeterminism>>,
}
