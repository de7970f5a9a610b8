//! Where a component is while it is loaded.

use std::fmt::Debug;

use async_trait::async_trait;

/// Where a component is while it is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadStage {
    /// This process checks, compiles, links or describes it.
    Here,
    /// It waits for the compiler, which has others to compile.
    Waiting,
    /// A worker compiles it, in a process of its own.
    InWorker,
}

/// Follows a load, which begins [here](LoadStage::Here).
#[async_trait]
pub trait LoadObserver: Debug + Send + Sync {
    /// The load enters a stage, and goes on when this returns.
    async fn enters(&self, stage: LoadStage);
}
