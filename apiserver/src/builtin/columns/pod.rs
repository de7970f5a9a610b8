//! The cells of Pods.

use serde_json::{Value, json};

use super::super::object::{at, has, int, is_true, items, text};
use super::Printer;

/// The table condition of a completed Pod.
pub(super) fn conditions(pod: &Value) -> Vec<Value> {
    let (reason, message) = match text(pod, "status.phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return Vec::new(),
    };
    vec![json!({ "type": "Completed", "status": "True", "reason": reason, "message": message })]
}

pub(super) fn cells(printer: &Printer<'_>) -> Vec<Value> {
    let pod = printer.object;
    let summary = Summary::of(pod);

    let restarts = match summary.last_restart {
        Some(time) if summary.restarts != 0 => {
            format!("{} ({} ago)", summary.restarts, printer.since_text(time))
        }
        _ => summary.restarts.to_string(),
    };

    let address = items(pod, "status.podIPs")
        .first()
        .map_or("", |first| text(first, "ip"));

    vec![
        printer.name(),
        format!("{}/{}", summary.ready, summary.containers).into(),
        summary.reason.into(),
        restarts.into(),
        printer.age(),
        if address.is_empty() {
            "<none>"
        } else {
            address
        }
        .into(),
        printer.text_or("spec.nodeName", "<none>"),
        printer.text_or("status.nominatedNodeName", "<none>"),
        readiness_gates(pod).into(),
    ]
}

fn readiness_gates(pod: &Value) -> String {
    let gates = items(pod, "spec.readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }

    let conditions = items(pod, "status.conditions");
    let is_met = |gate: &&Value| {
        let found = conditions
            .iter()
            .find(|condition| condition["type"] == gate["conditionType"]);
        found.is_some_and(|condition| condition["status"] == "True")
    };

    format!("{}/{}", gates.iter().filter(is_met).count(), gates.len())
}

/// What the columns say about a Pod's containers.
struct Summary<'a> {
    reason: String,
    containers: usize,
    ready: usize,
    restarts: i64,
    last_restart: Option<&'a str>,
}

impl<'a> Summary<'a> {
    fn of(pod: &'a Value) -> Self {
        let gated = items(pod, "status.conditions").iter().any(|condition| {
            text(condition, "type") == "PodScheduled"
                && text(condition, "reason") == "SchedulingGated"
        });

        let phase = text(pod, "status.phase");
        let own = text(pod, "status.reason");
        let reason = match (gated, own) {
            (true, _) => "SchedulingGated",
            (false, "") => phase,
            (false, own) => own,
        };

        let sidecars = items(pod, "spec.initContainers")
            .iter()
            .filter(|item| is_sidecar(item))
            .count();
        let containers = items(pod, "spec.containers").len() + sidecars;

        let mut summary = Self {
            reason: reason.to_owned(),
            containers,
            ready: 0,
            restarts: 0,
            last_restart: None,
        };

        let initializing = summary.init_containers(pod);
        let initialized = condition_is_true(pod, "Initialized");
        if !initializing || initialized {
            summary.regular_containers(pod);
        }

        let deleted = has(pod, "metadata.deletionTimestamp");
        if deleted && own == "NodeLost" {
            summary.reason = "Unknown".to_owned();
        } else if deleted && !matches!(phase, "Succeeded" | "Failed") {
            summary.reason = "Terminating".to_owned();
        }

        summary
    }

    /// Reads the init containers. Returns true if one is not done yet.
    fn init_containers(&mut self, pod: &'a Value) -> bool {
        let specs = items(pod, "spec.initContainers");
        let mut sidecar_restarts = 0;
        let mut sidecar_restart = None;
        let mut initializing = false;

        for (index, status) in items(pod, "status.initContainerStatuses")
            .iter()
            .enumerate()
        {
            let sidecar = specs
                .iter()
                .any(|spec| spec["name"] == status["name"] && is_sidecar(spec));
            self.restarted(status);

            if sidecar {
                sidecar_restarts += int(status, "restartCount").unwrap_or(0);
                sidecar_restart = later(sidecar_restart, finished(status));
            }

            let ended = at(status, "state.terminated");
            if !ended.is_null() && int(ended, "exitCode").unwrap_or(0) == 0 {
                continue;
            }

            if sidecar && is_true(status, "started") {
                self.ready += usize::from(is_true(status, "ready"));
                continue;
            }

            let waiting = text(status, "state.waiting.reason");
            self.reason = if !ended.is_null() {
                format!("Init:{}", exit_reason(ended))
            } else if !waiting.is_empty() && waiting != "PodInitializing" {
                format!("Init:{waiting}")
            } else {
                format!("Init:{index}/{}", specs.len())
            };

            initializing = true;
            break;
        }

        if !initializing || condition_is_true(pod, "Initialized") {
            self.restarts = sidecar_restarts;
            self.last_restart = sidecar_restart;
        }

        initializing
    }

    fn restarted(&mut self, status: &'a Value) {
        self.restarts += int(status, "restartCount").unwrap_or(0);
        self.last_restart = later(self.last_restart, finished(status));
    }

    fn regular_containers(&mut self, pod: &'a Value) {
        let mut running = false;
        let mut failure = None;

        for status in items(pod, "status.containerStatuses").iter().rev() {
            self.restarted(status);
            let waiting = text(status, "state.waiting.reason");
            let ended = at(status, "state.terminated");

            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if !ended.is_null() {
                self.reason = exit_reason(ended);
                if int(ended, "exitCode").unwrap_or(0) != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if is_true(status, "ready") && has(status, "state.running") {
                running = true;
                self.ready += 1;
            }
        }

        if self.reason == "Completed" {
            if running && condition_is_true(pod, "Ready") {
                self.reason = "Running".to_owned();
            } else if let Some(failure) = failure {
                self.reason = failure;
            } else if running {
                self.reason = "NotReady".to_owned();
            }
        }
    }
}

fn is_sidecar(container: &Value) -> bool {
    text(container, "restartPolicy") == "Always"
}

fn condition_is_true(pod: &Value, kind: &str) -> bool {
    items(pod, "status.conditions")
        .iter()
        .any(|condition| condition["type"] == kind && condition["status"] == "True")
}

fn finished(status: &Value) -> Option<&str> {
    at(status, "lastState.terminated.finishedAt").as_str()
}

/// The later of two times, which sort as text.
fn later<'a>(left: Option<&'a str>, right: Option<&'a str>) -> Option<&'a str> {
    left.max(right)
}

fn exit_reason(ended: &Value) -> String {
    match (text(ended, "reason"), int(ended, "signal").unwrap_or(0)) {
        ("", 0) => format!("ExitCode:{}", int(ended, "exitCode").unwrap_or(0)),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}
