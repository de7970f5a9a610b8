//! The state that successive gates of a plugin share.

use std::sync::Arc;

use crate::{
    gate::{audit::Audit, bytes::ByteBudget, permit::RequestPermit, throttle::Throttle},
    hot_loop::HotLoops,
    ports::{LongRunSink, Nondeterminism, ObjectLookup},
};

/// The state that outlives a gate and is passed to the next one.
#[derive(Clone, Default)]
pub struct Shared {
    /// The plugin's counters, and its quotas of requests to the API server.
    pub throttle: Throttle,
    /// The audit of writes; None disables it.
    pub audit: Option<Audit>,
    /// The hot-loop detector, which sees each write in order to recognize its event; None disables
    /// it.
    pub loops: Option<Arc<HotLoops>>,
    /// The host's own lookup of objects, for the audit and the detector; None disables lookups.
    pub objects: Option<Arc<dyn ObjectLookup>>,
    /// The sink of reports of reconciles that run for long; None drops them.
    pub long_runs: Option<Arc<dyn LongRunSink>>,
    /// The memory budget of the plugin's namespace; None sets no limit.
    pub memory: Option<Arc<ByteBudget>>,
    /// Permits the plugin's requests until it is revoked.
    pub permit: Arc<RequestPermit>,
    /// The source of time and randomness; None uses the machine's.
    pub nondeterminism: Option<Arc<dyn Nondeterminism>>,
}
