//! The API server's audit log: every request, whoever sent it.
//!
//! The API server writes a line before it answers (blocking mode), so each answered request is in
//! the log.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read, Seek, SeekFrom},
    ops::RangeBounds,
    path::{Path, PathBuf},
};

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

use crate::ControlPlane;

/// One stage of one request (audit.k8s.io/v1 Event); absent texts are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuditEvent {
    /// The id of the request, the same for all its stages.
    #[serde(rename = "auditID")]
    pub audit_id: String,
    /// `RequestReceived`, `ResponseStarted`, `ResponseComplete` or `Panic`.
    pub stage: String,
    /// The RBAC verb.
    pub verb: String,
    /// The path and query.
    #[serde(rename = "requestURI")]
    pub request_uri: String,
    /// The User-Agent header of the request.
    pub user_agent: String,
    /// The user that sent the request.
    pub user: User,
    /// The user that was impersonated.
    pub impersonated_user: User,
    /// The authentication of the request.
    pub authentication_metadata: AuthenticationMetadata,
    /// The object of the request.
    pub object_ref: ObjectRef,
    /// The status of the response.
    pub response_status: ResponseStatus,
    /// The API server's time when it received the request, in RFC 3339.
    pub request_received_timestamp: String,
    /// The API server's time of this stage, in RFC 3339.
    pub stage_timestamp: String,
}

impl AuditEvent {
    /// Returns the time when the API server received the request.
    ///
    /// # Panics
    /// Panics if the audit log does not have it.
    pub fn received(&self) -> Timestamp {
        self.request_received_timestamp.parse().expect("a time")
    }

    /// Returns the time of this stage.
    ///
    /// # Panics
    /// Panics if the audit log does not have it.
    pub fn at(&self) -> Timestamp {
        self.stage_timestamp.parse().expect("a time")
    }
}

/// A user of an [`AuditEvent`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct User {
    /// The user's name.
    pub username: String,
    /// The groups that the user is in.
    pub groups: Vec<String>,
    /// The extra fields, with lowercase names.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The authentication of an [`AuditEvent`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuthenticationMetadata {
    /// The verb by which constrained impersonation was allowed; empty for any other request.
    pub impersonation_constraint: String,
}

/// The object of an [`AuditEvent`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectRef {
    /// The plural name of the kind.
    pub resource: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The subresource, for example `status` or `scale`.
    pub subresource: String,
}

/// The status of the response to an [`AuditEvent`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ResponseStatus {
    /// The HTTP status.
    pub code: u16,
}

/// The whole audit log, in the order of its lines.
#[derive(Clone, Debug, Default)]
pub struct AuditLog(Vec<AuditEvent>);

impl ControlPlane {
    /// Reads the audit log, which has all requests so far.
    pub fn audit(&self) -> AuditLog {
        self.audit_from(0)
    }

    /// Returns the size of the audit log in bytes.
    pub fn audit_length(&self) -> u64 {
        fs::metadata(self.audit_path()).map_or(0, |file| file.len())
    }

    /// Reads the audit log from this byte on, which must begin a line.
    pub fn audit_from(&self, start: u64) -> AuditLog {
        AuditLog::read(&self.audit_path(), start)
    }

    pub(crate) fn audit_path(&self) -> PathBuf {
        self.folder().join("audit.log")
    }
}

impl AuditLog {
    /// Reads a log from this byte on.
    fn read(path: &Path, start: u64) -> Self {
        let read = || {
            let bytes = read_from(&mut fs::File::open(path)?, start)?;
            String::from_utf8(bytes).map_err(io::Error::other)
        };
        Self::parse(&read().unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }

    /// Parses lines of an audit log.
    pub(crate) fn parse(text: &str) -> Self {
        // The last line may be incomplete.
        Self(
            text.lines()
                .filter_map(|line| serde_json::from_str(line).ok())
                .collect(),
        )
    }

    /// Returns the watches of a resource that were answered and have not ended.
    pub fn open_watches(&self, resource: &str) -> Vec<&AuditEvent> {
        let mut open = BTreeMap::new();
        for event in self
            .0
            .iter()
            .filter(|event| event.verb == "watch" && event.object_ref.resource == resource)
        {
            match event.stage.as_str() {
                "ResponseStarted" => drop(open.insert(&event.audit_id, event)),
                "ResponseComplete" | "Panic" => drop(open.remove(&event.audit_id)),
                _ => {}
            }
        }

        open.into_values().collect()
    }

    /// Returns the completed requests with a verb on a resource, in the order in which they ended.
    pub fn done<'a>(
        &'a self,
        verb: &'a str,
        resource: &'a str,
    ) -> impl Iterator<Item = &'a AuditEvent> {
        self.0.iter().filter(move |event| {
            event.stage == "ResponseComplete"
                && event.verb == verb
                && event.object_ref.resource == resource
        })
    }

    /// Returns the completed requests for which `matches` returns true, in the order in which they
    /// ended.
    pub fn done_by(
        &self,
        matches: impl Fn(&AuditEvent) -> bool,
    ) -> impl Iterator<Item = &AuditEvent> {
        self.0
            .iter()
            .filter(move |event| event.stage == "ResponseComplete" && matches(event))
    }

    /// Counts the completed requests of a user in a time, by verb and resource (`create pods`).
    pub fn requests_of(
        &self,
        user: &str,
        time: impl RangeBounds<Timestamp>,
    ) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();

        for event in self.done_by(|event| event.user.username == user && time.contains(&event.at()))
        {
            *counts
                .entry(format!("{} {}", event.verb, event.object_ref.resource))
                .or_default() += 1;
        }

        counts
    }

    /// Returns the completed writes by ServiceAccounts of a namespace, except those of Events.
    pub fn writes_in<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a AuditEvent> {
        self.0.iter().filter(move |event| {
            let account = event
                .impersonated_user
                .username
                .strip_prefix("system:serviceaccount:");

            event.stage == "ResponseComplete"
                && account
                    .and_then(|account| account.split_once(':'))
                    .is_some_and(|(own, _)| own == namespace)
                && ["create", "update", "patch", "delete"].contains(&event.verb.as_str())
                && event.object_ref.resource != "events"
        })
    }
}

/// Reads a file from this byte on.
pub(crate) fn read_from(file: &mut fs::File, start: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watch_is_open_between_first_and_last_stage() {
        let event = |id: &str, stage: &str| AuditEvent {
            audit_id: id.into(),
            stage: stage.into(),
            verb: "watch".into(),
            object_ref: ObjectRef {
                resource: "pods".into(),
                ..ObjectRef::default()
            },
            ..AuditEvent::default()
        };

        let received = event("a", "RequestReceived");
        let stages = [
            received,
            event("a", "ResponseStarted"),
            event("b", "ResponseStarted"),
            event("a", "ResponseComplete"),
        ];

        let log = AuditLog(stages.to_vec());
        let open: Vec<_> = log
            .open_watches("pods")
            .iter()
            .map(|event| event.audit_id.clone())
            .collect();

        assert_eq!(open, ["b"]);
        assert_eq!(log.done("watch", "pods").count(), 1);
    }
}
