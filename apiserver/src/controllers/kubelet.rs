//! A stand-in for all kubelets: nothing runs, but everything is reported as running.
//!
//! It behaves like the kwok stages of Operetta's test control plane: Nodes are ready, bound Pods run
//! at once, those of Jobs succeed, and deleted ones end.

use std::{sync::Arc, time::Duration};

use http::Method;
use serde_json::{Value, json};

use super::{
    client::{Refused, if_found, path_of},
    control_loop::{Context, Controller},
    object::{
        condition, is_terminating, is_true, name, namespace, number, owner_references, text, time,
        uid,
    },
    world::{Change, Key, World},
};
use crate::server::format_time;

/// The Node that always exists.
pub(super) const NODE: &str = "node";
/// The most seconds that a deleted Pod takes to end. A shorter grace period is honoured.
const LONGEST_GRACE: i64 = 1;
/// Pod addresses start after this one.
const FIRST_ADDRESS: u32 = u32::from_be_bytes([10, 128, 0, 0]);
const ADDRESSES: u32 = 1 << 23;

/// Reports the state of Nodes and Pods.
#[derive(Default)]
pub(super) struct Kubelet {
    /// The offset of the last address given to a Pod.
    last_address: u32,
}

impl Controller for Kubelet {
    fn first_keys(&self) -> Vec<Key> {
        vec![Key::new("", "nodes", None, NODE)]
    }

    fn affected(&mut self, change: &Change, world: &World, keys: &mut Vec<Key>) {
        if change.key.is_of("", "pods") {
            let address = text(change.object(), &["status", "podIP"]).parse::<std::net::Ipv4Addr>();
            let number = address
                .ok()
                .and_then(|address| u32::from(address).checked_sub(FIRST_ADDRESS));

            self.last_address = self.last_address.max(
                number
                    .filter(|number| *number < ADDRESSES)
                    .unwrap_or_default(),
            );

            keys.push(change.key.clone());
        } else if change.key.is_of("", "nodes") {
            keys.push(change.key.clone());

            if change.old.is_none() {
                let pods = world
                    .all("", "pods")
                    .filter(|pod| text(pod, &["spec", "nodeName"]) == change.key.object.name());
                keys.extend(pods.map(|pod| Key::new("", "pods", Some(namespace(pod)), name(pod))));
            }
        }
    }

    fn reconcile(&mut self, key: &Key, context: &Context<'_>) -> Result<Option<Duration>, Refused> {
        if key.is_of("", "nodes") {
            return reconcile_node(key, context).map(|()| None);
        }
        let Some(pod) = context.world.get(key) else {
            return Ok(None);
        };

        let node = text(pod, &["spec", "nodeName"]);
        let Some(node) = context.world.get(&Key::new("", "nodes", None, node)) else {
            return Ok(None);
        };
        if is_terminating(pod) {
            return end(pod, context);
        }

        match text(pod, &["status", "phase"]) {
            "Pending" | "" => self.start(pod, node, context).map(|()| None),
            "Running" if owner_references(pod).any(|owner| owner["kind"] == "Job") => {
                complete(pod, context).map(|()| None)
            }
            _ => Ok(None),
        }
    }
}

fn reconcile_node(key: &Key, context: &Context<'_>) -> Result<(), Refused> {
    let Some(resource) = context.world.resource(&key.resource) else {
        return Ok(());
    };

    let Some(node) = context.world.get(key) else {
        if key.object.name() != NODE {
            return Ok(());
        }
        let labels = json!({"kubernetes.io/arch": "amd64", "kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux"});
        return context
            .client
            .create(
                &resource,
                None,
                &json!({"metadata": {"name": NODE, "labels": labels}}),
            )
            .map(drop);
    };

    if condition(&node["status"], "Ready").is_some() {
        return Ok(());
    }

    let now = format_time(context.now);
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        })
    };

    let resources = json!({"cpu": "1k", "memory": "1Ti", "pods": "1M"});
    let mut changed = (**node).clone();

    changed["status"] = json!({
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "allocatable": resources, "capacity": resources,
        "conditions": [
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ],
        "nodeInfo": {
            "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "embedded", "kernelVersion": "",
            "kubeProxyVersion": "", "kubeletVersion": "v1.36.2", "machineID": "", "operatingSystem": "linux",
            "osImage": "", "systemUUID": "",
        },
    });

    if_found(context.client.update(&resource, &changed, "status"))
}

