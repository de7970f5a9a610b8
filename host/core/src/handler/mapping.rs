//! Custom mappings: the plugin itself maps events to keys, between an informer and a controller's
//! queue.
//!
//! Handlers run on the informer's task, where plugin code must not run. So a watch with a custom
//! mapping stores its events as [`UnmappedEvents`] until a worker calls the plugin.
//!
//! - **No event is lost** when a call fails, traps or is aborted: the queue retries it like a
//!   reconcile.
//! - **Each key is checked**: see [`KeyRules`].
//! - **A full queue delays events**: while the controller's queue has no room for invented keys,
//!   events naming new ones are kept and mapped again later.
//!
//! The plugin is called by a controller with a [`MapReconciler`], whose keys are those of the
//! watched objects.

use std::{collections::HashSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use operetta_api::names::{is_dns_label, is_path_segment};

use crate::{
    controller::request::{Action, Failure, ReconcileRequest},
    handler::{event::Event, unmapped_events::UnmappedEvents},
    object::{ObjectKey, kind::GroupVersionKind},
    ports::{Mapper, Reconciler},
    queue::Priority,
};

/// The maximum number of keys per event.
pub const MAX_KEYS: usize = 1_000;

/// Which keys a custom mapping may enqueue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRules {
    /// The kind reconciled by the controller.
    pub kind: GroupVersionKind,
    /// Whether the kind is cluster-scoped, so that its keys have no namespace.
    pub cluster_scoped: bool,
    /// The only namespace allowed for keys; None for all.
    pub namespace: Option<String>,
}

impl KeyRules {
    /// Checks a key named by the plugin. Returns None if it is outside the controller's namespace.
    ///
    /// # Errors
    /// Returns why the key cannot belong to the kind.
    pub fn admit(&self, key: ObjectKey) -> Result<Option<ObjectKey>, String> {
        let kind = &self.kind.kind;
        match (&key.namespace, self.cluster_scoped) {
            (Some(_), true) => {
                return Err(format!(
                    "{:?} has a namespace, but {kind} is cluster-scoped",
                    cut(&key.to_string())
                ));
            }
            (None, false) => {
                return Err(format!(
                    "{:?} has no namespace, but {kind} is namespaced",
                    cut(&key.name)
                ));
            }
            _ => {}
        }

        if !is_path_segment(&key.name) {
            return Err(format!("{:?} is not an object name", cut(&key.name)));
        }

        if key
            .namespace
            .as_ref()
            .is_some_and(|namespace| !is_dns_label(namespace))
        {
            let namespace = cut(key.namespace.as_deref().unwrap_or_default());
            return Err(format!("{namespace:?} is not a namespace name"));
        }

        Ok(Some(key).filter(|key| self.namespace.is_none() || key.namespace == self.namespace))
    }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(64)]
}

/// What a [`MapReconciler`] returns when it had nothing to map, because the event was already
/// mapped together with an earlier one. It doesn't tell whether mapping the object succeeds.
pub const NOTHING: Action = Action::RequeueAfter(Duration::ZERO);

/// Enqueues a key of a mapped event. Returns false if the queue is full.
pub type Enqueue = Arc<dyn Fn(&Event, ObjectKey, Priority) -> bool + Send + Sync>;

/// Lets the plugin map the events of one watched kind, and enqueues the resulting keys. Its own
/// keys are those of the watched objects.
pub struct MapReconciler {
    kind: GroupVersionKind,
    events: Arc<UnmappedEvents>,
    mapper: Arc<dyn Mapper>,
    rules: KeyRules,
    enqueue: Enqueue,
}

impl MapReconciler {
    /// Creates a reconciler that maps events of `kind` with `mapper` and passes the keys admitted
    /// by `rules` to `enqueue`.
    pub fn new(
        kind: GroupVersionKind,
        events: Arc<UnmappedEvents>,
        mapper: Arc<dyn Mapper>,
        rules: KeyRules,
        enqueue: Enqueue,
    ) -> Self {
        Self {
            kind,
            events,
            mapper,
            rules,
            enqueue,
        }
    }
}

#[async_trait]
impl Reconciler for MapReconciler {
    /// Enqueues the valid keys. Invalid keys fail the reconcile without a retry, because mapping
    /// the same event again would give the same keys. A queue without room for all keys causes a
    /// retry.
    async fn reconcile(&self, request: &ReconcileRequest) -> Result<Action, Failure> {
        let Some(mut taken) = self.events.take(&request.key) else {
            return Ok(NOTHING);
        };
        let Some(unmapped) = &mut taken.unmapped else {
            return Ok(NOTHING);
        };
        let keys = self
            .mapper
            .map(request, &self.kind, &unmapped.event)
            .await?;

        let mut refused = 0_usize;
        let mut wrong = (keys.len() > MAX_KEYS).then(|| {
            format!(
                "{} keys, over the limit of {MAX_KEYS}: the first {MAX_KEYS} are enqueued",
                keys.len()
            )
        });
        let mut distinct = HashSet::new();
        let mut enqueued = unmapped.enqueued;
        for key in keys.into_iter().take(MAX_KEYS) {
            match self.rules.admit(key) {
                // Skip keys enqueued by an earlier attempt: enqueueing them again would leave no
                // room for the rest.
                Ok(Some(key)) if distinct.insert(key.clone()) && distinct.len() > enqueued => {
                    let is_room =
                        refused == 0 && (self.enqueue)(&unmapped.event, key, unmapped.priority);
                    if is_room {
                        enqueued = distinct.len();
                    } else {
                        refused += 1;
                    }
                }
                Ok(_) => {}
                Err(error) => drop(wrong.get_or_insert(error)),
            }
        }

        if refused > 0 {
            unmapped.enqueued = enqueued;
            let full = format!("the queue is full: {refused} mapped keys have to wait");
            return Err(Failure::Retry(full));
        }
        taken.complete();
        wrong.map_or(Ok(Action::Done), |wrong| Err(Failure::Terminal(wrong)))
    }
}

#[cfg(test)]
mod tests;
