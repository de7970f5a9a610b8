//! `pods/binding`: a scheduler says on which Node a Pod runs.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    apimachinery::status::Status,
    authz::objects::text,
    builtin::registry::pods::{self, Outcome},
    server::{Handler, HandlerRequest},
    shared::Shared,
    store::GroupResource,
};

/// Binds Pods to Nodes.
pub(crate) struct Binding(pub Arc<Shared>);

impl Handler for Binding {
    fn handle(&self, request: &HandlerRequest<'_>) -> Result<(u16, Value), Status> {
        let (body, attributes) = (&request.body, request.attributes);
        // A binding in the collection `bindings` is named by its body.
        let name = match attributes.name.as_str() {
            "" => text(body, &["metadata", "name"]),
            name => name,
        };
        let node = text(body, &["target", "name"]);
        if node.is_empty() || !matches!(text(body, &["target", "kind"]), "" | "Node") {
            let message =
                "spec.target: Invalid value: a binding needs the name of a Node in target";
            return Err(Status::bad_request(message));
        }

        let is_dry_run = pods::is_dry_run(request.query, body);
        pods::change(&self.0, &attributes.namespace, name, |mut pod| {
            check(&pod, name, body)?;
            pod["spec"]["nodeName"] = node.into();

            let annotations = body["metadata"]["annotations"]
                .as_object()
                .into_iter()
                .flatten();
            for (key, value) in annotations.filter_map(|(key, value)| Some((key, value.as_str()?)))
            {
                pod["metadata"]["annotations"][key.as_str()] = value.into();
            }

            pods::set_true(&mut pod, "PodScheduled", "", "", request.now);

            Ok(if is_dry_run {
                Outcome::Same
            } else {
                Outcome::Changed(pod)
            })
        })?;

        Ok((201, pods::success()))
    }
}

fn check(pod: &Value, name: &str, body: &Value) -> Result<(), Status> {
    let resource = GroupResource::new("", "pods/binding");
    let refuse = |cause: &str| Err(Status::conflict(&resource, name, cause));
    let wanted = text(body, &["metadata", "uid"]);
    let uid = text(pod, &["metadata", "uid"]);
    if !wanted.is_empty() && wanted != uid {
        return refuse(&format!(
            "Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}"
        ));
    }
    if pod["metadata"]["deletionTimestamp"].is_string() {
        return refuse(&format!(
            "pod {name} is being deleted, cannot be assigned to a host"
        ));
    }

    let node = text(pod, &["spec", "nodeName"]);
    if !node.is_empty() {
        return refuse(&format!(
            "pod {name} is already assigned to node \"{node}\""
        ));
    }

    if pod["spec"]["schedulingGates"]
        .as_array()
        .is_some_and(|gates| !gates.is_empty())
    {
        return refuse(&format!("pod {name} has non-empty .spec.schedulingGates"));
    }

    Ok(())
}