/// Removes a deleted Pod after its grace period.
fn end(pod: &Value, context: &Context<'_>) -> Result<Option<Duration>, Refused> {
    let grace = number(pod, "/metadata/deletionGracePeriodSeconds", 0);
    if grace == 0 {
        // Only finalizers keep it.
        return Ok(None);
    }
    let Some(deleted) = time(&pod["metadata"]["deletionTimestamp"]) else {
        return Ok(None);
    };

    let left = deleted.as_second() + grace.min(LONGEST_GRACE) - context.now.as_second();
    if let Some(left) = u64::try_from(left).ok().filter(|left| *left > 0) {
        return Ok(Some(Duration::from_secs(left)));
    }

    let pods = Key::new("", "pods", None, "").resource;
    let Some(resource) = context.world.resource(&pods) else {
        return Ok(None);
    };

    let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid(pod)}});
    let path = path_of(&resource, pod, "");
    if_found(
        context
            .client
            .send(Method::DELETE, &path, "application/json", &options),
    )
    .map(|()| None)
}

fn write(pod: &Value, status: Value, context: &Context<'_>) -> Result<(), Refused> {
    let pods = Key::new("", "pods", None, "").resource;
    let Some(resource) = context.world.resource(&pods) else {
        return Ok(());
    };

    let mut changed = pod.clone();
    changed["status"] = status;
    if_found(context.client.update(&resource, &changed, "status"))
}

impl Kubelet {
    fn start(
        &mut self,
        pod: &Value,
        node: &Arc<Value>,
        context: &Context<'_>,
    ) -> Result<(), Refused> {
        let now = format_time(context.now);
        let mut status = pod["status"].clone();

        let gates = pod["spec"]["readinessGates"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|gate| text(gate, &["conditionType"]));
        let set: Vec<&str> = ["Initialized", "Ready", "ContainersReady"]
            .into_iter()
            .chain(gates)
            .collect();

        let set_now = set
            .iter()
            .map(|kind| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": now}));

        let old = pod["status"]["conditions"].as_array().into_iter().flatten();
        let kept = old
            .filter(|old| !set.contains(&text(old, &["type"])))
            .cloned();

        let scheduled = json!({
            "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
        });
        // A Pod created with a nodeName was never bound, so nothing has reported it as scheduled.
        let scheduled = (!is_true(&pod["status"], "PodScheduled")).then_some(scheduled);
        let kept = kept.filter(|old| scheduled.is_none() || old["type"] != "PodScheduled");

        status["conditions"] = set_now.chain(kept).chain(scheduled.clone()).collect();
        status["containerStatuses"] = running(pod, "containers", &now);
        if pod["spec"]["initContainers"].is_array() {
            status["initContainerStatuses"] = running(pod, "initContainers", &now);
        }

        let host = node["status"]["addresses"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|address| address["type"] == "InternalIP")
            .map_or("127.0.0.1", |address| text(address, &["address"]));

        let own = if pod["spec"]["hostNetwork"] == true {
            host.to_owned()
        } else {
            self.next_address()
        };

        status["hostIP"] = host.into();
        status["hostIPs"] = json!([{"ip": host}]);
        status["podIP"] = own.as_str().into();
        status["podIPs"] = json!([{"ip": own}]);
        status["phase"] = "Running".into();
        status["startTime"] = now.into();

        write(pod, status, context)
    }

    fn next_address(&mut self) -> String {
        self.last_address = (self.last_address + 1) % ADDRESSES;
        std::net::Ipv4Addr::from(FIRST_ADDRESS + self.last_address).to_string()
    }
}

/// The statuses of running containers. Init containers have ended, unless they are sidecars.
fn running(pod: &Value, list: &str, now: &str) -> Value {
    let containers = pod["spec"][list].as_array().into_iter().flatten();

    let statuses = containers.map(|container| {
        let is_over = list == "initContainers" && container["restartPolicy"] != "Always";
        let state = if is_over {
            json!({"terminated": {"exitCode": 0, "finishedAt": now, "reason": "Completed", "startedAt": now}})
        } else {
            json!({"running": {"startedAt": now}})
        };
        json!({
            "name": container["name"], "image": container["image"], "imageID": "", "ready": true, "restartCount": 0,
            "started": !is_over, "state": state, "lastState": {},
        })
    });
    statuses.collect()
}

/// Reports that a Pod's containers have succeeded.
fn complete(pod: &Value, context: &Context<'_>) -> Result<(), Refused> {
    let now = format_time(context.now);
    let mut status = pod["status"].clone();

    for container in status["containerStatuses"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        container["ready"] = false.into();
        container["started"] = false.into();

        let started = &container["state"]["running"]["startedAt"];
        let started = if started.is_string() {
            started.clone()
        } else {
            now.as_str().into()
        };

        let ended =
            json!({"exitCode": 0, "finishedAt": now, "reason": "Completed", "startedAt": started});
        container["state"] = json!({"terminated": ended});
    }

    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        if matches!(text(condition, &["type"]), "Ready" | "ContainersReady") {
            condition["status"] = "False".into();
            condition["reason"] = "PodCompleted".into();
            condition["lastTransitionTime"] = now.as_str().into();
        }
    }

    status["phase"] = "Succeeded".into();
    write(pod, status, context)
}
