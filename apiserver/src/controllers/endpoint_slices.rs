//! EndpointSlices: the addresses of the Pods that a Service selects.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{
    client::Refused,
    control_loop::{Context, Controller},
    object::{controller_reference, is_controlled_by, is_terminating, name, namespace, text, uid},
    pod_control::{has_ended, is_ready, resource},
    world::{Change, Key, World},
};
use crate::apimachinery::selector::objects::matches;

const GROUP: &str = "discovery.k8s.io";
const RESOURCE: &str = "endpointslices";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";
const SERVICE: &str = "kubernetes.io/service-name";
/// The most addresses in a slice.
const SIZE: usize = 100;

/// Keeps the EndpointSlices of Services.
pub(super) struct EndpointSlices;

fn selects(service: &Value, pod: &Value) -> bool {
    let selector = &service["spec"]["selector"];
    let is_empty = selector.as_object().is_none_or(serde_json::Map::is_empty);
    !is_empty
        && matches(
            &json!({"matchLabels": selector}),
            &pod["metadata"]["labels"],
        )
}

impl Controller for EndpointSlices {
    fn affected(&mut self, change: &Change, world: &World, keys: &mut Vec<Key>) {
        let of = |name: &str| Key::new("", "services", Some(change.key.namespace()), name);
        if change.key.is_of("", "services") {
            keys.push(change.key.clone());
        } else if change.key.is_of(GROUP, RESOURCE) {
            keys.push(of(text(change.object(), &["metadata", "labels", SERVICE])));
        } else if change.key.is_of("", "pods") {
            let services = world
                .list("", "services", change.key.namespace())
                .into_iter();
            let selecting =
                services.filter(|service| change.both().any(|pod| selects(service, pod)));
            keys.extend(selecting.map(|service| of(name(service))));
        }
    }

    fn reconcile(&mut self, key: &Key, context: &Context<'_>) -> Result<Option<Duration>, Refused> {
        let Some(service) = context.world.get(key) else {
            return Ok(None);
        };

        let has_selector = service["spec"]["selector"]
            .as_object()
            .is_some_and(|selector| !selector.is_empty());
        if is_terminating(service) || !has_selector || service["spec"]["type"] == "ExternalName" {
            return Ok(None);
        }

        let existing = context
            .world
            .list(GROUP, RESOURCE, key.namespace())
            .into_iter()
            .filter(|slice| {
                is_controlled_by(slice, uid(service))
                    && text(slice, &["metadata", "labels", MANAGED_BY]) == MANAGER
            });

        let resource = resource(GROUP, RESOURCE, context)?;
        let mut existing = existing.cloned().collect::<Vec<Arc<Value>>>().into_iter();

        for (ports, endpoints) in wanted_slices(service, context.world) {
            let Some(slice) = existing.next() else {
                context.client.create(
                    &resource,
                    Some(key.namespace()),
                    &new_slice(service, &ports, &endpoints),
                )?;
                continue;
            };

            let mut changed = (*slice).clone();
            changed["ports"] = ports;
            changed["endpoints"] = endpoints;
            if !is_same(&changed, &slice) {
                context.client.update(&resource, &changed, "")?;
            }
        }

        existing.try_for_each(|slice| context.client.delete(&resource, &slice, ""))?;
        Ok(None)
    }
}

/// Compares ports and endpoints, where absent means none.
fn is_same(one: &Value, other: &Value) -> bool {
    let list = |slice: &Value, member: &str| slice[member].as_array().cloned().unwrap_or_default();
    ["ports", "endpoints"]
        .into_iter()
        .all(|member| list(one, member) == list(other, member))
}

/// The ports and endpoints of the slices that a Service should have.
fn wanted_slices(service: &Value, world: &World) -> Vec<(Value, Value)> {
    let mut by_ports: BTreeMap<String, (Value, Vec<Value>)> = BTreeMap::new();

    for pod in world.list("", "pods", namespace(service)) {
        if !selects(service, pod) || has_ended(pod) || text(pod, &["status", "podIP"]).is_empty() {
            continue;
        }

        let ports = ports(service, Some(pod));
        by_ports
            .entry(ports.to_string())
            .or_insert_with(|| (ports, Vec::new()))
            .1
            .push(endpoint(service, pod));
    }

    let slices: Vec<(Value, Value)> = by_ports
        .into_values()
        .flat_map(|(ports, endpoints)| {
            endpoints
                .chunks(SIZE)
                .map(|chunk| (ports.clone(), json!(chunk)))
                .collect::<Vec<_>>()
        })
        .collect();
    // A Service without Pods still has one slice.
    if slices.is_empty() {
        vec![(json!([]), json!([]))]
    } else {
        slices
    }
}

fn endpoint(service: &Value, pod: &Value) -> Value {
    let is_serving = is_ready(pod);
    let ignores_readiness = service["spec"]["publishNotReadyAddresses"] == true;
    let mut endpoint = json!({
        "addresses": [pod["status"]["podIP"]], "nodeName": pod["spec"]["nodeName"],
        "conditions": {
            "ready": ignores_readiness || (is_serving && !is_terminating(pod)),
            "serving": is_serving || ignores_readiness, "terminating": is_terminating(pod),
        },
        "targetRef": {"kind": "Pod", "name": name(pod), "namespace": namespace(pod), "uid": uid(pod)},
    });

    let hostname = text(pod, &["spec", "hostname"]);
    if !hostname.is_empty() && text(pod, &["spec", "subdomain"]) == name(service) {
        endpoint["hostname"] = hostname.into();
    }

    endpoint
}

/// A Service's ports on a Pod, without named ports that the Pod lacks.
fn ports(service: &Value, pod: Option<&Arc<Value>>) -> Value {
    let all = service["spec"]["ports"].as_array().into_iter().flatten();
    let ports = all.filter_map(|port| {
        let target = port.get("targetPort").unwrap_or(&port["port"]);
        let number = match target.as_str() {
            Some(named) => pod.and_then(|pod| container_port(pod, named, &port["protocol"]))?,
            None => target.clone(),
        };

        let mut found =
            json!({"name": text(port, &["name"]), "port": number, "protocol": port["protocol"]});
        if let Some(protocol) = port.get("appProtocol") {
            found["appProtocol"] = protocol.clone();
        }

        Some(found)
    });
    ports.collect()
}

fn container_port(pod: &Value, named: &str, protocol: &Value) -> Option<Value> {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let mut ports =
        containers.flat_map(|container| container["ports"].as_array().into_iter().flatten());
    let port = ports.find(|port| port["name"] == named && port["protocol"] == *protocol)?;
    Some(port["containerPort"].clone())
}

fn new_slice(service: &Value, ports: &Value, endpoints: &Value) -> Value {
    let mut labels = service["metadata"]["labels"].clone();
    labels[MANAGED_BY] = MANAGER.into();
    labels[SERVICE] = name(service).into();

    if service["spec"]["clusterIP"] == "None" {
        labels["service.kubernetes.io/headless"] = "".into();
    }

    json!({
        "metadata": {
            "generateName": format!("{}-", name(service)), "namespace": namespace(service), "labels": labels,
            "ownerReferences": [controller_reference(service)],
        },
        "addressType": "IPv4", "ports": ports, "endpoints": endpoints,
    })
}
