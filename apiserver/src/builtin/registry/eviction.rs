//! `pods/eviction`: a deletion that PodDisruptionBudgets may refuse.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    apimachinery::{
        selector::objects::matches,
        status::{Details, Status},
    },
    authz::objects::{Objects, text},
    builtin::registry::pods::{self, Outcome},
    server::{Handler, HandlerRequest, format_time},
    shared::Shared,
    store::{Draft, GroupResource, ObjectKey, StoreError},
};

const GROUP: &str = "policy";
const BUDGETS: &str = "poddisruptionbudgets";
/// The seconds after which a client may retry while a budget is not known yet.
const RETRY_SECONDS: u32 = 10;

/// Evicts Pods.
pub(crate) struct Eviction {
    pub shared: Arc<Shared>,
    /// Reports whether a controller keeps the status of budgets. Without it, Pods that a budget
    /// selects are not evicted.
    pub has_budgets: bool,
}

impl Handler for Eviction {
    fn handle(&self, request: &HandlerRequest<'_>) -> Result<(u16, Value), Status> {
        let attributes = request.attributes;
        let named = text(&request.body, &["metadata", "name"]);
        if !named.is_empty() && named != attributes.name {
            return Err(Status::bad_request(
                "name in URL does not match name in Eviction object",
            ));
        }

        let options = &request.body["deleteOptions"];
        let key = ObjectKey::namespaced(&attributes.namespace, &attributes.name);
        let live = self.shared.store.get(&pods::resource(), &key);
        let live = live.ok_or_else(|| Status::not_found(&pods::resource(), &attributes.name))?;
        let pod = live.to_value().map_err(Status::internal)?;
        check_preconditions(&pod, options, &attributes.name)?;

        let is_dry_run = pods::is_dry_run(request.query, options);
        if !ignores_budgets(&pod) {
            self.take_from_budget(&pod, request, is_dry_run)?;
        }
        if !is_dry_run {
            self.delete(options, request)?;
        }

        Ok((201, pods::success()))
    }
}

/// Reports whether a Pod may be evicted whatever the budgets say: it does not serve anybody.
fn ignores_budgets(pod: &Value) -> bool {
    matches!(
        text(pod, &["status", "phase"]),
        "Succeeded" | "Failed" | "Pending"
    ) || pod["metadata"]["deletionTimestamp"].is_string()
}

fn check_preconditions(pod: &Value, options: &Value, name: &str) -> Result<(), Status> {
    for (member, title) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let (wanted, found) = (
            text(options, &["preconditions", member]),
            text(pod, &["metadata", member]),
        );
        if !wanted.is_empty() && wanted != found {
            let cause = format!(
                "Precondition failed: {title} in precondition: {wanted}, {title} in object meta: {found}"
            );
            return Err(Status::conflict(&pods::resource(), name, &cause));
        }
    }

    Ok(())
}

impl Eviction {
    /// Counts the eviction in the budget that selects the Pod.
    fn take_from_budget(
        &self,
        pod: &Value,
        request: &HandlerRequest<'_>,
        is_dry_run: bool,
    ) -> Result<(), Status> {
        let namespace = &request.attributes.namespace;
        let budgets = self.shared.objects.list(GROUP, BUDGETS, namespace);
        let labels = &pod["metadata"]["labels"];
        let selected: Vec<_> = budgets
            .iter()
            .filter(|budget| matches(&budget["spec"]["selector"], labels))
            .collect();
        let [budget] = selected.as_slice() else {
            let several = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return if selected.is_empty() {
                Ok(())
            } else {
                Err(Status::internal(several))
            };
        };

        if !self.has_budgets {
            return Err(Status::not_implemented(
                "evictions of pods that a PodDisruptionBudget selects, without the controller DisruptionBudgets",
            ));
        }

        let name = text(budget, &["metadata", "name"]);
        let resource = GroupResource::new(GROUP, BUDGETS);
        let key = ObjectKey::namespaced(namespace, name);
        while let Some(live) = self.shared.store.get(&resource, &key) {
            let mut budget = live.to_value().map_err(Status::internal)?;
            if allows_unhealthy(&budget, pod) {
                return Ok(());
            }

            take(&mut budget, name, &request.attributes.name, request.now)?;
            let draft = Draft::from_object(&budget);
            if is_dry_run {
                return Ok(());
            }

            match self
                .shared
                .store
                .update(&resource, &key, draft, live.revision())
            {
                Err(StoreError::Conflict { .. }) => {}
                Err(StoreError::NotFound) | Ok(_) => return Ok(()),
                Err(error) => return Err(Status::internal(error)),
            }
        }

        Ok(())
    }

