//! A plugin as core's [`Reconciler`]: one fresh instance for each reconcile, or one that is kept where the Plugin asks
//! for it.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use operetta_core::{
    controller::request::{Action, Failure, ReconcileRequest},
    gate::Gate,
    ports::Reconciler,
};

use crate::{
    Plugin,
    bindings::{exports::operetta::controller::reconciler as generated, operetta::controller::types::ObjectKey},
    call::{
        self, Budget, Ended,
        warm::{Instance, WarmInstances, WarmLimits},
    },
    cut,
};

/// Bytes of a failure's message; what is over is cut.
pub(crate) const MAX_FAILURE: usize = 4096;

/// The sandbox limits of one reconcile. The limits of host calls are in core's `GateLimits`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// Bytes of linear memory, of all memories of the instance together.
    pub memory_bytes: usize,
    /// Bytes the guest may hand to the host in one call, all strings and lists together; more is a trap.
    pub transfer_bytes: usize,
    /// The timeout of a reconcile, with the time that it waits.
    pub timeout: Duration,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self { memory_bytes: 128 << 20, transfer_bytes: 8 << 20, timeout: Duration::from_secs(60) }
    }
}

impl CallLimits {
    pub(crate) fn budget(&self) -> Budget {
        let Self { memory_bytes, transfer_bytes, timeout } = *self;
        Budget { memory_bytes, transfer_bytes, timeout }
    }
}

/// Runs a plugin's reconciles.
pub struct PluginReconciler {
    plugin: Arc<Plugin>,
    gate: Arc<Gate>,
    budget: Budget,
    /// The instances kept between reconciles; None keeps none.
    warm: Option<Arc<WarmInstances>>,
}

impl PluginReconciler {
    /// A reconciler that runs this plugin behind this gate.
    pub fn new(plugin: Arc<Plugin>, gate: Arc<Gate>, limits: CallLimits) -> Self {
        Self { plugin, gate, budget: limits.budget(), warm: None }
    }

    /// Keeps instances between reconciles, within these bounds. They end with this reconciler: other code, another
    /// configuration or other limits begin with fresh ones.
    #[must_use]
    pub fn keep_warm(mut self, limits: WarmLimits) -> Self {
        self.warm = Some(WarmInstances::new(limits));
        self
    }

    /// The plugin that runs.
    pub fn plugin(&self) -> &Arc<Plugin> {
        &self.plugin
    }
}

#[async_trait]
impl Reconciler for PluginReconciler {
    async fn reconcile(&self, request: &ReconcileRequest) -> Result<Action, Failure> {
        let engine = self.plugin.engine();
        let budget = &self.budget;
        let session = self.gate.session(Some(request.clone()));
        let request = generated::Request::from(request);
        let mut instance = match self.warm.as_ref().and_then(|warm| warm.take()) {
            Some(mut kept) => {
                call::renew(&mut kept.store, session);
                kept
            }
            None => {
                let linked = self.plugin.linked().await?;
                let slot = call::slots(engine, linked.slots).await?;
                Instance::new(linked, call::store(engine, session, budget), slot)
            }
        };
        let answer = tokio::time::timeout(budget.timeout, instance.reconcile(&request));
        let answer = answer.await;
        // What did not return is never used again.
        let answer = call::finish(&mut instance.store, answer, budget)?;
        if let Some(warm) = &self.warm {
            warm.keep(instance, engine);
        }
        match answer {
            Ok(action) => Ok(action.into()),
            Err(failure) => Err(failure.into()),
        }
    }
}

impl From<&ReconcileRequest> for generated::Request {
    fn from(request: &ReconcileRequest) -> Self {
        let key = ObjectKey { namespace: request.key.namespace.clone(), name: request.key.name.clone() };
        Self {
            controller: request.controller.clone(),
            key,
            retries: request.retries,
            reconcile_id: request.reconcile_id.clone(),
        }
    }
}

impl From<generated::Action> for Action {
    fn from(action: generated::Action) -> Self {
        match action {
            generated::Action::Done => Self::Done,
            generated::Action::Requeue => Self::Requeue,
            generated::Action::RequeueAfterMs(delay) => Self::RequeueAfter(Duration::from_millis(delay.into())),
        }
    }
}

impl From<generated::Failure> for Failure {
    fn from(failure: generated::Failure) -> Self {
        match failure {
            generated::Failure::Retry(message) => Self::Retry(cut(message, MAX_FAILURE)),
            generated::Failure::Terminal(message) => Self::Terminal(cut(message, MAX_FAILURE)),
        }
    }
}

impl From<Ended> for Failure {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Fault(fault) => Self::Fault(fault),
            Ended::Busy(why) => Self::Retry(why),
        }
    }
}
