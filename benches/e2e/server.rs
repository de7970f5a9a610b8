//! What the API server saw of a load: requests and conflicts from its audit log, bytes from its
//! metrics.

use std::collections::BTreeMap;

use operetta_testkit::{AuditEvent, AuditLog, ControlPlane, metric_sum};

use crate::subject::Subject;

/// The sums of bytes that the API server sent: responses, and events of watches. This program's own
/// watches and the responses to its writes are a part of them, the same part for each controller.
const BYTES: [&str; 2] = [
    "apiserver_response_sizes_sum",
    "apiserver_watch_events_sizes_sum",
];

/// A load that is being counted.
pub struct Requests<'a> {
    control_plane: &'a ControlPlane,
    audited: u64,
    bytes: f64,
}

/// What an object cost the API server.
#[derive(Clone, Debug, Default)]
pub struct ServerFigures {
    /// The completed requests of the controller for an object, without watches.
    pub requests: f64,
    /// The bytes that the API server sent for an object.
    pub bytes: f64,
    /// The responses 409: updates of an outdated object, and creations of one that exists.
    pub conflicts: f64,
    /// The number of requests by verb and resource.
    pub by_request: BTreeMap<String, usize>,
}

impl<'a> Requests<'a> {
    /// Begins to count.
    pub async fn begin(control_plane: &'a ControlPlane) -> Self {
        let bytes = bytes(control_plane).await;
        Self {
            control_plane,
            audited: control_plane.audit_length(),
            bytes,
        }
    }

    /// Returns how many requests of the controller were answered with 409 so far.
    pub fn conflicts(&self, subject: Subject) -> f64 {
        conflicts(&self.control_plane.audit_from(self.audited), subject)
    }

    /// Returns what so many objects cost.
    pub async fn end(self, subject: Subject, objects: usize) -> ServerFigures {
        let sent = bytes(self.control_plane).await - self.bytes;
        let audit = self.control_plane.audit_from(self.audited);
        let mut by_request: BTreeMap<String, usize> = BTreeMap::new();
        for event in audit.done_by(|event| subject.is_of_controller(event)) {
            let of = &event.object_ref;
            let path = [of.resource.as_str(), of.subresource.as_str()].join("/");
            *by_request
                .entry(format!("{} {}", event.verb, path.trim_end_matches('/')))
                .or_default() += 1;
        }
        let requests: usize = by_request.values().sum();
        let (requests, bytes) = (requests as f64 / objects as f64, sent / objects as f64);
        ServerFigures {
            requests,
            bytes,
            conflicts: conflicts(&audit, subject),
            by_request,
        }
    }
}

fn conflicts(audit: &AuditLog, subject: Subject) -> f64 {
    let is_conflict =
        |event: &AuditEvent| subject.is_of_controller(event) && event.response_status.code == 409;
    audit.done_by(is_conflict).count() as f64
}

/// Returns the bytes that the API server has sent.
async fn bytes(control_plane: &ControlPlane) -> f64 {
    let metrics = control_plane.metrics().await;
    BYTES
        .iter()
        .map(|name| metric_sum(&metrics, name, &[]))
        .sum()
}