    /// Deletes the Pod, as a deletion with its grace period does.
    fn delete(&self, options: &Value, request: &HandlerRequest<'_>) -> Result<(), Status> {
        let resource = self.shared.resources().preferred("", "pods");
        let resource =
            resource.ok_or_else(|| Status::internal("the resource pods is not served"))?;
        let requested = options["gracePeriodSeconds"].as_i64();

        pods::change(
            &self.shared,
            &request.attributes.namespace,
            &request.attributes.name,
            |mut pod| {
                if pod["metadata"]["deletionTimestamp"].is_string() {
                    return Ok(Outcome::Same);
                }

                let grace = resource
                    .strategy
                    .grace_period(&pod, requested)
                    .unwrap_or_default();
                let has_finalizers = pod["metadata"]["finalizers"]
                    .as_array()
                    .is_some_and(|all| !all.is_empty());
                if grace <= 0 && !has_finalizers {
                    return Ok(Outcome::Deleted);
                }

                pods::set_true(
                    &mut pod,
                    "DisruptionTarget",
                    "EvictionByEvictionAPI",
                    "Eviction API: evicting",
                    request.now,
                );

                resource.strategy.prepare_for_delete(&mut pod, request.now);
                if let Some(generation) = pod["metadata"]["generation"].as_i64() {
                    pod["metadata"]["generation"] = (generation + 1).into();
                }

                pod["metadata"]["deletionTimestamp"] = format_time(request.now).into();
                pod["metadata"]["deletionGracePeriodSeconds"] = grace.into();

                Ok(Outcome::Changed(pod))
            },
        )
    }
}

/// Reports whether a Pod that is not ready may be evicted whatever the budget has left.
fn allows_unhealthy(budget: &Value, pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    if conditions
        .into_iter()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    {
        return false;
    }

    let status = |name: &str| budget["status"][name].as_i64().unwrap_or_default();
    match text(budget, &["spec", "unhealthyPodEvictionPolicy"]) {
        "AlwaysAllow" => true,
        _ => status("desiredHealthy") > 0 && status("currentHealthy") >= status("desiredHealthy"),
    }
}

/// Takes one eviction from a budget.
fn take(budget: &mut Value, name: &str, pod: &str, now: jiff::Timestamp) -> Result<(), Status> {
    let number = |budget: &Value, pointer: &str| {
        budget
            .pointer(pointer)
            .and_then(Value::as_i64)
            .unwrap_or_default()
    };
    if number(budget, "/status/observedGeneration") < number(budget, "/metadata/generation") {
        let message =
            format!("The disruption budget {name} is still being processed by the server.");
        return Err(refuse(message, RETRY_SECONDS));
    }

    let allowed = number(budget, "/status/disruptionsAllowed");
    if allowed < 1 {
        let (needed, found) = (
            number(budget, "/status/desiredHealthy"),
            number(budget, "/status/currentHealthy"),
        );
        let message = format!(
            "The disruption budget {name} needs {needed} healthy pods and has {found} currently"
        );

        return Err(refuse(message, 0));
    }

    budget["status"]["disruptionsAllowed"] = (allowed - 1).into();
    if !budget["status"]["disruptedPods"].is_object() {
        budget["status"]["disruptedPods"] = json!({});
    }

    budget["status"]["disruptedPods"][pod] = format_time(now).into();
    if allowed == 1 {
        let conditions = budget["status"]["conditions"]
            .as_array_mut()
            .into_iter()
            .flatten();
        for condition in conditions.filter(|condition| condition["type"] == "DisruptionAllowed") {
            condition["status"] = "False".into();
            condition["reason"] = "InsufficientPods".into();
            condition["lastTransitionTime"] = format_time(now).into();
        }
    }

    Ok(())
}

fn refuse(message: String, retry_after_seconds: u32) -> Status {
    let cause = crate::apimachinery::status::Cause {
        reason: "DisruptionBudget".into(),
        message,
        field: String::new(),
    };

    let details = Details {
        causes: vec![cause],
        retry_after_seconds,
        ..Details::default()
    };

    Status::too_many_requests("Cannot evict pod as it would violate the pod's disruption budget.")
        .with_details(details)
}
