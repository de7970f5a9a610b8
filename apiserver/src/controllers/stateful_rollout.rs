//! A StatefulSet with its Pods, and the steps of its rollout.
//!
//! The steps and their order are those of
//! <https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/controller/statefulset/stateful_set_control.go>.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use super::{
    client::Refused,
    control_loop::Context,
    object::{is_terminating, name, namespace, number, text},
    pod_control::{has_ended, is_available, is_ready, phase},
    revisions::{Revisions, revision_of},
    stateful_pods,
};

pub(super) struct Rollout<'a> {
    pub set: &'a Value,
    /// The Pods by ordinal.
    pub pods: BTreeMap<i64, Arc<Value>>,
    pub revisions: Revisions,
    /// The name of the revision before the rollout.
    pub current: String,
    pub min_ready: i64,
    /// The first ordinal.
    start: i64,
    /// The first ordinal beyond the set.
    end: i64,
    /// Whether Pods start and stop one after the other.
    ordered: bool,
}

impl<'a> Rollout<'a> {
    pub fn new(set: &'a Value, pods: Vec<Arc<Value>>, revisions: Revisions) -> Self {
        let by_ordinal = pods
            .into_iter()
            .filter_map(|pod| Some((stateful_pods::ordinal(&pod, set)?, pod)));

        let known = text(set, &["status", "currentRevision"]);
        let is_known = revisions.all.iter().any(|one| name(one) == known);
        let start = number(set, "/spec/ordinals/start", 0);

        Self {
            current: if is_known {
                known.to_owned()
            } else {
                revisions.update.clone()
            },
            pods: by_ordinal.collect(),
            min_ready: number(set, "/spec/minReadySeconds", 0),
            start,
            end: start + number(set, "/spec/replicas", 1),
            ordered: text(set, &["spec", "podManagementPolicy"]) != "Parallel",
            set,
            revisions,
        }
    }

    /// Takes all steps that are possible now.
    pub fn advance(&self, context: &Context<'_>) -> Result<(), Refused> {
        for ordinal in self.start..self.end {
            if !self.keep(ordinal, context)? && self.ordered {
                return Ok(());
            }
        }

        if !self.condemn(context)? {
            return Ok(());
        }
        if text(self.set, &["spec", "updateStrategy", "type"]) == "OnDelete" {
            return Ok(());
        }

        self.update(context)
    }

    /// Creates the Pod of an ordinal, or replaces a failed one. Returns whether it is available.
    fn keep(&self, ordinal: i64, context: &Context<'_>) -> Result<bool, Refused> {
        match self.pods.get(&ordinal) {
            None => {
                let revision = if self.is_current_needed(ordinal) {
                    &self.current
                } else {
                    &self.revisions.update
                };

                let template = self.revisions.template(revision);
                let template = template.as_ref().unwrap_or(&self.set["spec"]["template"]);
                stateful_pods::create(self.set, ordinal, template, revision, context)?;
                Ok(false)
            }
            Some(pod) if is_terminating(pod) => Ok(false),
            Some(pod) if has_ended(pod) => {
                let message = format!(
                    "StatefulSet {} is recreating failed Pod {}",
                    title(self.set),
                    name(pod)
                );
                context
                    .client
                    .event(self.set, "Warning", "RecreatingFailedPod", &message);
                stateful_pods::delete(self.set, pod, context)?;
                Ok(false)
            }
            Some(pod) => Ok(self.is_healthy(pod) && is_available(pod, self.min_ready, context.now)),
        }
    }

    fn is_healthy(&self, pod: &Value) -> bool {
        phase(pod) == "Running" && is_ready(pod) && !is_terminating(pod)
    }

    /// Reports whether a missing Pod gets the template from before the rollout.
    fn is_current_needed(&self, ordinal: i64) -> bool {
        let strategy = &self.set["spec"]["updateStrategy"];
        if strategy["type"] == "OnDelete" {
            return false;
        }

        match strategy["rollingUpdate"]["partition"].as_i64() {
            None => ordinal < self.start + number(self.set, "/status/currentReplicas", 0),
            Some(partition) => ordinal < self.start + partition,
        }
    }

    /// Deletes Pods beyond the set, the last one first. Returns whether none is left.
    fn condemn(&self, context: &Context<'_>) -> Result<bool, Refused> {
        let unhealthy = self.pods.values().find(|pod| !self.is_healthy(pod));
        let condemned = self
            .pods
            .iter()
            .rev()
            .filter(|(ordinal, _)| !(self.start..self.end).contains(ordinal));

        let mut is_done = true;
        for (_, pod) in condemned {
            is_done = false;
            if is_terminating(pod) {
                if self.ordered {
                    return Ok(false);
                }
                continue;
            }

            let is_first_unhealthy = unhealthy.is_some_and(|first| Arc::ptr_eq(first, pod));
            if self.ordered && !self.is_healthy(pod) && !is_first_unhealthy {
                return Ok(false);
            }

            stateful_pods::delete(self.set, pod, context)?;
            if self.ordered {
                return Ok(false);
            }
        }

        Ok(is_done)
    }

    /// Replaces the last outdated Pod, if all after it are available.
    fn update(&self, context: &Context<'_>) -> Result<(), Refused> {
        let partition = number(self.set, "/spec/updateStrategy/rollingUpdate/partition", 0);

        for ordinal in (self.start + partition..self.end).rev() {
            let Some(pod) = self.pods.get(&ordinal) else {
                return Ok(());
            };
            if revision_of(pod) != self.revisions.update && !is_terminating(pod) {
                return stateful_pods::delete(self.set, pod, context);
            }
            if !self.is_healthy(pod) || !is_available(pod, self.min_ready, context.now) {
                return Ok(());
            }
        }

        Ok(())
    }
}

fn title(set: &Value) -> String {
    format!("{}/{}", namespace(set), name(set))
}
