//! A plugin as core's [`Reconciler`]. Each reconcile has a fresh instance, or a warm one if the
//! Plugin asks for it.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use operetta_core::{
    controller::request::{Action, Failure, ReconcileRequest},
    gate::Gate,
    object::kind::GroupVersionKind,
    ports::Reconciler,
};

use crate::{
    Plugin,
    bindings::{
        exports::operetta::controller::reconciler as generated,
        operetta::controller::types::ObjectKey,
    },
    call::{
        self, Budget, CallError,
        warm::{Instance, WarmInstances, WarmLimits},
    },
    cut,
    imports::MAX_FAILURE,
    slots::Tenant,
};

/// The sandbox limits of one reconcile. The limits of host calls are in core's `GateLimits`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// The maximum size of all linear memories of the instance together, in bytes.
    pub memory_bytes: usize,
    /// The maximum size of all strings and lists that the guest passes to the host at once, as
    /// arguments or results, in bytes. A guest that passes more traps.
    pub transfer_bytes: usize,
    /// The timeout of a reconcile, including time spent waiting.
    pub timeout: Duration,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self {
            memory_bytes: 128 << 20,
            transfer_bytes: 8 << 20,
            timeout: Duration::from_secs(60),
        }
    }
}

impl CallLimits {
    pub(crate) fn budget(&self) -> Budget {
        let Self {
            memory_bytes,
            transfer_bytes,
            timeout,
        } = *self;
        Budget {
            memory_bytes,
            transfer_bytes,
            timeout,
        }
    }
}

/// Runs a plugin's reconciles.
pub struct PluginReconciler {
    plugin: Arc<Plugin>,
    gate: Arc<Gate>,
    budget: Budget,
    /// None keeps no instances between reconciles.
    warm: Option<Arc<WarmInstances>>,
    tenant: Tenant,
}

impl PluginReconciler {
    /// Returns a reconciler for this plugin behind this gate.
    pub fn new(plugin: Arc<Plugin>, gate: Arc<Gate>, limits: CallLimits) -> Self {
        Self {
            plugin,
            gate,
            budget: limits.budget(),
            warm: None,
            tenant: Tenant::default(),
        }
    }

    /// Makes its calls share pool slots with the other calls of a tenant.
    #[must_use]
    pub fn for_tenant(mut self, tenant: &str) -> Self {
        self.tenant = tenant.into();
        self
    }

    /// Keeps instances between reconciles, within these limits. They end with this reconciler, so
    /// other code, another configuration or other limits begin with fresh ones.
    #[must_use]
    pub fn keep_warm(mut self, limits: WarmLimits) -> Self {
        self.warm = Some(WarmInstances::new(limits));
        self
    }

    fn kind_of(&self, controller: &str) -> Option<GroupVersionKind> {
        let mut controllers = self.plugin.manifest().controllers.iter();
        let found = controllers.find(|declared| declared.name == controller)?;
        Some(found.for_.group_version_kind())
    }

    /// Returns the plugin.
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
            Some(mut warm) => {
                call::renew(&mut warm.store, session);
                warm
            }
            None => {
                let linked = self.plugin.linked().await?;
                let waits = Some(&self.gate.meter().slot_waits);
                let slots = call::slots(engine, &self.tenant, linked.slots, waits).await;
                let mut store = call::store(engine, session, budget);
                store.data_mut().evaluated = self.plugin.evaluated();
                Instance::new(linked, store, slots)
            }
        };

        let answer = call::run(engine, budget, instance.reconcile(&request)).await;
        // On an error the instance is dropped here, never to be used again.
        let answer = call::finish(&mut instance.store, answer, budget)?;

        let session = &mut instance.store.data_mut().session;
        let result = match answer {
            Ok(action) => outcome(action.into(), session.take_failure()),
            Err(failure) => Err(failure.into()),
        };
        let result = session.settle(result, self.kind_of(&request.controller).as_ref());

        if let Some(warm) = &self.warm {
            warm.keep(instance, engine);
        }

        result
    }
}

/// The outcome of a reconcile that returned an action. If it also reported a failure, the action
/// decides when the key is retried.
fn outcome(action: Action, reported: Option<String>) -> Result<Action, Failure> {
    match (reported, action) {
        (None, action) => Ok(action),
        (Some(message), Action::RequeueAfter(delay)) if !delay.is_zero() => {
            Err(Failure::RetryAfter(message, delay))
        }
        (Some(message), Action::Requeue | Action::RequeueAfter(_)) => Err(Failure::Retry(message)),
        (Some(message), Action::Done) => Err(Failure::Terminal(message)),
    }
}

impl From<&ReconcileRequest> for generated::Request {
    fn from(request: &ReconcileRequest) -> Self {
        let key = ObjectKey {
            namespace: request.key.namespace.clone(),
            name: request.key.name.clone(),
        };
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
            generated::Action::RequeueAfterMs(delay) => {
                Self::RequeueAfter(Duration::from_millis(delay.into()))
            }
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

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Fault(fault) => Self::Fault(fault),
            CallError::Busy(why) => Self::Retry(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn action_decides_the_retry_of_a_reported_failure() {
        let second = Duration::from_secs(1);
        let failed = |action| outcome(action, Some("no".to_owned())).expect_err("a failure");
        assert_eq!(
            failed(Action::RequeueAfter(second)),
            Failure::RetryAfter("no".to_owned(), second)
        );
        assert_eq!(
            failed(Action::RequeueAfter(Duration::ZERO)),
            Failure::Retry("no".to_owned())
        );
        assert_eq!(failed(Action::Requeue), Failure::Retry("no".to_owned()));
        assert_eq!(failed(Action::Done), Failure::Terminal("no".to_owned()));
        assert_eq!(outcome(Action::Done, None), Ok(Action::Done));
    }
}
