//! The state that a plugin's gates share: it outlives each of them.

use std::sync::Arc;

use crate::{
    gate::{audit::Audit, bytes::ByteBudget, revocation::Revocation, throttle::Throttle},
    hot_loop::HotLoops,
    ports::{Nondeterminism, ObjectLookup},
};

/// The state that outlives a gate and passes to the next one.
#[derive(Clone, Default)]
pub struct Shared {
    /// The plugin's counts, and its quotas of requests to the API server.
    pub throttle: Throttle,
    /// The audit of writes; None records none.
    pub audit: Option<Audit>,
    /// The detector of hot loops, which sees each write in order to recognize its event; None detects none.
    pub loops: Option<Arc<HotLoops>>,
    /// The host's own view of objects, for the audit and the detector; None knows none.
    pub objects: Option<Arc<dyn ObjectLookup>>,
    /// The budget of memory of the plugin's namespace; None has no limit.
    pub memory: Option<Arc<ByteBudget>>,
    /// The token that permits the plugin to act.
    pub revocation: Arc<Revocation>,
    /// The source of time and randomness; None uses the machine's.
    pub nondeterminism: Option<Arc<dyn Nondeterminism>>,
}
